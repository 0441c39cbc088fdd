"""Records of a topic for pages: some from an offset on, and the newest as they come."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping
from typing import Any

from ottla.console.cluster_reader import ClusterReader
from ottla.console.display import ShownRecord, shown_record
from ottla.console.sampler import ClusterSnapshot
from ottla.consumer.partition.partition_consumer import PartitionConsumer
from ottla.model.closing import Closing
from ottla.model.errors import OttlaError
from ottla.model.topic_partition import TopicAndPartition
from ottla.query.needles import rows_containing
from ottla.query.scan import scan
from ottla.records.columns import plain_rows

RECORDS = 50
PARTITIONS_MAX = 25
TAIL_KEPT = 50


def records_from(
    reader: ClusterReader, topic: str, starts: Mapping[int, int], count: int, ends: Mapping[int, int]
) -> list[ShownRecord]:
    """Up to `count` records from an offset on in each partition, in their order. Raises OttlaError."""
    wanted = {number: start for number, start in starts.items() if start < ends[number]}
    if not wanted:
        return []
    until = {number: min(ends[number], start + count) for number, start in wanted.items()}
    given = {**reader.reading, "auto.offset.reset": "earliest"}
    with scan(topic, list(wanted), wanted, until, headers=True, properties=given) as batches:
        return [shown_record(row, topic, reader.decoded) for batch in batches for row in plain_rows(batch)]


def newest(reader: ClusterReader, topic: str, snapshot: ClusterSnapshot) -> list[ShownRecord]:
    """The last records of all partitions, the newest first. Raises OttlaError."""
    ends = {part.partition: end for part, end in snapshot.end.items() if part.topic == topic and end}
    chosen = dict(sorted(ends.items())[:PARTITIONS_MAX])
    count = max(2, RECORDS // max(1, len(chosen)))
    first = {number: snapshot.first.get(TopicAndPartition(topic, number), 0) for number in chosen}
    starts = {number: max(first[number], end - count) for number, end in chosen.items()}
    records = records_from(reader, topic, starts, count, chosen)
    return sorted(records, key=lambda record: (record.time, record.offset), reverse=True)[:RECORDS]


class Tail(Closing):
    """The newest records of a topic: a bounded number is kept, the others are only counted.

    A thread reads; `take` may be called by any other.
    """

    def __init__(self, reader: ClusterReader, topic: str, contains: str = "") -> None:
        self._reader = reader
        self._topic = topic
        self._consumer = PartitionConsumer({**reader.reading, "include.headers": True})
        self._contains = contains.encode()
        self._kept: deque[dict[str, Any]] = deque(maxlen=TAIL_KEPT)
        self._lock = threading.Lock()
        self._seen = self._matched = self._taken = 0
        self.error = ""
        try:
            for number in self._consumer.partitions(topic):
                self._consumer.consume_partition(topic, number, "latest")
        except BaseException:
            self._consumer.close()
            raise
        self._thread = threading.Thread(target=self._run, name="console-tail", daemon=True)
        self._thread.start()

    def take(self) -> tuple[list[ShownRecord], int, int]:
        """Return new records, oldest first; how many arrived so far, and how many of them were not shown."""
        with self._lock:
            rows = list(self._kept)
            self._kept.clear()
            self._taken += len(rows)
            seen, dropped = self._seen, self._matched - self._taken
        decoded = self._reader.decoded
        return [shown_record(row, self._topic, decoded, 300) for row in rows], seen, dropped

    def _run(self) -> None:
        try:
            for chunk in self._consumer.chunks():
                self._add(chunk.topic_partition.partition, chunk.batch)
        except OttlaError as error:
            self.error = str(error)

    def _add(self, partition: int, batch: Any) -> None:
        total = batch.num_rows
        matched = total
        if self._contains:
            rows = rows_containing(batch.column("value"), [self._contains])
            matched = len(rows)
            batch = batch.take(rows[-TAIL_KEPT:])
        last = plain_rows(batch.slice(max(0, batch.num_rows - TAIL_KEPT)))
        with self._lock:
            self._seen += total
            self._matched += matched
            self._kept.extend({**row, "partition": partition} for row in last)

    def close(self) -> None:
        """End it."""
        self._consumer.close()
        self._thread.join()
