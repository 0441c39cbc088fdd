"""format("ottla-log"): Kafka's segment directories as a table, without a broker.

    spark.read.format("ottla-log").load("/var/lib/kafka/data")

For backups, disks of brokers that are gone, and cold data. Executors read the files themselves, so they must
see the directory. The schema is that of format("ottla"). Records of aborted transactions are included.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from ottla.log.segments_on_disk import PartitionOnDisk, SegmentPiece, partitions_in, records_of
from ottla.model.errors import ConfigError
from ottla.model.topic_partition import TopicAndPartition
from ottla.spark.columns import HEADERS, SparkColumnMaker
from ottla.spark.data_source import arrow_schema, schema_of
from ottla.spark.offset_json import parse_offsets
from ottla.spark.options import LOG_OPTIONS, parse_options
from ottla.spark.positions import TopicPattern, Topics, check_complete, subscription

LOG_END = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class LogOptions:
    """Checked options. None as an offset means the start or end of the log."""

    paths: tuple[str, ...]
    topics: Topics | TopicPattern | None
    starting: dict[TopicAndPartition, int] | None
    ending: dict[TopicAndPartition, int] | None
    starting_ms: int | None
    ending_ms: int | None
    has_headers: bool
    bytes_per_task: int


def log_options(options: Mapping[str, str]) -> LogOptions:
    """Parse and check. Raises ConfigError."""
    given = parse_options(LOG_OPTIONS, options)
    if given.kafka:
        name = sorted(given.kafka)[0]
        raise ConfigError(f"kafka.{name}: files are read without a broker; leave it out")
    values = given.values
    if not values["path"]:
        raise ConfigError('path is not set: .load("…") the directory that has orders-0, orders-1 and so on')
    topics = subscription(values) if values["subscribe"] or values["subscribePattern"] else None
    assert topics is None or isinstance(topics, Topics | TopicPattern)
    return LogOptions(
        paths=values["path"],
        topics=topics,
        starting=_offsets(values, "startingOffsets", "earliest"),
        ending=_offsets(values, "endingOffsets", "latest"),
        starting_ms=values["startingTimestamp"],
        ending_ms=values["endingTimestamp"],
        has_headers=values["includeHeaders"],
        bytes_per_task=values["maxBytesPerTask"],
    )


def _offsets(values: Mapping[str, Any], name: str, edge: str) -> dict[TopicAndPartition, int] | None:
    text = values[name]
    return None if text.lower() in {"", edge} else parse_offsets(text, name, minimum=0)


class OttlaLogDataSource(DataSource):
    """Segment files as a table; batch queries only."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return "ottla-log"

    def schema(self) -> StructType:
        """All columns, or those of the option `columns`."""
        return schema_of(parse_options(LOG_OPTIONS, self.options))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader for batch queries."""
        options = log_options(self.options)
        return LogReader(options, arrow_schema(schema, has_headers=options.has_headers))


class LogReader(DataSourceReader):
    """spark.read.format("ottla-log")"""

    def __init__(self, options: LogOptions, schema: pa.Schema) -> None:
        self._options = options
        self._schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        """Plan on the driver, from file names and indexes, without reading records."""
        return [InputPartition(task) for task in log_tasks(self._options)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a task, in an executor."""
        from ottla.spark.range_reader import settle_in

        settle_in()
        maker = SparkColumnMaker(self._schema)
        for piece in partition.value or ():
            for records in records_of(piece, has_headers=HEADERS in self._schema.names):
                yield maker.rows(piece.topic_partition, records)


def log_tasks(options: LogOptions) -> list[tuple[SegmentPiece, ...]]:
    """Tasks for the pieces of all partitions; small pieces share a task."""
    tasks: list[tuple[SegmentPiece, ...]] = []
    task: list[SegmentPiece] = []
    for piece in _pieces(options):
        if task and sum(segment.size for segment in task) + piece.size > options.bytes_per_task:
            tasks.append(tuple(task))
            task = []
        task.append(piece)
    return [*tasks, tuple(task)] if task else tasks


def _pieces(options: LogOptions) -> Iterator[SegmentPiece]:
    partitions = [
        partition for partition in partitions_in(options.paths) if _is_wanted(partition, options.topics)
    ]
    topic_partitions = {partition.topic_partition for partition in partitions}
    for what, given in (("startingOffsets", options.starting), ("endingOffsets", options.ending)):
        if given is not None:
            check_complete(what, given, topic_partitions)
    for partition in partitions:
        start, end = _bounds(partition, options)
        if start < end:
            yield from partition.pieces(start, end, options.bytes_per_task)


def _is_wanted(partition_on_disk: PartitionOnDisk, topics: Topics | TopicPattern | None) -> bool:
    topic = partition_on_disk.topic_partition.topic
    if isinstance(topics, TopicPattern):
        return topics.matches(topic)
    return topics is None or topic in topics.names


def _bounds(partition_on_disk: PartitionOnDisk, options: LogOptions) -> tuple[int, int]:
    start, end = partition_on_disk.start_offset, LOG_END
    if options.starting is not None:
        start = max(start, options.starting[partition_on_disk.topic_partition])
    if options.ending is not None:
        end = options.ending[partition_on_disk.topic_partition]
    if options.starting_ms is not None:
        start = max(start, partition_on_disk.offset_at(options.starting_ms, LOG_END))
    if options.ending_ms is not None:
        end = min(end, partition_on_disk.offset_at(options.ending_ms, LOG_END))
    return start, end
