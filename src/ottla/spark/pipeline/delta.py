"""A Delta Lake table through delta-rs: without a jar, exactly once by its transactions.

Spark writes a batch into a hidden directory; one commit adds it to the table together with the query's id,
the batch's number, and the offset at which each partition ends. So the table knows which records it has: a
repeated batch, a stream with a new checkpoint and a second writer find them there. The offsets are compared
with the very version that a commit builds on; if another writer was faster, they are compared again. Readers
see all of a commit or nothing.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ottla.model.errors import ConfigError
from ottla.model.topic_partition import TopicAndPartition
from ottla.spark.commits import commit_once, known_after
from ottla.spark.locations import OWN, Directory, Location, location, remove_strays
from ottla.spark.object_store import delta_settings
from ottla.spark.offset_json import Offsets
from ottla.spark.pipeline.aggregates import WINDOW_START, Times
from ottla.spark.pipeline.sink_form import SinkForm
from ottla.spark.pipeline.spans import Spans, without
from ottla.spark.pipeline.table_files import read_file, written_by_tasks
from ottla.spark.pipeline.tables import TableBatch, readable_times, written_by_spark
from ottla.spark.table_columns import PLACE, changed, optional, unfit

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

log = logging.getLogger(__name__)


class DeltaLakeTable:
    """For one thread of the driver. `keys` identify a row of window totals."""

    def __init__(self, sink: SinkForm, keys: Sequence[str] = ()) -> None:
        try:
            import deltalake
        except ImportError as error:
            raise ConfigError("format=delta needs deltalake: pip install 'ottla[delta]'") from error
        self._delta: Any = deltalake
        self._where = location(sink.path)
        self._path = self._where.url
        self._partition_by = list(sink.partition_by)
        self._compact_after = sink.compact_after
        self._keys = tuple(keys)

    # --- online

    def missing(self, batch: TableBatch) -> Spans:
        """Return the records of a batch that are not in the table; none if the batch is a repetition."""
        if self._is_done(batch):
            return {}
        left = without(batch.spans, self._there(self._table(), batch.spans))
        if left != batch.spans:
            log.warning("batch %d: %s has some or all of its records already", batch.number, self._path)
        return left

    def append(self, rows: DataFrame, batch: TableBatch) -> None:
        """Add the rows of a batch."""
        with _Staged(rows, self._where) as staged:
            self.add(staged.reader, batch)

    def add(self, rows: Callable[[], pa.RecordBatchReader], batch: TableBatch) -> None:
        """Commit to the version whose offsets were compared. Raises ConfigError if the table has
        the records.
        """

        def save(table: Any) -> None:
            self._save(rows(), table, mode="append", schema_mode="merge", batch=batch)

        self._commit(save, batch)

    def _commit(self, save: Callable[[Any], None], batch: TableBatch) -> None:
        commit_once(
            self._path,
            batch.spans,
            self._table,
            lambda table: self._there(table, batch.spans),
            save,
            self._delta.exceptions.CommitFailedError,
        )
        self._done(batch)

    def check(self, schema: pa.Schema) -> None:
        """Raise ConfigError if rows with these columns cannot be part of the table as they are."""
        try:
            self._delta.Schema.from_arrow(schema)
        except Exception as error:  # of arrow, or of delta-rs
            raise ConfigError(f"{self._path}: {str(error).splitlines()[0]}") from error
        table = self._table()
        self._check_columns(table, schema)
        there = table.metadata().partition_columns if table else []
        if table and self._partition_by and self._partition_by != there:
            raise ConfigError(f"{self._path} is partitioned by {', '.join(there) or 'nothing'}")

    def _check_columns(self, table: Any, schema: pa.Schema) -> None:
        """Raise ConfigError for a column whose values delta-rs would change to fit the table's type."""
        if table and (why := changed(pa.schema(table.schema()), schema)):
            raise ConfigError(f"{self._path}: {why}: cast it, or choose another table")

    def prepare(self, schema: pa.Schema) -> None:
        """Make the table, or add columns that it lacks.

        Raises ConfigError if files with these columns cannot be part of it.
        """
        delta = self._delta
        table = self._table()
        if table is None:
            storage = delta_settings(self._path)
            delta.DeltaTable.create(self._path, schema, mode="ignore", storage_options=storage)
            return
        wanted = delta.Schema.from_arrow(schema).fields
        if why := unfit(table, wanted):
            raise ConfigError(f"{self._path} {why}: raw records need another table")
        there = {field.name for field in table.schema().fields}
        if missing := [field for field in wanted if field.name not in there]:
            table.alter.add_columns(missing)

    def add_file(self, path: str, nbytes: int, statistics: str, batch: TableBatch) -> None:
        """Make a file with the records of a batch part of the table, as `add` does with rows."""
        written_ms = int(1000 * time.time())
        action = self._delta.transaction.AddAction(path, nbytes, {}, written_ms, True, statistics)  # noqa: FBT003

        def save(table: Any) -> None:
            properties = self._properties(batch)
            table.create_write_transaction([action], "append", table.schema(), commit_properties=properties)

        self._commit(save, batch)

    def begin(self, starts: Offsets) -> None:
        """Note where partitions begin that the table does not know."""

        def save(table: Any) -> None:
            new = {
                part: at for part, at in starts.items() if table.transaction_version(_app_id(part)) is None
            }
            properties = self._delta.CommitProperties(app_transactions=self._ends(new), max_commit_retries=0)
            table.create_write_transaction([], "append", table.schema(), commit_properties=properties)

        commit_once(self._path, {}, self._table, lambda _: {}, save, self._delta.exceptions.CommitFailedError)

    def ends(self, wanted: Iterable[TopicAndPartition]) -> Offsets:
        """Return where the table goes on, of each of these partitions that it knows: after the last record
        that it has, or where the partition begins.
        """
        table = self._table()
        ends = (
            {
                topic_partition: table.transaction_version(_app_id(topic_partition))
                for topic_partition in wanted
            }
            if table
            else {}
        )
        return {topic_partition: end for topic_partition, end in ends.items() if end is not None}

    def last_batch(self, query_id: str) -> int:
        """The number of a query's last batch; -1 if there is none."""
        table = self._table()
        last = table.transaction_version(query_id) if table else None
        return -1 if last is None else last

    def _table(self) -> Any:
        """The table as it is now; None if there is none."""
        storage = delta_settings(self._path)
        if not self._delta.DeltaTable.is_deltatable(self._path, storage):
            return None
        return self._delta.DeltaTable(self._path, storage_options=storage)

    @staticmethod
    def _there(table: Any, wanted: Spans) -> Spans:
        """The records that a version of the table has, of these partitions."""
        ends = (
            {
                topic_partition: table.transaction_version(_app_id(topic_partition)) or 0
                for topic_partition in wanted
            }
            if table
            else {}
        )
        return {topic_partition: [(0, end)] for topic_partition, end in ends.items() if end}

    def merge(self, rows: pa.Table, batch: TableBatch) -> None:
        """Replace the rows that have the same keys as rows of the batch; add the others."""
        if self._is_done(batch) or not rows.num_rows:
            return
        table = self._table()
        if table is None:
            self._save(rows, mode="append", batch=batch)
        else:
            self._check_columns(table, rows.schema)
            merger = table.merge(
                rows,
                keys_predicate(self._keys),
                source_alias="new",
                target_alias="old",
                commit_properties=self._properties(batch),
            )
            merger.when_matched_update_all().when_not_matched_insert_all().execute()
        self._done(batch)

    def _is_done(self, batch: TableBatch) -> bool:
        if self.last_batch(batch.query_id) < batch.number:
            return False
        log.info("batch %d is in %s already", batch.number, self._path)
        return True

    def _done(self, batch: TableBatch) -> None:
        log.info("batch %d is in %s", batch.number, self._path)
        if self._compact_after and (batch.number + 1) % self._compact_after == 0:
            metrics = self._table().optimize.compact()
            log.info(
                "%s: %d files are %d now", self._path, metrics["numFilesRemoved"], metrics["numFilesAdded"]
            )

    # --- offline

    def covered(self, spans: Spans) -> Spans:
        """Return the range itself: Delta can replace exactly these records."""
        return spans

    def replace(self, rows: DataFrame, spans: Spans, *, is_all: bool) -> None:
        """Replace the rows of the range; with `is_all`, the whole table."""
        if not is_all and not set(PLACE) <= {field.name for field in rows.schema}:
            raise ConfigError(
                "[sink] format=delta: a range replaces rows by their topic, partition and offset; keep these"
                " columns in the transform, or run without --from and --to"
            )
        table = self._table()
        known = {topic_partition: many[0][1] for topic_partition, many in self._there(table, spans).items()}
        ends = known_after(known, spans, is_all=is_all)
        with _Staged(rows, self._where) as staged:
            if is_all or table is None:
                mode = "overwrite" if table else None
                self._save(staged.reader(), ends=ends, mode="overwrite", schema_mode=mode)
            else:
                self._save(staged.reader(), ends=ends, mode="overwrite", predicate=records_predicate(spans))

    def replace_windows(self, rows: pa.Table, times: Times) -> None:
        """Replace all rows of the windows that begin within `times`."""
        if times.is_all or self._table() is None:
            self._save(rows, mode="overwrite")
        else:
            self._save(rows, mode="overwrite", predicate=times_predicate(times))

    def _save(
        self,
        data: Any,
        table: Any = None,
        *,
        batch: TableBatch | None = None,
        ends: Mapping[TopicAndPartition, int] | None = None,
        **how: Any,
    ) -> None:
        options = {name: value for name, value in how.items() if value is not None}
        if "schema_mode" not in options or options["schema_mode"] == "merge":
            self._check_columns(table or self._table(), data.schema)
        of_range = self._delta.CommitProperties(app_transactions=self._ends(ends)) if ends else None
        self._delta.write_deltalake(
            self._path if table is None else table,
            data,
            partition_by=self._partition_by or None,
            commit_properties=of_range if batch is None else self._properties(batch),
            storage_options=None if table is not None else delta_settings(self._path),
            **options,
        )

    def _properties(self, batch: TableBatch) -> Any:
        done = [self._delta.Transaction(batch.query_id, batch.number)]
        if self._keys:  # totals change, so offsets do not say which records are in them
            return self._delta.CommitProperties(app_transactions=done)
        done += self._ends({topic_partition: many[-1][1] for topic_partition, many in batch.spans.items()})
        return self._delta.CommitProperties(app_transactions=done, max_commit_retries=0)

    def _ends(self, ends: Mapping[TopicAndPartition, int]) -> list[Any]:
        return [
            self._delta.Transaction(_app_id(topic_partition), end) for topic_partition, end in ends.items()
        ]


def _app_id(topic_partition: TopicAndPartition) -> str:
    """Return the name under which a table keeps the offset after the last record of a partition."""
    return f"ottla/{topic_partition.topic}/{topic_partition.partition}"


class _Staged:
    """Rows that Spark has written beside the table; removed when the block ends."""

    def __init__(self, rows: DataFrame, where: Location) -> None:
        self._rows, self._where = rows, where
        self._directory = f"{OWN}/staging/{uuid.uuid4().hex}"
        self._files: list[str] = []

    def __enter__(self) -> _Staged:
        remove_strays(self._where, f"{OWN}/staging")
        if isinstance(self._where, Directory):
            with readable_times(self._rows.sparkSession):
                self._rows.write.mode("overwrite").parquet(str(self._where.root / self._directory))
            files = written_by_spark(self._where, self._directory)
        else:
            files = written_by_tasks(self._rows, self._where.url, self._directory, ())
        self._files = [file.path for file in files]
        return self

    def __exit__(self, *_: object) -> None:
        self._where.delete([entry.path for entry in self._where.list(self._directory)])

    def reader(self) -> pa.RecordBatchReader:
        """A reader of the rows in batches, with Spark's types."""
        from pyspark.sql.pandas.types import to_arrow_schema

        schema = optional(to_arrow_schema(self._rows.schema, timezone="UTC"))
        tables = (read_file(self._where, file).select(schema.names).cast(schema) for file in self._files)
        batches = (batch for table in tables for batch in table.to_batches())
        return pa.RecordBatchReader.from_batches(schema, batches)


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
