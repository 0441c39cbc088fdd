"""Kafka's small tools for offsets of classic groups: export, import, and setting all offsets of a topic."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ottla.admin import Admin
from ottla.cli.kafka.flags import Flag, Options
from ottla.cli.kafka.settings import profile_properties
from ottla.cli.kafka.tool import Tool, ToolRefused, require, run_tool, show
from ottla.cli.kafka.zookeeper_session import zookeeper_session
from ottla.model.errors import ConfigError
from ottla.offsets.export_format import export_entries, export_line
from ottla.zookeeper import paths
from ottla.zookeeper.recipes import children_if_present, read_if_present, write_persistent

_CONNECT = Flag("zkconnect", "HOST:PORT,... of ZooKeeper (default localhost:2181).")
_USAGE = "USAGE: kafka.tools.UpdateOffsetsInZK$ [earliest | latest] consumer.properties topic"


def export(arguments: Sequence[str]) -> int:
    """Write the offsets of groups to a file."""
    return run_tool(EXPORT, arguments)


def _export(options: Options) -> int:
    require(options, "output-file")
    with zookeeper_session(options.text("zkconnect", "localhost:2181")) as session:
        groups = options.values("group") or children_if_present(session, paths.CONSUMERS)
        lines = []
        for group in groups:
            for topic in children_if_present(session, paths.offsets(group)):
                for name in children_if_present(session, paths.topic_offsets(group, topic)):
                    path = paths.child(paths.topic_offsets(group, topic), name)
                    stored = read_if_present(session, path)
                    if stored is not None:
                        lines.append(export_line(path, stored.data.decode()))
    Path(options.text("output-file")).write_text("".join(lines))
    return 0


def load(arguments: Sequence[str]) -> int:
    """Write offsets of a file to ZooKeeper."""
    return run_tool(IMPORT, arguments)


def _load(options: Options) -> int:
    require(options, "input-file")
    try:
        text = Path(options.text("input-file")).read_text()
    except OSError as error:
        raise ConfigError(
            f"{options.text('input-file')} cannot be read: {error.strerror or error}"
        ) from error
    with zookeeper_session(options.text("zkconnect", "localhost:2181")) as session:
        for path, offset in export_entries(text):
            write_persistent(session, path, offset.encode())
    return 0


def update(arguments: Sequence[str]) -> int:
    """Set a group's offsets of a topic to its beginning or its end."""
    words = list(arguments)
    if words and words[0] in ("-h", "--help"):
        show(f"usage: {_USAGE.removeprefix('USAGE: ')}")
        raise SystemExit(0)
    if len(words) < 3:
        show(_USAGE)
        return 1
    where, path, topic = words[:3]
    return run_tool(Tool("UpdateOffsetsInZK", _USAGE, (), lambda _: _update(where, path, topic)), ["-"])


def _update(where: str, path: str, topic: str) -> int:
    from ottla.model.java_properties import read_properties

    moments = {"earliest": "earliest", "latest": "latest"}
    if where not in moments:
        raise ToolRefused(_USAGE)
    properties = read_properties(path)
    group, connect = properties.get("group.id", ""), properties.get("zookeeper.connect", "")
    if not group or not connect:
        raise ConfigError(f"{path}: group.id and zookeeper.connect are wanted")
    settings = {**profile_properties(), "zookeeper.connect": connect}
    with zookeeper_session(connect) as session, Admin(settings) as admin:
        offsets = admin.list_offsets(topic, moments[where])
        for topic_partition, log_offset in sorted(offsets.items()):
            show(f"updating partition {topic_partition.partition} with new offset: {log_offset.offset}")
            write_persistent(session, paths.offset(group, *topic_partition), str(log_offset.offset).encode())
    show(f"updated the offset for {len(offsets)} partitions")
    return 0


EXPORT = Tool(
    "ExportZkOffsets",
    "Export consumer offsets to an output file.",
    (
        _CONNECT,
        Flag("group", "A group; may come more than once. All groups if not given."),
        Flag("output-file", "The file."),
    ),
    _export,
)
IMPORT = Tool(
    "ImportZkOffsets",
    "Import offsets to zookeeper from files.",
    (_CONNECT, Flag("input-file", "Lines as ExportZkOffsets writes them.")),
    _load,
)
