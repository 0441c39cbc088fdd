"""Parquet files whose names say which records they hold.

    PATH/topic=orders/partition=3/00000000000000000100-00000000000000000250.parquet       offsets 100 to 249

A file appears whole or not at all. So records are there exactly once if no two files overlap, and nothing
else has to be kept: a batch that is repeated after a crash finds its files, and leaves them as they are.
The first two levels are columns for every reader of partitioned tables.
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
from ottla.spark.range_planner import OffsetRange
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
    """A file that is there, with its offsets from `start` to before `end`."""

    start: int
    end: int
    path: Path


def directory_of(root: Path, place: TopicAndPartition) -> Path:
    """Where the files of a partition are."""
    return root / f"topic={place.topic}" / f"partition={place.partition}"


def landed(root: Path, place: TopicAndPartition) -> list[LandedFile]:
    """The files of a partition, by offset."""
    return landed_in(directory_of(root, place))


def landed_in(directory: Path) -> list[LandedFile]:
    """The files of a partition's directory, by offset."""
    try:
        names = os.listdir(directory)
    except FileNotFoundError:
        return []
    found = ((_NAME.fullmatch(name), name) for name in names)
    return sorted(LandedFile(int(m[1]), int(m[2]), directory / name) for m, name in found if m is not None)


def is_there(files: Iterable[LandedFile], wanted: OffsetRange) -> bool:
    """Whether one file has all records of a range."""
    return any(one.start <= wanted.start and wanted.end <= one.end for one in files)


def within(files: Iterable[LandedFile], wanted: OffsetRange) -> list[LandedFile]:
    """The files that a new one for the range takes the place of.

    Raises ConfigError if a file has some of the records and others, too.
    """
    inside = []
    for one in files:
        if wanted.start <= one.start and one.end <= wanted.end:
            inside.append(one)
        elif one.start < wanted.end and wanted.start < one.end:
            raise ConfigError(
                f"{one.path} has offsets {one.start} to {one.end - 1}, and {wanted.start} to {wanted.end - 1}"
                " are to be written: choose a range that does not cut a file, or another path"
            )
    return inside


def file_of(directory: Path, start: int, end: int) -> Path:
    """The name of a file with these offsets."""
    return directory / f"{start:020d}-{end:020d}.parquet"


def remove_strays(directory: Path) -> None:
    """Hidden files that killed tasks have left; nobody writes at one for a day."""
    for path in directory.glob(".*"):
        with suppress(FileNotFoundError):
            if time.time() - path.stat().st_mtime > STRAY_S:
                path.unlink()


def parquet_writer(path: Path, schema: pa.Schema, compression: str) -> pq.ParquetWriter:
    """A writer of the columns of records, each in the way that suits it."""
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
    """A file that is being written; it appears with `finish`. Rows are collected into large groups."""

    def __init__(self, root: Path, wanted: OffsetRange, schema: pa.Schema, compression: str) -> None:
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
        """Take some rows in, in the order of their offsets."""
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
        """Let it appear, under its name, for good; how many bytes it has."""
        self._write()
        self._writer.close()
        return appear(self._hidden, self.path)

    def abandon(self) -> None:
        """Leave nothing behind."""
        self._writer.close()
        self._hidden.unlink(missing_ok=True)
