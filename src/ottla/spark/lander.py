"""Landing on one machine, without Spark: the records of topics into a table, each once.

    table = raw_table("iceberg", "s3://shop/orders", {}, has_headers=False)
    for batch in Lander({"kafka.bootstrap.servers": "…", "subscribe": "orders"}, table).batches():
        print(batch.records, batch.lag)

A run goes on where the table is. A topic that is new to the table begins where the source says, by default at
its first records; the table keeps that start. Batches are committed when they have `batch_bytes`, which
limits the memory, and what is repeated after a kill. The tables are those that landing, and pipelines without
decoding, write in Spark.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa

from ottla.fetching.engine import FetchEngine
from ottla.model.errors import ConfigError
from ottla.model.topic_partition import TopicAndPartition
from ottla.spark.columns import HEADERS, SparkColumnMaker
from ottla.spark.offset_json import Offsets
from ottla.spark.pipeline import offsets
from ottla.spark.pipeline.spans import Spans
from ottla.spark.positions import Edge
from ottla.spark.range_planner import TaskRange
from ottla.spark.range_reader import read_with
from ottla.spark.raw_tables import RawTable
from ottla.spark.source_options import Mode, source_options

BATCH_BYTES = 128 << 20
LOOK_S = 1.0


class LandedBatch(NamedTuple):
    """A batch that is in the table. `lag`: how many offsets were in the logs and not landed yet."""

    records: int
    nbytes: int
    lag: int


class Lander:
    """For one thread; `stop` may be called by any."""

    def __init__(self, source: Mapping[str, str], table: RawTable, *, batch_bytes: int = BATCH_BYTES) -> None:
        has_headers = HEADERS in table.schema.names
        more = {"includeHeaders": "true"} if has_headers else {}
        rest = {name: value for name, value in source.items() if not name.lower().startswith("starting")}
        self._from_earliest = {**rest, "startingOffsets": "earliest", **more}
        self._source = self._from_earliest if len(rest) == len(source) else {**source, **more}
        self._options = source_options(self._source, Mode.STREAM)
        self._table = table
        self._batch_bytes = batch_bytes
        self._maker = SparkColumnMaker(table.schema)
        self._stopped = threading.Event()

    def stop(self) -> None:
        """Let `batches` end after the batch that is being read."""
        self._stopped.set()

    def batches(self, *, follow: bool = False) -> Iterator[LandedBatch]:
        """Land everything that is in the logs, batch by batch; with `follow`, also what arrives.

        Raises OttlaError.
        """
        engine = FetchEngine(self._options.client, self._options.fetch, name="ottla-land")
        try:
            promised = self._table.promised()
            if promised:
                yield from self._landed(engine, _ranges(promised), batch_bytes=None)
            while not self._stopped.is_set():
                yield from self._landed(engine, self._backlog(), self._batch_bytes)
                if not follow or self._stopped.wait(LOOK_S):
                    return
        finally:
            self._table.abandon()
            engine.close()

    def _backlog(self) -> list[TaskRange]:
        """Return what the logs have and the table lacks.

        Raises ConfigError for a topic that was created again.
        """
        reaches = offsets.of_stream([self._from_earliest], None)
        ends = self._table.ends([reach.topic_partition for reach in reaches])
        if self._options.starting is not Edge.EARLIEST:
            ends |= self._begun(reaches, ends)
        for topic_partition, _, latest in reaches:
            if ends.get(topic_partition, 0) > latest:
                raise ConfigError(
                    f"{topic_partition}: the table has offsets up to {ends[topic_partition]}, and the log "
                    f"ends at {latest}: the topic was made anew; land it elsewhere"
                )
        wanted = [
            TaskRange(topic_partition, ends.get(topic_partition, start), latest)
            for topic_partition, start, latest in reaches
        ]
        return [task_range for task_range in wanted if task_range.size > 0]

    def _begun(self, reaches: Sequence[offsets.Reach], ends: Offsets) -> Offsets:
        """Let topics that are new to the table begin where the source says, now and ever after.

        Raises ConfigError for an offset that a log does not have.
        """
        known = {topic_partition.topic for topic_partition in ends}
        first = {topic_partition: earliest for topic_partition, earliest, _ in reaches}
        if known >= {topic_partition.topic for topic_partition in first}:
            return {}
        starts = {}
        for topic_partition, start, latest in offsets.of_stream([self._source], None):
            if topic_partition.topic in known:
                continue
            if not first.get(topic_partition, 0) <= start <= latest:
                raise ConfigError(
                    f"{topic_partition}: it cannot begin at offset {start}: its log has those from "
                    f"{first.get(topic_partition, 0)} to {latest}"
                )
            starts[topic_partition] = start
        self._table.begin(starts)
        return starts

    def _landed(
        self, engine: FetchEngine, ranges: Sequence[TaskRange], batch_bytes: int | None
    ) -> Iterator[LandedBatch]:
        if not ranges:
            return
        begins = {task_range.topic_partition: task_range.start for task_range in ranges}
        batch = _Batch(begins)
        left = sum(task_range.size for task_range in ranges)
        options = self._options
        for topic_partition, records in read_with(
            engine, tuple(ranges), options.fetch, patience_ms=options.poll_timeout_ms
        ):
            if not records.num_rows:
                continue
            self._table.add(
                topic_partition, batch.starts[topic_partition], self._maker.rows(topic_partition, records)
            )
            batch.take(topic_partition, records)
            if batch_bytes is not None and batch.nbytes >= batch_bytes:
                self._table.commit(batch.spans())
                left -= batch.offsets()
                yield LandedBatch(batch.records, batch.nbytes, left)
                batch = _Batch({**batch.starts, **batch.ends})
                if self._stopped.is_set():
                    return
        if batch.records:
            whole = (
                {task_range.topic_partition: task_range.end for task_range in ranges}
                if batch_bytes is None
                else {}
            )
            batch.ends |= {
                topic_partition: end
                for topic_partition, end in whole.items()
                if topic_partition in batch.ends
            }
            self._table.commit(batch.spans())
            yield LandedBatch(batch.records, batch.nbytes, 0)


class _Batch:
    """The records that were read since the last commit."""

    def __init__(self, starts: Mapping[TopicAndPartition, int]) -> None:
        self.starts = dict(starts)
        self.ends: dict[TopicAndPartition, int] = {}
        self.records = self.nbytes = 0

    def take(self, topic_partition: TopicAndPartition, records: pa.RecordBatch) -> None:
        self.ends[topic_partition] = records.column("offset")[-1].as_py() + 1
        self.records += records.num_rows
        self.nbytes += records.nbytes

    def spans(self) -> Spans:
        return {
            topic_partition: [(self.starts[topic_partition], end)]
            for topic_partition, end in sorted(self.ends.items())
        }

    def offsets(self) -> int:
        return sum(end - self.starts[topic_partition] for topic_partition, end in self.ends.items())


def _ranges(spans: Spans) -> list[TaskRange]:
    return [
        TaskRange(topic_partition, start, end)
        for topic_partition, many in spans.items()
        for start, end in many
    ]
