"""Parquet files whose names say which records they hold.

    PATH/topic=orders/partition=3/00000000000000000100-00000000000000000250.parquet       offsets 100 to 249

A file appears whole or not at all. So every record is stored exactly once if no two files overlap, and no
other bookkeeping is needed: a batch that is repeated after a crash sees its files and leaves them alone.
Readers of partitioned tables take the two directory levels as columns.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

import pyarrow as pa

from ottla.model.errors import ConfigError
from ottla.model.topic_partition import TopicAndPartition
from ottla.spark.locations import Location, remove_strays
from ottla.spark.parquet_file import RawParquetFile
from ottla.spark.range_planner import TaskRange

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


class LandingFile:
    """A file that is being written. It appears at `finish`."""

    def __init__(self, where: Location, wanted: TaskRange, schema: pa.Schema, compression: str) -> None:
        directory = directory_of(wanted.topic_partition)
        remove_strays(where, directory, prefix=".")
        self.wanted = wanted
        self.path = file_of(directory, wanted.start, wanted.end)
        self._where = where
        self._file = RawParquetFile(where.scratch(self.path), schema, compression)

    @property
    def rows(self) -> int:
        """How many rows were added."""
        return self._file.rows

    def end_at(self, end: int) -> None:
        """Note that the file holds the offsets up to `end`, exclusively."""
        self.wanted = self.wanted._replace(end=end)
        self.path = file_of(directory_of(self.wanted.topic_partition), self.wanted.start, end)

    def add(self, rows: pa.RecordBatch) -> None:
        """Add rows, in the order of their offsets."""
        self._file.add(rows)

    def finish(self, *, replaces: bool) -> int:
        """Give the file its name. With `replaces` it replaces an older one, else that one is kept.

        Returns its size.
        """
        nbytes = self._file.close()
        if replaces:
            self._where.put(self.path, self._file.path)
        else:
            self._where.create(self.path, self._file.path)
        return nbytes

    def abandon(self) -> None:
        """Remove what was written."""
        self._file.abandon()
