"""What a message handler gets and returns: one message in, any number of records out.

    def handler(message):                                  # MessageAndMetadata
        yield MirrorRecord(f"eu.{message.topic}", message.value, message.key)

With a handler a mirror works row by row; without one it sends columns as they were fetched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import pyarrow as pa

from ottla.model.errors import ConfigError
from ottla.records.columns import HEADERS
from ottla.records.messages import MessageAndMetadata

NO_TIME = -1


class MirrorRecord(NamedTuple):
    """A record to send. Without a partition the key decides; without a timestamp it is the current time.

    >>> from ottla import replay
    >>> from ottla.mirror import MirrorRecord
    >>> def handler(message):
    ...     yield MirrorRecord(f"eu.{message.topic}", message.value, message.key)
    >>> with replay("orders", bootstrap_servers="127.0.0.1:9092") as orders:
    ...     print(*(record.topic for message in orders for record in handler(message)))
    eu.orders eu.orders eu.orders
    """

    topic: str
    value: bytes | None
    key: bytes | None = None
    partition: int | None = None
    timestamp_ms: int | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()


Handler = Callable[[MessageAndMetadata[Any, Any]], Iterable[MirrorRecord]]


def same_partition(message: MessageAndMetadata[Any, Any]) -> list[MirrorRecord]:
    """A handler that changes nothing: it sends the record to the partition that it came from."""
    time_ms = None if message.timestamp_ms == NO_TIME else message.timestamp_ms
    headers = tuple(message.headers)
    key, value = message.raw_key, message.raw_value
    return [MirrorRecord(message.topic, value, key, message.partition, time_ms, headers)]


def columns_by_topic(records: Iterable[MirrorRecord]) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Yield the records of each topic as columns for `send_batch`, in their order."""
    topics: dict[str, list[MirrorRecord]] = {}
    for record in records:
        if not isinstance(record, MirrorRecord):
            raise ConfigError(f"a message handler returned {record!r}: it must return MirrorRecords")
        topics.setdefault(record.topic, []).append(record)
    for topic, topic_records in topics.items():
        yield topic, _columns(topic_records)


def _columns(records: list[MirrorRecord]) -> pa.RecordBatch:
    columns = {
        "value": pa.array([record.value for record in records], pa.binary()),
        "key": pa.array([record.key for record in records], pa.binary()),
        "timestamp": pa.array([record.timestamp_ms for record in records], pa.int64()),
    }
    if any(record.headers for record in records):
        columns["headers"] = pa.array(
            [[{"key": key, "value": value} for key, value in record.headers] for record in records], HEADERS
        )
    if any(record.partition is not None for record in records):
        columns["partition"] = pa.array([record.partition for record in records], pa.int32())
    return pa.record_batch(columns)
