"""The readers that Spark calls: planning on the driver, Arrow batches in the executors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from ottla.model.topic_partition import TopicAndPartition
from ottla.spark.columns import SparkColumnMaker
from ottla.spark.offset_json import SparkOffset
from ottla.spark.range_planner import Task
from ottla.spark.source_options import SourceOptions
from ottla.spark.stream_planner import StreamPlanner, batch_tasks, read_limit

Records = tuple[TopicAndPartition, pa.RecordBatch]


def rows_of(task: Task | None, options: SourceOptions, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a task. Where there is nothing to read, Spark makes one task without ranges."""
    from ottla.spark.range_reader import read_ranges, settle_in  # kernels: not for the driver

    settle_in()
    maker = SparkColumnMaker(schema)
    records = read_ranges(task or (), options.client, options.fetch, patience_ms=options.poll_timeout_ms)
    if options.repeated_rows is not None:
        records = without_repeats(task or (), records)
    for topic_partition, batch in records:
        yield maker.rows(topic_partition, batch)


def without_repeats(task: Task, records: Iterable[Records]) -> Iterator[Records]:
    """Yield the records of the ranges that are no repeats.

    Records before the ranges are read only to compare.
    """
    from ottla.spark.row_identity import RepeatFilter

    filters = {offset_range.topic_partition: RepeatFilter() for offset_range in task}
    starts = {offset_range.topic_partition: offset_range.start for offset_range in task}
    for topic_partition, batch in records:
        news = filters[topic_partition].first_seen(batch)
        first = int(news.column("offset").to_numpy().searchsorted(starts[topic_partition]))
        if first < news.num_rows:
            yield topic_partition, news.slice(first)


class TopicReader(DataSourceReader):
    """spark.read.format("ottla")"""

    def __init__(self, options: SourceOptions, schema: pa.Schema) -> None:
        self._options = options
        self._schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        """Plan the tasks, on the driver, once per query."""
        return [InputPartition(task) for task in batch_tasks(self._options)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a task, in an executor."""
        return rows_of(partition.value, self._options, self._schema)


class TopicStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """spark.readStream.format("ottla"). All but `read` is called in one process of the driver."""

    def __init__(self, options: SourceOptions, schema: pa.Schema) -> None:
        self._options = options
        self._schema = schema
        self._planner: StreamPlanner | None = None  # executors get the reader before a planner exists

    def _plan(self) -> StreamPlanner:
        if self._planner is None:
            self._planner = StreamPlanner(self._options)
        return self._planner

    def initialOffset(self) -> SparkOffset:  # noqa: N802 - Spark's name, as all below
        """Where a new query begins."""
        return self._plan().initial_offset()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """The limit that the options set; a trigger may demand everything instead."""
        limits = self._options.limits
        if limits.max_offsets is not None:
            return ReadMaxRows(limits.max_offsets)
        return ReadAllAvailable() if limits.min_offsets is None else ReadMinRows(limits.min_offsets)

    def latestOffset(self, start: SparkOffset, limit: ReadLimit) -> SparkOffset:  # noqa: N802
        """The end of the next batch."""
        takes_all = isinstance(limit, ReadAllAvailable)
        max_rows = None if takes_all else read_limit(limit, self._options)
        return self._plan().latest_offset(start, max_rows, takes_all=takes_all)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Let the query end at today's ends of the logs."""
        self._plan().prepare_available_now()

    def reportLatestOffset(self) -> SparkOffset | None:  # noqa: N802
        """The ends of the logs, for the query's progress."""
        return self._plan().report_latest()

    def partitions(self, start: SparkOffset, end: SparkOffset) -> Sequence[InputPartition]:
        """The tasks of a batch."""
        return [InputPartition(task) for task in self._plan().tasks(start, end)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a task, in an executor."""
        return rows_of(partition.value, self._options, self._schema)

    def commit(self, end: SparkOffset) -> None:
        """Do nothing: the planner has committed already."""
        self._plan().completed(end)

    def stop(self) -> None:
        """Close all connections."""
        if self._planner is not None:
            self._planner.close()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_planner": None}
