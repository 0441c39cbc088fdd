"""Parquet files whose names say which records they hold.

    PATH/topic=orders/partition=3/00000000000000000100-00000000000000000250.parquet       offsets 100 to 249

A file appears whole or not at all. So every record is stored exactly once if no two files overlap, and no
other bookkeeping is needed: a batch that is repeated after a crash sees its files and leaves them alone.
Readers of partitioned tables take the two directory levels as columns.
"""

from __future__ import annotations

import os
import re
import time
import uuid
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from ottla.model.errors import ConfigError
from ottla.model.topic_partition import TopicAndPartition
from ottla.spark.range_planner import TaskRange
from ottla.spark.whole_files import appear

ROW_GROUP_BYTES = 64 << 20
ROW_GROUP_ROWS = 1 << 20
# What repeats is written once; bytes of messages and growing numbers do not repeat.
DICTIONARY = ["key", "timestampType"]
# What grows from row to row is written as differences: a byte or two instead of eight.
GROWING = ["offset", "timestamp"]
# Readers choose parts of a file by the smallest and the largest of these; of values nobody asks.
MEASURED = ["key", "offset", "timestamp", "timestampType"]
STRAY_S = 86_400
_NAME = re.compile(r"(\d{20})-(\d{20})\.parquet")


class LandedFile(NamedTuple):
    """A finished file with the offsets from `start` to before `end`."""

    start: int
    end: int
    path: Path


def directory_of(root: Path, topic_partition: TopicAndPartition) -> Path:
    """The directory of a partition's files."""
    return root / f"topic={topic_partition.topic}" / f"partition={topic_partition.partition}"


def landed(root: Path, topic_partition: TopicAndPartition) -> list[LandedFile]:
    """The files of a partition, by offset."""
    return landed_in(directory_of(root, topic_partition))


def landed_in(directory: Path) -> list[LandedFile]:
    """The files of a partition's directory, by offset."""
    try:
        names = os.listdir(directory)
    except FileNotFoundError:
        return []
    matches = ((_NAME.fullmatch(name), name) for name in names)
    return sorted(LandedFile(int(m[1]), int(m[2]), directory / name) for m, name in matches if m is not None)


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


def file_of(directory: Path, start: int, end: int) -> Path:
    """The name of a file with these offsets."""
    return directory / f"{start:020d}-{end:020d}.parquet"


def remove_strays(directory: Path) -> None:
    """Remove hidden files that killed tasks left behind: those that are older than a day."""
    for path in directory.glob(".*"):
        with suppress(FileNotFoundError):
            if time.time() - path.stat().st_mtime > STRAY_S:
                path.unlink()


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

    def __init__(self, root: Path, wanted: TaskRange, schema: pa.Schema, compression: str) -> None:
        directory = directory_of(root, wanted.topic_partition)
        directory.mkdir(parents=True, exist_ok=True)
        remove_strays(directory)
        self.wanted = wanted
        self.rows = 0
        self.path = file_of(directory, wanted.start, wanted.end)
        self._hidden = directory / f".{self.path.name}.{uuid.uuid4().hex}"
        self._pending: list[pa.RecordBatch] = []
        self._pending_bytes = self._pending_rows = 0
        self._writer = parquet_writer(self._hidden, schema, compression)

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

    def finish(self) -> int:
        """Make the file appear under its name. Returns its size in bytes."""
        self._write()
        self._writer.close()
        return appear(self._hidden, self.path)

    def abandon(self) -> None:
        """Remove the hidden file."""
        self._writer.close()
        self._hidden.unlink(missing_ok=True)
