"""Files of rows, written inside Spark's tasks to any location: Arrow in, parquet out, without a jar."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ottla.spark.locations import Location, location
from ottla.spark.pipeline.units import StagedFile

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NULL_DIRECTORY = "__HIVE_DEFAULT_PARTITION__"


def written_by_tasks(
    rows: DataFrame, url: str, directory: str, partition_by: Sequence[str], schema: pa.Schema | None = None
) -> list[StagedFile]:
    """Write the rows below a directory of a location: a file for each task and partition of the table.

    With a schema the files have it, the columns of the partition among them.
    """
    from pyspark.sql.types import LongType, StringType, StructField, StructType

    from ottla.spark.pipeline.functions import _mapped

    kinds = {"path": StringType(), "directory": StringType(), "nbytes": LongType()}
    report = StructType([StructField(name, kind) for name, kind in kinds.items()])
    reports = _mapped(rows, _writer(url, directory, tuple(partition_by), schema), report).collect()
    return sorted(StagedFile(row["path"], row["directory"], row["nbytes"]) for row in reports)


def _writer(
    url: str, directory: str, partition_by: tuple[str, ...], schema: pa.Schema | None
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        files = write_files(location(url), directory, partition_by, map(_in_utc, batches), schema)
        yield pa.RecordBatch.from_pylist([file._asdict() for file in files], _SCHEMA)

    return write


_SCHEMA = pa.schema([("path", pa.string()), ("directory", pa.string()), ("nbytes", pa.int64())])


def write_files(
    where: Location,
    directory: str,
    partition_by: Sequence[str],
    batches: Iterable[pa.RecordBatch],
    schema: pa.Schema | None = None,
) -> list[StagedFile]:
    """Write rows below a directory, a file for each partition of the table; the names are new ones."""
    with ExitStack() as stack:
        open_files: dict[str, tuple[str, Path, pq.ParquetWriter]] = {}
        for batch in batches:
            table = pa.Table.from_batches([batch])
            if schema is not None:
                table = table.select(schema.names).cast(schema)
            for part, rows in partitions(table, partition_by, keep=schema is not None).items():
                if part not in open_files:
                    path = f"{directory}/{uuid.uuid4().hex}.parquet"
                    scratch = where.scratch(path)
                    stack.callback(scratch.unlink, missing_ok=True)
                    writer = stack.enter_context(pq.ParquetWriter(scratch, rows.schema))
                    open_files[part] = path, scratch, writer
                open_files[part][2].write_table(rows)
        files = []
        for part, (path, scratch, writer) in open_files.items():
            writer.close()
            nbytes = scratch.stat().st_size
            where.put(path, scratch)
            files.append(StagedFile(path, part, nbytes))
    return files


def _in_utc(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Times with their zone, so that every reader understands them."""
    fields = [
        field.with_type(pa.timestamp("us", "UTC"))
        if pa.types.is_timestamp(field.type) and field.type.tz
        else field
        for field in batch.schema
    ]
    return batch.cast(pa.schema(fields))


def partitions(rows: pa.Table, partition_by: Sequence[str], *, keep: bool = False) -> dict[str, pa.Table]:
    """Return rows by their directory in a table, in Hive's form; `keep` keeps the columns that the directory
    names.
    """
    if not rows.num_rows:
        return {}
    if not partition_by:
        return {"": rows}
    parts = {}
    groups = rows.select(partition_by).group_by(partition_by).aggregate([])
    for group in groups.to_pylist():
        chosen = pa.array([True] * rows.num_rows)
        for name, value in group.items():
            column = rows.column(name)
            same = pc.is_null(column) if value is None else pc.fill_null(pc.equal(column, value), False)  # noqa: FBT003
            chosen = pc.and_(chosen, same)
        part = rows.filter(chosen)
        parts[directory_of(group)] = part if keep else part.drop_columns(partition_by)
    return parts


def directory_of(values: dict[str, object]) -> str:
    """The directory of rows with these values of the partition columns, in Hive's form."""
    return "/".join(
        f"{name}={NULL_DIRECTORY if value is None or value == '' else quote(str(value), safe=' ')}"
        for name, value in values.items()
    )


def read_file(where: Location, path: str) -> pa.Table:
    """All rows of a file. Raises FileNotFoundError."""
    stored = where.read(path)
    if stored is None:
        raise FileNotFoundError(f"{where.url}/{path}")
    return pq.ParquetFile(pa.BufferReader(stored.content)).read()


def merged(work: tuple[str, Sequence[str], str, str]) -> tuple[str, str, int]:
    """Write the rows of several files into one; returns what a StagedFile has. Runs in an executor."""
    url, sources, target, directory = work
    where = location(url)
    rows = pa.concat_tables([read_file(where, source) for source in sources], promote_options="default")
    scratch = where.scratch(target)
    pq.write_table(rows, scratch, compression="snappy")
    nbytes = scratch.stat().st_size
    where.put(target, scratch)
    return target, directory, nbytes
