"""A table of parquet files: each batch once, ranges replaced exactly, small files merged."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from ottla.model.errors import ConfigError
from ottla.spark.locations import Directory, location
from ottla.spark.pipeline.sink_form import SinkForm
from ottla.spark.pipeline.spans import Spans, is_overlap, to_json, united
from ottla.spark.pipeline.table_files import merged, written_by_tasks
from ottla.spark.pipeline.units import StagedFile, TableUnits, Unit, extended, missing, to_compact
from ottla.spark.session import in_tasks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)

TARGET_BYTES = 128 << 20
_TIMES = "spark.sql.parquet.outputTimestampType"


@dataclass(frozen=True, slots=True)
class TableBatch:
    """One batch of a stream."""

    query_id: str
    number: int
    spans: Spans


class ParquetTable:
    """For one thread of the driver."""

    def __init__(self, sink: SinkForm) -> None:
        self._where = location(sink.path)
        self._partition_by = sink.partition_by
        self._compact_after = sink.compact_after
        self._units = TableUnits(self._where)

    # --- online

    def missing(self, batch: TableBatch) -> Spans:
        """The records of a batch that are not in the table."""
        with self._units.settled():
            missing_spans = missing(self._units.all(), _name(batch), batch.spans)
        if missing_spans != batch.spans:
            log.warning("batch %d: %s has some or all of its records already", batch.number, self._where.url)
        return missing_spans

    def append(self, rows: DataFrame, batch: TableBatch) -> None:
        """Add the rows of a batch; its spans are what `missing` returned."""
        name = _name(batch)
        staged = self._units.staging(name)
        files = self._write(rows, staged)

        def nothing_if_new(there: Sequence[Unit]) -> Sequence[Unit]:
            if missing(there, name, batch.spans) != batch.spans:
                raise ConfigError(
                    f"{self._where.url}: another writer has written records of batch {batch.number}"
                    " meanwhile; run one writer, or run again"
                )
            return ()

        with self._units.settled():
            self._units.commit(name, batch.spans, staged, files, nothing_if_new)
            log.info("batch %d: %d files into %s", batch.number, len(files), self._where.url)
            self._compact(rows.sparkSession)

    # --- offline

    def covered(self, spans: Spans) -> Spans:
        """The range, widened so that units are replaced as a whole."""
        with self._units.settled():
            return extended(spans, self._units.all())

    def replace(self, rows: DataFrame, spans: Spans, *, is_all: bool) -> None:  # noqa: ARG002 - Delta's
        """Replace the rows of a range that `covered` returned."""
        text = json.dumps(to_json(spans))
        name = f"range-{hashlib.sha256(text.encode()).hexdigest()[:12]}"
        staged = self._units.staging(name)
        files = self._write(rows, staged)

        def touched(there: Sequence[Unit]) -> Sequence[Unit]:
            if extended(spans, there) != spans:
                raise ConfigError(f"{self._where.url}: another writer was there meanwhile; run again")
            return [unit for unit in there if is_overlap(spans, unit.spans)]

        with self._units.settled():
            self._units.commit(name, spans, staged, files, touched)
        log.info("%d files into %s", len(files), self._where.url)

    def _write(self, rows: DataFrame, staged: str) -> list[StagedFile]:
        """Let Spark write the rows; in an object store through tasks of Python, which need no jar."""
        if not isinstance(self._where, Directory):
            return written_by_tasks(rows, self._where.url, staged, self._partition_by)
        root = self._where.root / staged
        with readable_times(rows.sparkSession):
            rows.write.mode("overwrite").partitionBy(*self._partition_by).parquet(str(root))
        return written_by_spark(self._where, staged)

    # --- few files

    def _compact(self, spark: SparkSession) -> None:
        chosen = to_compact(self._units.all(), self._compact_after, TARGET_BYTES)
        if not chosen:
            return
        digest = hashlib.sha256(" ".join(unit.name for unit in chosen).encode()).hexdigest()[:24]
        name = f"compact-{digest}"
        staged = self._units.staging(name)
        work = [
            (self._where.url, files, f"{staged}/{number}.parquet", directory)
            for number, (directory, files) in enumerate(by_directory(chosen).items())
        ]
        files = in_tasks(spark, merged, work)

        names = {unit.name for unit in chosen}

        def still_there(there: Sequence[Unit]) -> Sequence[Unit] | None:
            return chosen if names <= {unit.name for unit in there} else None

        spans = united(unit.spans for unit in chosen)
        if self._units.commit(name, spans, staged, [StagedFile(*file) for file in files], still_there):
            log.info("%d units of %s are one now, of %d files", len(chosen), self._where.url, len(work))
        else:
            log.info("another writer has merged units of %s", self._where.url)


def _name(batch: TableBatch) -> str:
    return f"{batch.query_id[:12]}-{batch.number:012d}"


@contextmanager
def readable_times(spark: SparkSession) -> Iterator[None]:
    """Make Spark write times with their zone inside the block, so that every reader understands them."""
    before = spark.conf.get(_TIMES)
    spark.conf.set(_TIMES, "TIMESTAMP_MICROS")
    try:
        yield
    finally:
        spark.conf.set(_TIMES, before or "INT96")


def by_directory(units: Sequence[Unit]) -> dict[str, list[str]]:
    """The files of units, grouped by the table's partition."""
    directories: dict[str, list[str]] = {}
    for unit in units:
        for file in unit.files:
            directories.setdefault(file.rpartition("/")[0], []).append(file)
    return directories


def written_by_spark(where: Directory, staged: str) -> list[StagedFile]:
    """Return the files that Spark has written, without those that have no rows."""
    entries = [
        entry
        for entry in where.list(staged)
        if entry.path.endswith(".parquet") and not Path(entry.path).name.startswith((".", "_"))
    ]
    return [
        StagedFile(entry.path, entry.path.removeprefix(f"{staged}/").rpartition("/")[0], entry.size)
        for entry in entries
        if pq.read_metadata(where.root / entry.path).num_rows
    ]
