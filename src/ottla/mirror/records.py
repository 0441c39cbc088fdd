"""Records as a message handler sees and makes them: one in, any number out.

    def handler(message):                                  # MessageAndMetadata
        yield MirrorRecord(f"eu.{message.topic}", message.value, message.key)

A handler makes a mirror go row by row; without one, columns travel as they were fetched.
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
    """A record to be sent. Without a partition the target chooses by the key; without a time it is now."""

    topic: str
    value: bytes | None
    key: bytes | None = None
    partition: int | None = None
    timestamp_ms: int | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()


Handler = Callable[[MessageAndMetadata[Any, Any]], Iterable[MirrorRecord]]


def same_partition(message: MessageAndMetadata[Any, Any]) -> list[MirrorRecord]:
    """The handler that changes nothing: the record as it is, into the partition that it came from."""
    time_ms = None if message.timestamp_ms == NO_TIME else message.timestamp_ms
    headers = tuple(message.headers)
    key, value = message.raw_key, message.raw_value
    return [MirrorRecord(message.topic, value, key, message.partition, time_ms, headers)]


def columns_by_topic(records: Iterable[MirrorRecord]) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Records as columns for `send_batch`, their order kept within each topic."""
    topics: dict[str, list[MirrorRecord]] = {}
    for record in records:
        if not isinstance(record, MirrorRecord):
            raise ConfigError(f"a message handler made {record!r}: it has to make MirrorRecords")
        topics.setdefault(record.topic, []).append(record)
    for topic, some in topics.items():
        yield topic, _columns(some)


def _columns(records: list[MirrorRecord]) -> pa.RecordBatch:
    columns = {
        "value": pa.array([one.value for one in records], pa.binary()),
        "key": pa.array([one.key for one in records], pa.binary()),
        "timestamp": pa.array([one.timestamp_ms for one in records], pa.int64()),
    }
    if any(one.headers for one in records):
        columns["headers"] = pa.array(
            [[{"key": key, "value": value} for key, value in one.headers] for one in records], HEADERS
        )
    if any(one.partition is not None for one in records):
        columns["partition"] = pa.array([one.partition for one in records], pa.int32())
    return pa.record_batch(columns)
