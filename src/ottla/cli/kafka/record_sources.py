"""Where kafka-console-consumer has its records from: a partition, or a group of either kind."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from ottla.classic.java_regex import compile_java
from ottla.classic.topic_count import Blacklist, TopicFilter, Whitelist
from ottla.cli.kafka.message_formatters import Record
from ottla.cli.kafka.tool import Refused
from ottla.client.properties import snake
from ottla.grouped.config import GROUP_PROPERTIES

_RESETS = {"earliest": "smallest", "latest": "largest"}


@dataclass(frozen=True)
class Wish:
    """What is to be read: `topic`, `pattern` or `excluded`. A `timeout_ms` below 0 is without end."""

    properties: dict[str, object]
    topic: str | None
    pattern: str | None
    excluded: str | None
    group: str
    is_group_made_up: bool
    partition: int | None
    start: int | str
    timeout_ms: int
    deletes_group: bool


@contextmanager
def records(wish: Wish) -> Iterator[Iterator[Record]]:
    """The records, while the block lasts."""
    if "zookeeper.connect" in wish.properties:
        source = _of_classic_group
    elif wish.partition is not None:
        source = _of_partition
    else:
        source = _of_group
    with source(wish) as found:
        yield found


@contextmanager
def _of_partition(wish: Wish) -> Iterator[Iterator[Record]]:
    from ottla.partition import PartitionConsumer
    from ottla.partition.config import PARTITION_PROPERTIES

    known = {name for row in PARTITION_PROPERTIES for name in row.names}
    for_groups = {name for row in GROUP_PROPERTIES for name in row.names} - known
    properties = {name: value for name, value in wish.properties.items() if snake(name) not in for_groups}
    properties["auto.offset.reset"] = _RESETS.get(str(wish.start), "smallest")
    with PartitionConsumer(properties) as consumer:
        consumer.consume_partition(wish.topic or "", wish.partition or 0, wish.start)
        yield consumer.messages(wish.timeout_ms)


@contextmanager
def _of_group(wish: Wish) -> Iterator[Iterator[Record]]:
    from ottla.grouped import GroupConsumer

    properties = {"auto.offset.reset": _RESETS[str(wish.start)], **wish.properties}
    if wish.is_group_made_up:
        properties.setdefault("enable.auto.commit", "false")
    topics = compile_java(wish.pattern) if wish.pattern is not None else wish.topic or ""
    with GroupConsumer(topics, wish.group, properties) as consumer:
        yield consumer.messages(wish.timeout_ms if wish.timeout_ms >= 0 else None)


@contextmanager
def _of_classic_group(wish: Wish) -> Iterator[Iterator[Record]]:
    from ottla.classic import ConsumerConnector
    from ottla.cli.kafka.keeper import keeper
    from ottla.zookeeper import paths
    from ottla.zookeeper.recipes import delete_tree

    connect = str(wish.properties["zookeeper.connect"])
    group = paths.group(wish.group)
    with keeper(connect) as session:
        if session.exists(paths.BROKER_IDS) is None:
            raise Refused("No brokers found in ZK.")
        if wish.deletes_group:
            delete_tree(session, group)
        elif wish.start == "earliest" and session.exists(paths.offsets(wish.group)) is not None:
            raise Refused(
                f"Found previous offset information for this group {wish.group}. Please use "
                "--delete-consumer-offsets to delete previous offsets metadata"
            )
        properties = wish.properties | {
            "group.id": wish.group,
            "auto.offset.reset": _RESETS.get(str(wish.start), "largest"),
            "consumer.timeout.ms": wish.timeout_ms,
        }
        try:
            with ConsumerConnector(properties) as connector:
                (stream,) = connector.create_message_streams_by_filter(_filter(wish))
                yield _until_timeout(stream)
        finally:
            if wish.is_group_made_up:
                delete_tree(session, group)


def _filter(wish: Wish) -> TopicFilter:
    # As in Kafka, the name of a topic is a pattern here.
    return Blacklist(wish.excluded) if wish.excluded else Whitelist(wish.topic or wish.pattern or "")


def _until_timeout(stream: Iterator[Record]) -> Iterator[Record]:
    from ottla.classic.errors import ConsumerTimeout

    while True:
        try:
            yield next(stream)
        except (StopIteration, ConsumerTimeout):
            return
