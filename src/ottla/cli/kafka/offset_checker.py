"""kafka-consumer-offset-checker, or ConsumerOffsetChecker: the lag of a classic group, and its owners."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.admin import Admin
from ottla.cli.kafka.classic_offsets import ClassicOffset, ClassicOffsets
from ottla.cli.kafka.flags import Options
from ottla.cli.kafka.settings import profile_properties
from ottla.cli.kafka.tool import require, run_tool, show, tool_of
from ottla.cli.kafka.usage.offset_checker import USAGE
from ottla.cli.kafka.zookeeper_session import zookeeper_session
from ottla.client.zookeeper_metadata import ZooKeeperMetadata
from ottla.zookeeper import paths
from ottla.zookeeper.session import ZooKeeperSession

_ROW = "{:<15} {:<30} {:<3} {:<15} {:<15} {:<15} {}"
_NO_NODE = "org.apache.zookeeper.KeeperException$NoNodeException: KeeperErrorCode = NoNode for {}"


def run(arguments: Sequence[str]) -> int:
    """Print the lag."""
    return run_tool(TOOL, arguments)


def _act(options: Options) -> int:
    require(options, "group")
    connect = options.text("zookeeper", "localhost:2181")
    settings = {"zookeeper.connect": connect, "request.timeout.ms": options.whole("socket.timeout.ms", 6_000)}
    with zookeeper_session(connect) as session, Admin({**profile_properties(), **settings}) as admin:
        missing = _print(session, admin, options)
    if missing:
        show(f"Exiting due to: {_NO_NODE.format(missing)}.")
    return 0


def _print(session: ZooKeeperSession, admin: Admin, options: Options) -> str:
    """Print the rows. Returns the path of a missing znode, or ""."""
    group = options.text("group")
    offsets = ClassicOffsets(session, admin)
    if options.has("topic"):
        topics = sorted(options.text("topic").split(","))
    elif session.exists(paths.owners(group)) is None:
        return paths.owners(group)
    else:
        topics = offsets.owned_topics(group)
    rows = offsets.of_topics(group, topics)
    for row in rows:
        if (
            row.offset is None
            and session.exists(paths.topic_offsets(group, row.topic_partition.topic)) is None
        ):
            return paths.offset(group, *row.topic_partition)
    show(_ROW.format("Group", "Topic", "Pid", "Offset", "logSize", "Lag", "Owner"))
    for row in rows:
        _print_row(group, row)
    if options.has("broker-info"):
        show("BROKER INFO")
        leaders = {row.leader for row in rows}
        for number_, node in ZooKeeperMetadata(session).brokers().items():
            if number_ in leaders:
                show(f"{number_} -> {node.host}:{node.port}")
    return ""


def _print_row(group: str, row: ClassicOffset) -> None:
    if row.leader is None:
        show(f"No broker for partition {row.topic_partition.topic} - {row.topic_partition.partition}")
    elif row.end is not None:
        offset = -1 if row.offset is None else row.offset
        lag = "unknown" if row.lag is None else row.lag
        show(
            _ROW.format(
                group,
                *row.topic_partition,
                offset,
                row.end,
                lag,
                row.owner or "none",
            )
        )


TOOL = tool_of(USAGE, _act)
