"""kafka.tools.VerifyConsumerRebalance: checks that a live member owns every partition of a classic group."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Sequence

from ottla.cli.kafka.flags import Flag, Options
from ottla.cli.kafka.tool import Tool, require, run_tool, show
from ottla.cli.kafka.zookeeper_session import zookeeper_session
from ottla.client.zookeeper_metadata import ZooKeeperMetadata
from ottla.consumer.classic.topic_count import topic_count_of
from ottla.zookeeper import paths
from ottla.zookeeper.consumer_znodes import decode_registration
from ottla.zookeeper.recipes import children_if_present, read_if_present
from ottla.zookeeper.session import ZooKeeperSession

log = logging.getLogger(__name__)

FLAGS = (
    Flag("zookeeper.connect", "HOST:PORT,... of ZooKeeper (default localhost:2181)."),
    Flag("group", "The group."),
)


def run(arguments: Sequence[str]) -> int:
    """Print whether every partition has an owner."""
    return run_tool(TOOL, arguments)


def _act(options: Options) -> int:
    require(options, "group")
    with zookeeper_session(options.text("zookeeper.connect", "localhost:2181")) as session:
        problems = unowned(session, options.text("group"))
    for text in problems:
        log.warning("%s", text)
    show("Rebalance operation failed !" if problems else "Rebalance operation successful !")
    return 0


def unowned(session: ZooKeeperSession, group: str) -> list[str]:
    """A message for each partition without a valid owner."""
    problems = []
    metadata = ZooKeeperMetadata(session)
    for topic, threads in sorted(_threads(session, group).items()):
        for partition in metadata.topic(topic).partitions:
            stored = read_if_present(session, paths.owner(group, topic, partition.index))
            owner = "" if stored is None else stored.data.decode()
            if not owner:
                problems.append(f"No owner for partition [{topic},{partition.index}]")
            elif owner not in threads:
                problems.append(
                    f"Owner {owner} for partition [{topic},{partition.index}] is not a valid member of "
                    f"consumer group {group}"
                )
    return problems


def _threads(session: ZooKeeperSession, group: str) -> dict[str, set[str]]:
    """The thread ids of all members, by topic."""
    topics = children_if_present(session, paths.TOPICS)
    threads: dict[str, set[str]] = defaultdict(set)
    for name in children_if_present(session, paths.consumer_ids(group)):
        path = paths.consumer(group, name)
        node = read_if_present(session, path)
        if node is None:
            continue  # it has left meanwhile
        counts = topic_count_of(decode_registration(path, node.data))
        for topic, count in counts.stream_counts(topics, exclude_internal_topics=False).items():
            threads[topic] |= {f"{name}-{number}" for number in range(count)}
    return threads


TOOL = Tool("VerifyConsumerRebalance", "Verify that every partition has an owner.", FLAGS, _act)
