"""What tests of mirrors share: records of all kinds, mirrors in threads, and what a cluster has."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from ottla import Producer, replay
from ottla.mirror import Mirror
from tests.waiting import PATIENCE_S

BASE_MS = 1_700_000_000_000

Row = tuple[int, bytes | None, bytes | None, Any]


def write(properties: dict[str, Any], topic: str, partitions: int, numbers: range, **more: Any) -> None:
    """Numbered records into all partitions in turns: with keys and without, tombstones, headers, times."""
    with_headers = more.pop("headers", True)
    with Producer(properties, **more) as producer:
        for partition in range(partitions):
            mine = [number for number in numbers if number % partitions == partition]
            columns: dict[str, Any] = {
                "key": pa.array([None if n % 5 == 0 else b"key-%d" % (n % 17) for n in mine], pa.binary()),
                "value": pa.array([None if n % 7 == 0 else b"value-%d" % n for n in mine], pa.binary()),
                "timestamp": pa.array([BASE_MS + n for n in mine], pa.int64()),
            }
            if with_headers:
                columns["headers"] = [
                    [{"key": "number", "value": b"%d" % n}] if n % 3 == 0 else [] for n in mine
                ]
                kind = pa.list_(pa.struct({"key": pa.string(), "value": pa.binary()}))
                columns["headers"] = pa.array(columns["headers"], kind)
            producer.send_batch(topic, pa.table(columns), partition=partition).result(PATIENCE_S)


def content(properties: dict[str, Any], topic: str, *, headers: bool = True) -> dict[int, list[Row]]:
    """All that a topic has, by partition: time, key, value, headers."""
    found: dict[int, list[Row]] = {}
    for message in replay(topic, include_headers=headers, **properties).messages():
        read = tuple(message.headers) if headers else ()
        row = message.timestamp_ms, message.raw_key, message.raw_value, read
        found.setdefault(message.partition, []).append(row)
    return found


def end_of(properties: dict[str, Any], topic: str) -> int:
    """Offsets of all partitions together."""
    with replay(topic, **properties) as one:
        return sum(each.stop for each in one.ranges.values())


@contextmanager
def running(mirror: Mirror) -> Iterator[list[BaseException]]:
    """A mirror in a thread; what it raises at its end is in the list."""
    errors: list[BaseException] = []

    def work() -> None:
        try:
            mirror.run()
        except BaseException as error:  # noqa: BLE001  (shown by the test)
            errors.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield errors
    finally:
        mirror.stop()
        thread.join(PATIENCE_S)
        assert not thread.is_alive(), "the mirror does not end"
