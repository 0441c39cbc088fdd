"""Raw landing: topics → parquet files, inside the tasks that read. Rows never visit the JVM.

    ottla.spark.land(spark, {"kafka.bootstrap.servers": …, "subscribe": "orders"}, "tables/orders")
    ottla.spark.land_stream(spark, {…}, "tables/orders", "state/orders").awaitTermination()

Spark plans, schedules, retries and keeps the offsets; a task returns one row for each file instead of the
records. The files' names make it exactly once (`landing_files`). The path is an
object store's, or one that all executors share.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from ottla.model.errors import ConfigError
from ottla.model.property_table import TEXT, Property
from ottla.model.topic_partition import TopicAndPartition
from ottla.spark.columns import SparkColumnMaker, chosen
from ottla.spark.data_source import arrow_schema, struct_of
from ottla.spark.landing_compaction import COMPACT_AFTER, compact, is_full
from ottla.spark.landing_files import LandedFile, LandingFile, directory_of, is_there, landed, within
from ottla.spark.locations import Location, check_promises, location
from ottla.spark.options import SOURCE_OPTIONS, parse_options
from ottla.spark.pipeline.offsets import of_stream
from ottla.spark.pipeline.state import PipelineState, shown_offsets
from ottla.spark.range_planner import Task, TaskRange
from ottla.spark.readers import TopicReader, TopicStreamReader
from ottla.spark.session import in_tasks, is_remote
from ottla.spark.source_options import Mode, SourceOptions, source_options
from ottla.spark.stream_planner import batch_tasks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

log = logging.getLogger(__name__)

FORMAT = "ottla-landing"
LANDING_OPTIONS = (
    Property("path", TEXT, "", "Where the files go."),
    Property(
        "compression",
        TEXT,
        "snappy",
        "The files' codec.",
        choices=("snappy", "zstd", "gzip", "lz4", "none"),
    ),
)
REPORT = pa.schema(
    [
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("start", pa.int64()),
        pa.field("end", pa.int64()),
        pa.field("rows", pa.int64()),
        pa.field("bytes", pa.int64()),
        pa.field("path", pa.string()),
    ]
)
_KINDS = {pa.string(): StringType(), pa.int32(): IntegerType(), pa.int64(): LongType()}
IN_DIRECTORIES = {"topic", "partition"}


@dataclass(frozen=True, slots=True)
class Landing:
    """What a task needs. With `replaces` (batch queries) a new file removes files within its range."""

    source: SourceOptions
    root: str
    compression: str
    schema: pa.Schema
    replaces: bool


def landing(options: Mapping[str, str], mode: Mode) -> Landing:
    """Parse and check. Raises ConfigError."""
    names = {row.name for row in LANDING_OPTIONS}
    own = parse_options(LANDING_OPTIONS, {name: value for name, value in options.items() if name in names})
    rest = {name: value for name, value in options.items() if name not in names}
    given = parse_options(SOURCE_OPTIONS, rest)
    for name in ("minPartitions", "maxRecordsPerPartition", "maxBytesPerTask", "dropRepeatedRows"):
        if given.is_given(name):
            raise ConfigError(f"{name}: a batch lands as one file for each partition; leave it out")
    if not given.values["failOnDataLoss"]:
        raise ConfigError(
            "failOnDataLoss=false: files of a topic and of one that was made anew under its name could not be"
            " told apart; after a loss, begin with a new checkpoint and startingOffsets=earliest"
        )
    if not own.values["path"]:
        raise ConfigError("path is not set: give the directory that the files go to")
    has_headers = given.values["includeHeaders"]
    columns = [
        name
        for name in chosen(given.values["columns"], has_headers=has_headers)
        if name not in IN_DIRECTORIES
    ]
    return Landing(
        source=source_options(rest, mode),
        root=own.values["path"],
        compression=own.values["compression"],
        schema=arrow_schema(struct_of(columns), has_headers=has_headers),
        replaces=mode is Mode.BATCH,
    )


class LandingDataSource(DataSource):
    """A table with a row for each written file. Reading this table is what writes the files."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return FORMAT

    def schema(self) -> StructType:
        """A row for each file."""
        return StructType([StructField(field.name, _KINDS[field.type]) for field in REPORT])

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader for a bounded range."""
        return LandingReader(landing(self.options, Mode.BATCH), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Return the reader for a stream."""
        return LandingStreamReader(landing(self.options, Mode.STREAM), schema)


class LandingReader(TopicReader):
    """Plans like TopicReader; its tasks write files."""

    def __init__(self, job: Landing, _: StructType) -> None:
        super().__init__(job.source, job.schema)
        self._job = job

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Write the files of a task, in an executor. Yields a row for each file."""
        return land_task(partition.value, self._job)


class LandingStreamReader(TopicStreamReader):
    """Plans like TopicStreamReader; its tasks write files."""

    def __init__(self, job: Landing, _: StructType) -> None:
        super().__init__(job.source, job.schema)
        self._job = job

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Write the files of a task, in an executor. Yields a row for each file."""
        return land_task(partition.value, self._job)


# --- in the executors


def land_task(task: Task | None, job: Landing) -> Iterator[pa.RecordBatch]:
    """Write the ranges of a task; yield a row for each file."""
    where = location(job.root)
    there = {
        offset_range.topic_partition: landed(where, offset_range.topic_partition)
        for offset_range in task or ()
    }
    replaced = {
        offset_range: within(there[offset_range.topic_partition], offset_range)
        for offset_range in task or ()
        if job.replaces
    }
    wanted = tuple(
        offset_range
        for offset_range in task or ()
        if job.replaces or not _is_done(offset_range, there[offset_range.topic_partition])
    )
    report = [
        _written(where, file, replaced.get(file.wanted, []), replaces=job.replaces)
        for file in _files(where, wanted, job)
    ]
    if report:
        yield pa.RecordBatch.from_pylist(report, schema=REPORT)


def _is_done(offset_range: TaskRange, files: list[LandedFile]) -> bool:
    """Whether an earlier attempt of the batch has written the range.

    Raises ConfigError for any other overlap.
    """
    if is_there(files, offset_range):
        log.info(
            "%s: offsets %d to %d are there already",
            offset_range.topic_partition,
            offset_range.start,
            offset_range.end - 1,
        )
        return True
    if within(files, offset_range):
        raise ConfigError(
            f"{offset_range.topic_partition}: files have some of the offsets {offset_range.start} to "
            f"{offset_range.end - 1}; another query writes to this path, or its checkpoint "
            "is lost: choose another path"
        )
    return False


def _files(where: Location, ranges: Task, job: Landing) -> Iterator[LandingFile]:
    """Yield a complete but still hidden file for each range that has records."""
    from ottla.spark.range_reader import read_ranges, settle_in  # kernels: not for the driver

    settle_in()
    maker = SparkColumnMaker(job.schema)
    by_partition = {offset_range.topic_partition: offset_range for offset_range in ranges}
    files: dict[TopicAndPartition, LandingFile] = {}
    source = job.source
    try:
        for topic_partition, records in read_ranges(
            ranges, source.client, source.fetch, patience_ms=source.poll_timeout_ms
        ):
            if topic_partition not in files:
                files[topic_partition] = LandingFile(
                    where, by_partition[topic_partition], job.schema, job.compression
                )
            files[topic_partition].add(maker.rows(topic_partition, records))
        yield from files.values()
        files.clear()
    finally:
        for file in files.values():
            file.abandon()


def _written(
    where: Location, file: LandingFile, replaced: list[LandedFile], *, replaces: bool
) -> dict[str, object]:
    size = file.finish(replaces=replaces)
    where.delete([old_file.path for old_file in replaced if old_file.path != file.path])
    topic_partition, start, end, _ = file.wanted
    return {
        "topic": topic_partition.topic,
        "partition": topic_partition.partition,
        "start": start,
        "end": end,
        "rows": file.rows,
        "bytes": size,
        "path": f"{where.url}/{file.path}",
    }


# --- what users call


@dataclass(frozen=True, slots=True)
class Landed:
    """What `land` has written."""

    files: tuple[str, ...]
    rows: int
    nbytes: int


def land(spark: SparkSession, options: Mapping[str, str], path: str | Path) -> Landed:
    """Write a bounded range of topics, chosen by the options of a batch query.

    Files that an earlier run wrote for the range are replaced, so it may be run again.
    """
    url = location(path).url
    check_promises(location(url))
    rows = _reports(spark, {**options, "path": url})
    done = Landed(
        tuple(sorted(row["path"] for row in rows)),
        sum(row["rows"] for row in rows),
        sum(row["bytes"] for row in rows),
    )
    log.info("%d rows have landed in %d files of %s", done.rows, len(done.files), path)
    return done


def _reports(spark: SparkSession, options: Mapping[str, str]) -> list[Any]:
    """Let tasks write the files; returns what they report of each.

    Plain tasks take 0.2 CPU seconds less than a query; Spark Connect has none.
    """
    if is_remote(spark):
        spark.dataSource.register(LandingDataSource)
        return spark.read.format(FORMAT).options(**options).load().collect()
    job = landing(options, Mode.BATCH)
    reports = in_tasks(spark, partial(_report, job), batch_tasks(job.source))
    return [row for report in reports for row in report]


def _report(job: Landing, task: Task) -> list[dict[str, Any]]:
    return [row for batch in land_task(task, job) for row in batch.to_pylist()]


def begun_after_files(options: Mapping[str, str], where: Location, checkpoint: str | Path) -> dict[str, str]:
    """Return the options of a stream; with a new checkpoint it begins where the existing files end."""
    if PipelineState(checkpoint).committed() is not None:
        return dict(options)
    names = {row.name for row in LANDING_OPTIONS}
    source = {name: value for name, value in options.items() if name not in names}
    begins = {reach.topic_partition: reach.start for reach in of_stream([source], None)}
    ends = {span: files[-1].end for span in begins if (files := landed(where, span))}
    if not ends:
        return dict(options)
    log.info("%s has records: the stream begins where they end", where.url)
    chosen = {span: max(start, ends.get(span, 0)) for span, start in begins.items()}
    kept = {name: value for name, value in options.items() if not name.lower().startswith("starting")}
    return {**kept, "startingOffsets": shown_offsets(chosen)}


def land_stream(
    spark: SparkSession,
    options: Mapping[str, str],
    path: str | Path,
    checkpoint: str | Path,
    *,
    trigger: Mapping[str, object] | None = None,
    name: str = "",
    compact_after: int = COMPACT_AFTER,
) -> StreamingQuery:
    """Write records as they arrive, each once, starting at the checkpoint.

    `trigger` is Spark's: {"availableNow": True} ends when everything is written, {"processingTime": "1
    minute"} makes one file per partition and minute. After `compact_after` small files of a partition they
    are merged into one; 0 turns that off.
    """
    url = location(path).url
    check_promises(location(url))
    spark.dataSource.register(LandingDataSource)
    begun = begun_after_files(options, location(url), checkpoint)
    files = spark.readStream.format(FORMAT).options(**begun).option("path", str(path)).load()

    def write(batch: DataFrame, number: int) -> None:  # Spark Connect pickles it: it holds the URL only
        where = location(url)
        rows = batch.collect()  # the files are written by reading
        log.info("batch %d: %d rows into %d files", number, sum(row["rows"] for row in rows), len(rows))
        directories = {directory_of(TopicAndPartition(row["topic"], row["partition"])) for row in rows}
        full = [directory for directory in sorted(directories) if is_full(where, directory, compact_after)]
        compact(batch.sparkSession, url, full)

    writer = files.writeStream.foreachBatch(write).option("checkpointLocation", str(checkpoint))
    if name:
        writer = writer.queryName(name)
    if trigger is not None:
        writer = writer.trigger(**trigger)  # type: ignore[call-overload]
    return writer.start()
