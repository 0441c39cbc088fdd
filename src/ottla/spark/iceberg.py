"""An Iceberg table through pyiceberg: without a jar, exactly once by the offsets in its own commits.

A commit adds data files together with the offset at which each partition ends, as the table's property
`ottla.offsets`. So the table knows which records it has: a repeated batch, a new checkpoint and a second
writer find them there. The offsets are compared with the version that a commit builds on; another commit in
between makes it fail, and they are compared again. pyiceberg's own repetition is switched off: it would
append to whatever is there. Needs no Spark.
"""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ottla.model.errors import ConfigError
from ottla.model.topic_partition import TopicAndPartition
from ottla.spark.commits import commit_once, known_after
from ottla.spark.locations import location
from ottla.spark.offset_json import Offsets, from_spark, to_spark
from ottla.spark.pipeline.spans import Spans, ends

log = logging.getLogger(__name__)

OFFSETS = "ottla.offsets"
DATA = "data"
TARGET_BYTES = 128 << 20
_METRICS = "write.metadata.metrics.column"
_RETRIES = "commit.retry.num-retries"
_PROPERTIES = {_RETRIES: "0", "format-version": "2"}


class IcebergTable:
    """For one thread. The options `catalog` and `table` name it in a catalog; else it is at the URL.

    `properties` are those of a table that is made.
    """

    def __init__(
        self,
        url: str,
        options: Mapping[str, str] | None = None,
        partition_by: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
    ) -> None:
        try:
            from pyiceberg.exceptions import CommitFailedException

            from ottla.spark import iceberg_catalog
        except ImportError as error:
            raise ConfigError("format=iceberg needs pyiceberg: pip install 'ottla[iceberg]'") from error
        self._named = iceberg_catalog.NamedTable(url, options or {})
        self._overtaken = CommitFailedException
        self._partition_by = tuple(partition_by)
        self._properties = {**_PROPERTIES, **(properties or {})}
        self.shown = self._named.shown

    # --- what it has

    def ends(self, wanted: Iterable[TopicAndPartition]) -> Offsets:
        """Return the offset after the last record that the table has, of each of these partitions that has
        any.
        """
        ends = _ends(self._named.load())
        return {
            topic_partition: ends[topic_partition] for topic_partition in wanted if topic_partition in ends
        }

    def there(self, wanted: Spans) -> Spans:
        """Return the records that the table has, of these partitions."""
        return _there(self._named.load(), wanted)

    # --- writing

    def prepared(self, schema: pa.Schema) -> tuple[str, pa.Schema]:
        """Create the table, or add columns that it lacks. Returns where its files go, and their schema."""
        from pyiceberg.io.pyarrow import schema_to_pyarrow

        table = self._named.load()
        if table is None:
            self._named.create(schema, self._partition_by, self._properties)
            table = self._named.load()
            assert table is not None
        before = table.schema()
        with table.update_schema() as update:
            update.union_by_name(schema)
        if table.schema() != before:
            log.info("%s has other columns now: %s", self.shown, table.schema().as_struct())
        missing = [f.name for f in table.schema().fields if f.required and f.name not in schema.names]
        if missing:
            raise ConfigError(f"{self.shown} needs the column {missing[0]}, and the rows have none")
        return table.location(), schema_to_pyarrow(table.schema().select(*schema.names))

    def check(self, schema: pa.Schema) -> None:
        """Raise ConfigError if the table cannot have rows with these columns."""
        from pyiceberg.catalog import Catalog

        table = self._named.load()
        try:
            if table is None:
                Catalog._convert_schema_if_needed(schema)
            else:
                table.update_schema().union_by_name(schema)._apply()
        except Exception as error:
            line = next(iter(str(error).splitlines()), type(error).__name__)
            raise ConfigError(f"{self.shown}: {line}") from error

    def add(self, files: Sequence[str], spans: Spans) -> None:
        """Add data files, which hold these records. Raises ConfigError if the table has some of them."""
        self._append(files, spans, lambda known: known | ends(spans))

    def begin(self, starts: Offsets) -> None:
        """Note where partitions begin that the table does not know."""
        self._append([], {}, lambda known: starts | known)

    def _append(self, files: Sequence[str], spans: Spans, new: Callable[[Offsets], Offsets]) -> None:
        """Commit files, and the offsets that `new` makes of those of the table.

        A snapshot without files tells other writers too: a change of properties alone does not.
        """

        def commit(table: Any) -> None:
            with table.transaction() as transaction:
                transaction.set_properties({OFFSETS: _offsets_text(new(_ends(table)))})
                with transaction.update_snapshot().fast_append() as append:
                    for file in files:
                        path = f"{table.location()}/{file}"
                        append.append_data_file(_data_file(table, path))

        commit_once(
            self.shown, spans, self._opened, lambda table: _there(table, spans), commit, self._overtaken
        )

    def _opened(self) -> Any:
        """Return the table as it is now. pyiceberg commits to it once, whatever its properties say."""
        table = self._named.load()
        assert table is not None
        properties = {**table.metadata.properties, _RETRIES: "0"}
        table.metadata = table.metadata.model_copy(update={"properties": properties})
        return table

    def replace(self, files: Sequence[str], spans: Spans, *, is_all: bool) -> None:
        """Replace the rows of these records by those of data files; with `is_all`, all rows."""
        from pyiceberg.expressions import AlwaysTrue

        table = self._opened()
        before = _ends(table)
        known = before | known_after(before, spans, is_all=is_all)
        with table.transaction() as transaction:
            transaction.set_properties({OFFSETS: _offsets_text(known)})
            if table.current_snapshot() is not None:
                transaction.delete(AlwaysTrue() if is_all else _records(spans))
            with transaction.update_snapshot().fast_append() as append:
                for file in files:
                    path = f"{table.location()}/{file}"
                    append.append_data_file(_data_file(table, path))

    def rewrite(
        self, condition: Any, schema: pa.Schema, changed: Callable[[pa.Table], Sequence[pa.Table]]
    ) -> None:
        """Replace the rows of a condition by what `changed` makes of them, in one commit.

        If another writer was faster, `changed` is called again.
        """
        from pyiceberg.io.pyarrow import schema_to_pyarrow

        self.prepared(schema)

        def commit(table: Any) -> None:
            columns = schema_to_pyarrow(table.schema())
            old = table.scan(row_filter=condition).to_arrow()
            rows = pa.concat_tables([_in_schema(part, columns) for part in changed(_in_schema(old, columns))])
            if old.num_rows:
                table.overwrite(rows, overwrite_filter=condition)
            else:
                table.append(rows)

        commit_once(self.shown, {}, self._opened, lambda _: {}, commit, self._overtaken)

    # --- few files

    def compact(self, after: int, target_bytes: int = TARGET_BYTES) -> int:
        """Merge small files of a partition of the table if there are `after` of them.

        Returns how many were merged.
        """
        from pyiceberg.io.pyarrow import schema_to_pyarrow

        table = self._opened()
        where = location(table.location())
        small = [
            task.file for task in table.scan().plan_files() if task.file.file_size_in_bytes < target_bytes
        ]
        groups: dict[Any, list[Any]] = {}
        for file in small:
            groups.setdefault((file.spec_id, repr(file.partition)), []).append(file)
        merged = 0
        schema = schema_to_pyarrow(table.schema())
        with table.transaction() as transaction:
            for group in groups.values():
                chosen = _together(group, target_bytes)
                if not after or len(chosen) < max(2, after):
                    continue
                path = f"{DATA}/{uuid.uuid4().hex}.parquet"
                scratch = where.scratch(path)
                with pq.ParquetWriter(scratch, schema) as writer:
                    for file in chosen:
                        with table.io.new_input(file.file_path).open() as stream:
                            writer.write_table(_in_schema(pq.ParquetFile(stream).read(), schema))
                where.put(path, scratch)
                new = _data_file(table, f"{table.location()}/{path}")
                with transaction.update_snapshot().overwrite() as change:
                    for file in chosen:
                        change.delete_data_file(file)
                    change.append_data_file(new)
                merged += len(chosen)
        return merged


def _data_file(table: Any, path: str) -> Any:
    """Describe a data file; of times after the year 9999, which Python does not have, without their range."""
    from pyiceberg.io.pyarrow import parquet_file_to_data_file
    from pyiceberg.types import TimestampType, TimestamptzType

    try:
        return parquet_file_to_data_file(table.io, table.metadata, path)
    except OverflowError:
        schema = table.schema()
        counted = {
            f"{_METRICS}.{name}": "counts"
            for name in schema.column_names
            if isinstance(schema.find_type(name), TimestampType | TimestamptzType)
        }
        properties = {**table.metadata.properties, **counted}
        metadata = table.metadata.model_copy(update={"properties": properties})
        return parquet_file_to_data_file(table.io, metadata, path)


def within(column: str, start: datetime | None, end: datetime | None) -> Any:
    """Return the condition for rows whose time is from `start` to before `end`; None means unbounded."""
    from pyiceberg.expressions import AlwaysTrue

    bounds = [f"{column} >= '{start.isoformat()}'"] if start is not None else []
    bounds += [f"{column} < '{end.isoformat()}'"] if end is not None else []
    return " and ".join(bounds) or AlwaysTrue()


def _in_schema(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return rows of an older file with the table's columns: those that it lacks are null."""
    columns = [
        rows.column(field.name).cast(field.type)
        if field.name in rows.column_names
        else pa.nulls(rows.num_rows, field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _together(files: Sequence[Any], target_bytes: int) -> list[Any]:
    chosen: list[Any] = []
    room = target_bytes
    for file in files:
        if room <= 0:
            break
        chosen.append(file)
        room -= file.file_size_in_bytes
    return chosen


def _ends(table: Any) -> Offsets:
    if table is None:
        return {}
    return from_spark(json.loads(table.properties.get(OFFSETS, "{}")))


def _there(table: Any, wanted: Spans) -> Spans:
    ends = _ends(table)
    return {
        topic_partition: [(0, ends[topic_partition])]
        for topic_partition in wanted
        if ends.get(topic_partition)
    }


def _offsets_text(offsets: Offsets) -> str:
    return json.dumps(to_spark(offsets), sort_keys=True)


def _records(spans: Spans) -> str:
    """Return the condition for rows of these records, in pyiceberg's syntax."""
    return " or ".join(
        f"(topic = '{topic_partition.topic}' and partition = {topic_partition.partition}"
        f" and offset >= {start} and offset < {end})"
        for topic_partition, many in spans.items()
        for start, end in many
    )
