"""The sources of kafka-console-consumer: a partition, or a group of either kind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ottla.cli.kafka.message_formatters import Record
from ottla.cli.kafka.tool import ToolRefused
from ottla.consumer.classic.java_regex import compile_java
from ottla.consumer.classic.topic_count import Blacklist, TopicFilter, Whitelist
from ottla.consumer.coordinated.group_consumer_config import GROUP_PROPERTIES
from ottla.model.offset_spec import OffsetSpec
from ottla.model.property_table import snake

if TYPE_CHECKING:
    from ottla.consumer.coordinated import GroupConsumer
    from ottla.consumer.partition import PartitionConsumer

FIRST_CONTACT_S = 5.0
_RESETS = {"earliest": "smallest", "latest": "largest"}


@dataclass(frozen=True)
class Wish:
    """What to read: `topic`, `pattern` or `excluded`. A negative `timeout_ms` means to wait for ever.

    Without a `group`, all partitions that exist are read; only then `start` may be a time, and `starts` may
    set it for single partitions.
    """

    properties: dict[str, object]
    topic: str | None
    pattern: str | None
    excluded: str | None
    group: str
    is_group_made_up: bool
    partition: int | None
    start: OffsetSpec
    timeout_ms: int
    deletes_group: bool
    starts: Mapping[int, int] = field(default_factory=dict)


@contextmanager
def records(wish: Wish) -> Iterator[Iterator[Record]]:
    """Iterate over the records within the block."""
    if "zookeeper.connect" in wish.properties:
        source = _of_classic_group
    elif wish.partition is not None or not wish.group:
        source = _of_partitions
    else:
        source = _of_group
    with source(wish) as records_read:
        yield records_read


@contextmanager
def _of_partitions(wish: Wish) -> Iterator[Iterator[Record]]:
    from ottla.consumer.partition import PartitionConsumer
    from ottla.consumer.partition.partition_config import PARTITION_PROPERTIES

    known = {name for row in PARTITION_PROPERTIES for name in row.names}
    for_groups = {name for row in GROUP_PROPERTIES for name in row.names} - known
    properties = {name: value for name, value in wish.properties.items() if snake(name) not in for_groups}
    properties["auto.offset.reset"] = _RESETS.get(str(wish.start), "smallest")
    topic = wish.topic or ""
    with PartitionConsumer(properties) as consumer:
        consumer.check_brokers(_brokers_patience_s(wish))
        for partition in consumer.partitions(topic) if wish.partition is None else [wish.partition]:
            consumer.consume_partition(topic, partition, wish.starts.get(partition, wish.start))
        yield _explained(consumer, consumer.messages(_seconds(wish)))


@contextmanager
def _of_group(wish: Wish) -> Iterator[Iterator[Record]]:
    from ottla.consumer.coordinated import GroupConsumer

    properties = {"auto.offset.reset": _RESETS[str(wish.start)], **wish.properties}
    if wish.is_group_made_up:
        properties.setdefault("enable.auto.commit", "false")
    topics = compile_java(wish.pattern) if wish.pattern is not None else wish.topic or ""
    with GroupConsumer(topics, properties, group_id=wish.group) as consumer:
        consumer.check_brokers(_brokers_patience_s(wish))
        yield _explained(consumer, consumer.messages(_seconds(wish)))


@contextmanager
def _of_classic_group(wish: Wish) -> Iterator[Iterator[Record]]:
    from ottla.cli.kafka.zookeeper_session import zookeeper_session
    from ottla.consumer.classic import ConsumerConnector
    from ottla.zookeeper import paths
    from ottla.zookeeper.recipes import delete_tree

    connect = str(wish.properties["zookeeper.connect"])
    group = paths.group(wish.group)
    with zookeeper_session(connect) as session:
        if session.exists(paths.BROKER_IDS) is None:
            raise ToolRefused("No brokers found in ZK.")
        if wish.deletes_group:
            delete_tree(session, group)
        elif wish.start == "earliest" and session.exists(paths.offsets(wish.group)) is not None:
            raise ToolRefused(
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
                connector.check_brokers(_brokers_patience_s(wish))
                yield _until_timeout(stream)
        finally:
            if wish.is_group_made_up:
                delete_tree(session, group)


def _seconds(wish: Wish) -> float | None:
    return wish.timeout_ms / 1000 if wish.timeout_ms >= 0 else None


def _brokers_patience_s(wish: Wish) -> float | None:
    """Return how long the first answer of a broker may take: not shorter because the time between records is
    short.
    """
    return max(wish.timeout_ms / 1000, FIRST_CONTACT_S) if wish.timeout_ms >= 0 else None


def _explained(consumer: GroupConsumer | PartitionConsumer, messages: Iterator[Record]) -> Iterator[Record]:
    """Yield the messages. At the end, raise an error if it came because brokers give no usable answers."""
    yield from messages
    error = consumer.network_error
    if error is not None:
        raise error


def _filter(wish: Wish) -> TopicFilter:
    # As in Kafka, the topic's name is a pattern here.
    return Blacklist(wish.excluded) if wish.excluded else Whitelist(wish.topic or wish.pattern or "")


def _until_timeout(stream: Iterator[Record]) -> Iterator[Record]:
    from ottla.model.errors import ConsumerTimeout

    while True:
        try:
            yield next(stream)
        except StopIteration:
            return
        except ConsumerTimeout as error:
            if error.__cause__ is not None:
                raise
            return
