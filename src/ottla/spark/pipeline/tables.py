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

import pyarrow as pa
import pyarrow.parquet as pq

from ottla.model.errors import ConfigError
from ottla.spark.pipeline.form import SinkForm
from ottla.spark.pipeline.spans import Spans, is_overlap, to_json, united
from ottla.spark.pipeline.units import TableUnits, Unit, extended, missing, to_compact

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
        self._root = Path(sink.path.removeprefix("file:"))
        self._partition_by = sink.partition_by
        self._compact_after = sink.compact_after
        self._units = TableUnits(self._root)

    # --- online

    def missing(self, batch: TableBatch) -> Spans:
        """The records of a batch that are not in the table."""
        with self._units.locked():
            missing_spans = missing(self._units.all(), _name(batch), batch.spans)
        if missing_spans != batch.spans:
            log.warning("batch %d: %s has some or all of its records already", batch.number, self._root)
        return missing_spans

    def append(self, rows: DataFrame, batch: TableBatch) -> None:
        """Add the rows of a batch; its spans are what `missing` returned."""
        name = _name(batch)
        staged = self._units.staging(name)
        self._write(rows, staged)
        with self._units.locked():
            if missing(self._units.all(), name, batch.spans) != batch.spans:
                raise ConfigError(
                    f"{self._root}: a range was run over batch {batch.number} meanwhile; run again"
                )
            files = self._units.commit(name, batch.spans, staged)
            log.info("batch %d: %d files into %s", batch.number, files, self._root)
            self._compact(rows.sparkSession)

    # --- offline

    def covered(self, spans: Spans) -> Spans:
        """The range, widened so that units are replaced as a whole."""
        with self._units.locked():
            return extended(spans, self._units.all())

    def replace(self, rows: DataFrame, spans: Spans, *, is_all: bool) -> None:  # noqa: ARG002 - Delta's
        """Replace the rows of a range that `covered` returned."""
        with self._units.locked():
            text = json.dumps(to_json(spans))
            stem = f"range-{hashlib.sha256(text.encode()).hexdigest()[:12]}"
            # A range that is run again has another name each time, so that both are never mixed up.
            taken = {unit.name for unit in self._units.all()}
            name = f"{stem}-b" if f"{stem}-a" in taken else f"{stem}-a"
            staged = self._units.staging(name)
            self._write(rows, staged)
            old = [unit for unit in self._units.all() if is_overlap(spans, unit.spans)]
            files = self._units.commit(name, spans, staged, old)
            log.info("%d files into %s, instead of %d units", files, self._root, len(old))

    def _write(self, rows: DataFrame, staged: Path) -> None:
        with readable_times(rows.sparkSession):
            rows.write.mode("overwrite").partitionBy(*self._partition_by).parquet(str(staged))

    # --- few files

    def _compact(self, spark: SparkSession) -> None:
        chosen = to_compact(self._units.all(), self._compact_after, TARGET_BYTES)
        if not chosen:
            return
        digest = hashlib.sha256(" ".join(unit.name for unit in chosen).encode()).hexdigest()[:24]
        name = f"compact-{digest}"
        staged = self._units.staging(name)
        work = [
            ([str(self._root / file) for file in files], str(staged / directory / "0.parquet"))
            for directory, files in by_directory(chosen).items()
        ]
        if work:
            spark.sparkContext.parallelize(work, len(work)).foreach(lambda files: merge_files(*files))
        self._units.commit(name, united(unit.spans for unit in chosen), staged, chosen)
        log.info("%d units of %s are one now, of %d files", len(chosen), self._root, len(work))


def _name(batch: TableBatch) -> str:
    return f"{batch.query_id[:12]}-{batch.number:012d}"


@contextmanager
def readable_times(spark: SparkSession) -> Iterator[None]:
    """Within the block, Spark writes times with their zone, so that every reader understands them."""
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
            directories.setdefault(str(Path(file).parent), []).append(file)
    return directories


def merge_files(sources: Sequence[str], target: str) -> None:
    """Write the rows of several files into one. Runs in an executor."""
    tables = [pq.ParquetFile(source).read() for source in sources]
    path = Path(target)
    path.parent.mkdir(parents=True, exist_ok=True)
    merged = pa.concat_tables(tables, promote_options="default")
    pq.write_table(merged, path, compression="snappy")
