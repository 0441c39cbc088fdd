"""Parquet files whose names say which records they hold.

    PATH/topic=orders/partition=3/00000000000000000100-00000000000000000250.parquet       offsets 100 to 249

A file appears whole or not at all. So every record is stored exactly once if no two files overlap, and no
other bookkeeping is needed: a batch that is repeated after a crash sees its files and leaves them alone.
Readers of partitioned tables take the two directory levels as columns.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from ottla.model.errors import ConfigError
from ottla.model.topic_partition import TopicAndPartition
from ottla.spark.locations import Location, remove_strays
from ottla.spark.range_planner import TaskRange

ROW_GROUP_BYTES = 64 << 20
ROW_GROUP_ROWS = 1 << 20
# What repeats is written once; bytes of messages and growing numbers do not repeat.
DICTIONARY = ["key", "topic", "partition", "timestampType"]
# What grows from row to row is written as differences: a byte or two instead of eight.
GROWING = ["offset", "timestamp"]
# Readers choose parts of a file by the smallest and the largest of these; of values nobody asks.
MEASURED = ["key", "topic", "partition", "offset", "timestamp", "timestampType"]
_NAME = re.compile(r"(\d{20})-(\d{20})\.parquet")


class LandedFile(NamedTuple):
    """A finished file with the offsets from `start` to before `end`; its path is relative to the table."""

    start: int
    end: int
    path: str
    nbytes: int = 0


def directory_of(topic_partition: TopicAndPartition) -> str:
    """The directory of a partition's files."""
    return f"topic={topic_partition.topic}/partition={topic_partition.partition}"


def landed(where: Location, topic_partition: TopicAndPartition) -> list[LandedFile]:
    """The files of a partition, by offset."""
    return landed_in(where, directory_of(topic_partition))


def landed_in(where: Location, directory: str) -> list[LandedFile]:
    """The files of a partition's directory, by offset."""
    matches = ((_NAME.fullmatch(entry.path.rpartition("/")[2]), entry) for entry in where.list(directory))
    return sorted(
        LandedFile(int(name[1]), int(name[2]), entry.path, entry.size)
        for name, entry in matches
        if name is not None
    )


def is_there(files: Iterable[LandedFile], wanted: TaskRange) -> bool:
    """Whether a single file covers the whole range."""
    return any(file.start <= wanted.start and wanted.end <= file.end for file in files)


def within(files: Iterable[LandedFile], wanted: TaskRange) -> list[LandedFile]:
    """The files that lie within `wanted` and that a new file for it would replace.

    Raises ConfigError if a file overlaps the range only partly.
    """
    inside = []
    for file in files:
        if wanted.start <= file.start and file.end <= wanted.end:
            inside.append(file)
        elif file.start < wanted.end and wanted.start < file.end:
            raise ConfigError(
                f"{file.path} has offsets {file.start} to {file.end - 1}, and {wanted.start} to "
                f"{wanted.end - 1} are to be written: choose a range that does not cut a file, "
                "or another path"
            )
    return inside


def file_of(directory: str, start: int, end: int) -> str:
    """The name of a file with these offsets."""
    return f"{directory}/{start:020d}-{end:020d}.parquet"


def parquet_writer(path: Path, schema: pa.Schema, compression: str) -> pq.ParquetWriter:
    """A parquet writer with an encoding that suits each column."""
    dictionary, growing, measured = (
        [name for name in names if name in schema.names] for names in (DICTIONARY, GROWING, MEASURED)
    )
    return pq.ParquetWriter(
        path,
        schema,
        compression=compression,
        use_dictionary=dictionary or False,
        column_encoding=dict.fromkeys(growing, "DELTA_BINARY_PACKED") or None,
        write_statistics=measured or False,
    )


class LandingFile:
    """A file that is being written. It appears at `finish`. Rows are collected into large row groups."""

    def __init__(self, where: Location, wanted: TaskRange, schema: pa.Schema, compression: str) -> None:
        directory = directory_of(wanted.topic_partition)
        remove_strays(where, directory, prefix=".")
        self.wanted = wanted
        self.rows = 0
        self.path = file_of(directory, wanted.start, wanted.end)
        self._where = where
        self._scratch = where.scratch(self.path)
        self._pending: list[pa.RecordBatch] = []
        self._pending_bytes = self._pending_rows = 0
        self._writer = parquet_writer(self._scratch, schema, compression)

    def end_at(self, end: int) -> None:
        """The file holds the offsets to before `end`."""
        self.wanted = self.wanted._replace(end=end)
        self.path = file_of(directory_of(self.wanted.topic_partition), self.wanted.start, end)

    def add(self, rows: pa.RecordBatch) -> None:
        """Add rows, in the order of their offsets."""
        self._pending.append(rows)
        self._pending_bytes += rows.nbytes
        self._pending_rows += rows.num_rows
        self.rows += rows.num_rows
        if self._pending_bytes >= ROW_GROUP_BYTES or self._pending_rows >= ROW_GROUP_ROWS:
            self._write()

    def _write(self) -> None:
        if self._pending:
            self._writer.write_table(pa.Table.from_batches(self._pending), row_group_size=ROW_GROUP_ROWS)
        self._pending, self._pending_bytes, self._pending_rows = [], 0, 0

    def finish(self, *, replaces: bool) -> int:
        """Make the file appear under its name; `replaces` an older one, or leaves it. Returns its bytes."""
        self._write()
        self._writer.close()
        nbytes = self._scratch.stat().st_size
        if replaces:
            self._where.put(self.path, self._scratch)
        else:
            self._where.create(self.path, self._scratch)
        return nbytes

    def abandon(self) -> None:
        """Remove what was written."""
        self._writer.close()
        self._scratch.unlink(missing_ok=True)
