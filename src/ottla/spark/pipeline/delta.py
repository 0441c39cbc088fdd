"""A Delta Lake table through delta-rs: without a jar, exactly once by its transactions.

Spark writes a batch into a hidden directory; one commit adds it to the table together with the query's id and
the batch's number, so a repeated batch is recognised. Readers see all of a commit or nothing.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.dataset as ds
from pyspark.sql.pandas.types import to_arrow_schema

from ottla.model.errors import ConfigError
from ottla.spark.pipeline.aggregates import WINDOW_START, Times
from ottla.spark.pipeline.form import SinkForm
from ottla.spark.pipeline.spans import Spans
from ottla.spark.pipeline.tables import TableBatch, readable_times
from ottla.spark.pipeline.units import OWN

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

log = logging.getLogger(__name__)

PLACE = ("topic", "partition", "offset")


class DeltaLakeTable:
    """For one thread of the driver. `keys` identify a row of window totals."""

    def __init__(self, sink: SinkForm, keys: Sequence[str] = ()) -> None:
        try:
            import deltalake
        except ImportError as error:
            raise ConfigError("[sink] format=delta needs deltalake: pip install 'ottla[delta]'") from error
        self._delta: Any = deltalake
        self._path = sink.path.removeprefix("file:")
        self._partition_by = list(sink.partition_by)
        self._compact_after = sink.compact_after
        self._keys = tuple(keys)

    # --- online

    def missing(self, batch: TableBatch) -> Spans:
        """The records of a batch that are not in the table: none, if it is a repeat."""
        return {} if self._is_done(batch) else batch.spans

    def append(self, rows: DataFrame, batch: TableBatch) -> None:
        """Add the rows of a batch."""
        with _Staged(rows, self._path) as staged:
            self._save(staged.reader(), mode="append", schema_mode="merge", batch=batch)
        self._done(batch)

    def merge(self, rows: pa.Table, batch: TableBatch) -> None:
        """Replace the rows that have the same keys as rows of the batch; add the others."""
        if self._is_done(batch) or not rows.num_rows:
            return
        if not self._delta.DeltaTable.is_deltatable(self._path):
            self._save(rows, mode="append", batch=batch)
        else:
            merger = self._delta.DeltaTable(self._path).merge(
                rows,
                keys_predicate(self._keys),
                source_alias="new",
                target_alias="old",
                commit_properties=self._properties(batch),
            )
            merger.when_matched_update_all().when_not_matched_insert_all().execute()
        self._done(batch)

    def _is_done(self, batch: TableBatch) -> bool:
        if not self._delta.DeltaTable.is_deltatable(self._path):
            return False
        last = self._delta.DeltaTable(self._path).transaction_version(batch.query_id)
        if last is None or last < batch.number:
            return False
        log.info("batch %d is in %s already", batch.number, self._path)
        return True

    def _done(self, batch: TableBatch) -> None:
        log.info("batch %d is in %s", batch.number, self._path)
        if self._compact_after and (batch.number + 1) % self._compact_after == 0:
            metrics = self._delta.DeltaTable(self._path).optimize.compact()
            log.info(
                "%s: %d files are %d now", self._path, metrics["numFilesRemoved"], metrics["numFilesAdded"]
            )

    # --- offline

    def covered(self, spans: Spans) -> Spans:
        """The range itself: Delta can replace exactly these records."""
        return spans

    def replace(self, rows: DataFrame, spans: Spans, *, is_all: bool) -> None:
        """Replace the rows of the range; with `is_all`, the whole table."""
        if not is_all and not set(PLACE) <= set(rows.columns):
            raise ConfigError(
                "[sink] format=delta: a range replaces rows by their topic, partition and offset; keep these"
                " columns in the transform, or run without --from and --to"
            )
        there = self._delta.DeltaTable.is_deltatable(self._path)
        with _Staged(rows, self._path) as staged:
            if is_all or not there:
                self._save(staged.reader(), mode="overwrite", schema_mode="overwrite" if there else None)
            else:
                self._save(staged.reader(), mode="overwrite", predicate=records_predicate(spans))

    def replace_windows(self, rows: pa.Table, times: Times) -> None:
        """Replace all rows of the windows that begin within `times`."""
        if times.is_all or not self._delta.DeltaTable.is_deltatable(self._path):
            self._save(rows, mode="overwrite")
        else:
            self._save(rows, mode="overwrite", predicate=times_predicate(times))

    def _save(self, data: Any, *, batch: TableBatch | None = None, **how: Any) -> None:
        options = {name: value for name, value in how.items() if value is not None}
        self._delta.write_deltalake(
            self._path,
            data,
            partition_by=self._partition_by or None,
            commit_properties=None if batch is None else self._properties(batch),
            **options,
        )

    def _properties(self, batch: TableBatch) -> Any:
        done = self._delta.Transaction(batch.query_id, batch.number)
        return self._delta.CommitProperties(app_transactions=[done])


class _Staged:
    """Rows that Spark has written beside the table; removed when the block ends."""

    def __init__(self, rows: DataFrame, path: str) -> None:
        self._rows = rows
        self._directory = Path(path) / OWN / "staging"

    def __enter__(self) -> _Staged:
        shutil.rmtree(self._directory, ignore_errors=True)
        with readable_times(self._rows.sparkSession):
            self._rows.write.mode("overwrite").parquet(str(self._directory))
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._directory, ignore_errors=True)

    def reader(self) -> pa.RecordBatchReader:
        """A reader of the rows in batches, with Spark's types."""
        schema = to_arrow_schema(self._rows.schema, timezone="UTC")
        files = sorted(str(path) for path in self._directory.glob("*.parquet"))
        return ds.dataset(files, schema=schema, format="parquet").scanner().to_reader()


def keys_predicate(keys: Sequence[str]) -> str:
    """SQL condition for rows with the same keys; a group may be null."""
    return " and ".join(
        f"(old.`{key}` = new.`{key}` or (old.`{key}` is null and new.`{key}` is null))" for key in keys
    )


def records_predicate(spans: Spans) -> str:
    """SQL condition for the rows of these records."""
    parts = (
        f"(topic = '{topic_partition.topic}' and `partition` = {topic_partition.partition}"
        f" and `offset` >= {start} and `offset` < {end})"
        for topic_partition, many in spans.items()
        for start, end in many
    )
    return " or ".join(parts) or "1 = 0"


def times_predicate(times: Times) -> str:
    """SQL condition for the rows of windows that begin within `times`."""
    parts = []
    if times.start is not None:
        parts.append(f"{WINDOW_START} >= '{times.start.isoformat()}'")
    if times.end is not None:
        parts.append(f"{WINDOW_START} < '{times.end.isoformat()}'")
    return " and ".join(parts)
