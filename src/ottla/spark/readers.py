"""The readers that Spark calls: plans on the driver, Arrow batches in the executors."""

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
from ottla.spark.columns import RowMaker
from ottla.spark.offset_json import SparkOffset
from ottla.spark.range_planner import Task
from ottla.spark.source_options import SourceOptions
from ottla.spark.stream_planner import StreamPlanner, batch_tasks, read_limit

Records = tuple[TopicAndPartition, pa.RecordBatch]


def rows_of(task: Task | None, options: SourceOptions, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """What a task yields. Spark makes one task without ranges where there is nothing to read."""
    from ottla.spark.range_reader import freeze_once, read_ranges  # kernels: not for the driver

    freeze_once()
    maker = RowMaker(schema)
    records = read_ranges(task or (), options.client, options.fetch, patience_ms=options.poll_timeout_ms)
    if options.repeated_rows is not None:
        records = without_repeats(task or (), records)
    for place, batch in records:
        yield maker.rows(place, batch)


def without_repeats(task: Task, records: Iterable[Records]) -> Iterator[Records]:
    """Records that were not there before, of the ranges themselves: what stands before them is only seen."""
    from ottla.spark.row_identity import RepeatFilter

    filters = {one.topic_partition: RepeatFilter() for one in task}
    starts = {one.topic_partition: one.start for one in task}
    for place, batch in records:
        news = filters[place].first_seen(batch)
        first = int(news.column("offset").to_numpy().searchsorted(starts[place]))
        if first < news.num_rows:
            yield place, news.slice(first)


class TopicReader(DataSourceReader):
    """spark.read.format("ottla")"""

    def __init__(self, options: SourceOptions, schema: pa.Schema) -> None:
        self._options = options
        self._schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        """On the driver, once a query."""
        return [InputPartition(task) for task in batch_tasks(self._options)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """In an executor."""
        return rows_of(partition.value, self._options, self._schema)


class TopicStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """spark.readStream.format("ottla"). All but `read` is called in one process of the driver."""

    def __init__(self, options: SourceOptions, schema: pa.Schema) -> None:
        self._options = options
        self._schema = schema
        self._planner: StreamPlanner | None = None  # executors get the reader before there is one

    def _plan(self) -> StreamPlanner:
        if self._planner is None:
            self._planner = StreamPlanner(self._options)
        return self._planner

    def initialOffset(self) -> SparkOffset:  # noqa: N802 - Spark's name, as all below
        """Where a new query begins."""
        return self._plan().initial_offset()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """What the options say; Spark's triggers may ask for everything instead."""
        limits = self._options.limits
        if limits.max_offsets is not None:
            return ReadMaxRows(limits.max_offsets)
        return ReadAllAvailable() if limits.min_offsets is None else ReadMinRows(limits.min_offsets)

    def latestOffset(self, start: SparkOffset, limit: ReadLimit) -> SparkOffset:  # noqa: N802
        """Where the next batch ends."""
        takes_all = isinstance(limit, ReadAllAvailable)
        max_rows = None if takes_all else read_limit(limit, self._options)
        return self._plan().latest_offset(start, max_rows, takes_all=takes_all)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """The query ends at what there is now."""
        self._plan().prepare_available_now()

    def reportLatestOffset(self) -> SparkOffset | None:  # noqa: N802
        """For the query's progress."""
        return self._plan().report_latest()

    def partitions(self, start: SparkOffset, end: SparkOffset) -> Sequence[InputPartition]:
        """The tasks of a batch."""
        return [InputPartition(task) for task in self._plan().tasks(start, end)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """In an executor."""
        return rows_of(partition.value, self._options, self._schema)

    def commit(self, end: SparkOffset) -> None:
        """A batch is done, and so is the next: nothing new."""
        self._plan().completed(end)

    def stop(self) -> None:
        """The query ends."""
        if self._planner is not None:
            self._planner.close()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_planner": None}
