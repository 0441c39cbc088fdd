"""Segment files of a partition on disk: which exist, and which bytes hold which offsets and times.

Files are only read, so a read-only copy will do. Their indexes say where to begin; without an index a segment
is read from its first byte. A broker may append meanwhile: complete batches are read, an incomplete one is
not.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from ottla.log import file_names
from ottla.log.batch_header import header_at
from ottla.log.checkpoints import LOG_START, read_offsets
from ottla.log.file_system import Buffer, FileSystem
from ottla.log.offset_index import OffsetIndex
from ottla.log.segment_file import Read, entries, find_batch
from ottla.log.time_index import TimeIndex
from ottla.model.errors import ConfigError, CorruptRecord
from ottla.model.topic_partition import TopicAndPartition

INDEX_ENTRIES_MAX = 1 << 31
BLOCK_BYTES = 4 << 20
_FILES = FileSystem()


class SegmentPiece(NamedTuple):
    """A byte range of a segment file that begins with an entry, and the offsets to take from it."""

    topic_partition: TopicAndPartition
    path: str
    position: int
    end_position: int
    start: int
    end: int

    @property
    def size(self) -> int:
        """The number of bytes to read."""
        return self.end_position - self.position


@dataclass(frozen=True, slots=True)
class SegmentOnDisk:
    """A `.log` file. `next_base` is the base offset of the next segment; None for the last."""

    directory: Path
    base_offset: int
    next_base: int | None

    @property
    def path(self) -> Path:
        """The `.log` file."""
        return file_names.segment_file(self.directory, self.base_offset, file_names.LOG)

    def offset_index(self, log_bytes: int) -> OffsetIndex:
        """The offset index; empty if it is missing or damaged, and then the whole segment is read."""
        path = file_names.segment_file(self.directory, self.base_offset, file_names.INDEX)
        index = OffsetIndex(path, self.base_offset, INDEX_ENTRIES_MAX, _FILES)
        if index.load(log_bytes):
            return index
        return OffsetIndex(path, self.base_offset, INDEX_ENTRIES_MAX, _FILES)

    def time_index(self) -> TimeIndex:
        """The time index; empty if it is missing or damaged."""
        path = file_names.segment_file(self.directory, self.base_offset, file_names.TIME_INDEX)
        index = TimeIndex(path, self.base_offset, INDEX_ENTRIES_MAX, _FILES)
        return index if index.load() else TimeIndex(path, self.base_offset, INDEX_ENTRIES_MAX, _FILES)


@dataclass(frozen=True, slots=True)
class PartitionOnDisk:
    """A partition's segments by offset. Records below `start_offset` count as deleted."""

    topic_partition: TopicAndPartition
    segments: tuple[SegmentOnDisk, ...]
    start_offset: int

    def offset_at(self, time_ms: int, without_match: int) -> int:
        """The offset of the first record at or after the time."""
        for segment in self.segments:
            times = segment.time_index()
            if segment.next_base is not None and times.count and times.last[0] < time_ms:
                continue  # a segment that is done has the time of its youngest record in its index
            with reading(segment.path) as (read, size):
                position = segment.offset_index(size).lookup(times.lookup(time_ms))
                for chunk, at, start, length in entries(read, position, size):
                    header = header_at(chunk, at, start)
                    if header is None or header.max_timestamp < time_ms:
                        continue
                    offset = _first_from(time_ms, read(start, length))
                    if offset is not None:
                        return offset
        return without_match

    def pieces(self, start: int, end: int, bytes_max: int) -> Iterator[SegmentPiece]:
        """The bytes that hold the offsets from `start` to before `end`, cut where an index has entries."""
        for segment in self.segments:
            if segment.base_offset >= end or (segment.next_base is not None and segment.next_base <= start):
                continue
            with reading(segment.path) as (read, size):
                index = segment.offset_index(size)
                first = index.lookup(start)
                last = size
                if segment.next_base is None or end < segment.next_base:
                    span = find_batch(read, index.lookup(end - 1), size, end - 1)
                    last = span.position + span.size if span is not None else size
            bounds = _cuts(first, last, [position for _, position in index.entries()], bytes_max)
            for begin, stop in pairwise(bounds):
                yield SegmentPiece(self.topic_partition, str(segment.path), begin, stop, start, end)


def _first_from(time_ms: int, entry: Buffer) -> int | None:
    """The offset of the batch's first record at or after the time."""
    from ottla.records.reader import decode  # loads the kernels, which only times need

    records = decode(entry).batch
    times = records.column("timestamp").cast("int64").fill_null(-1).to_numpy()
    young = (times >= time_ms).nonzero()[0]
    return int(records.column("offset")[int(young[0])].as_py()) if len(young) else None


def _cuts(first: int, last: int, positions: Sequence[int], bytes_max: int) -> list[int]:
    """Where pieces begin and end: at entries of the index, as soon as a piece is large enough."""
    bounds = [first]
    for position in positions:
        if first < position < last and position - bounds[-1] >= bytes_max:
            bounds.append(position)
    return [*bounds, last] if last > bounds[-1] else bounds


@contextmanager
def reading(path: Path) -> Iterator[tuple[Read, int]]:
    """Open the file; gives a function that reads from it, and its size in bytes."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
    try:
        yield lambda position, size: os.pread(descriptor, size, position), os.fstat(descriptor).st_size
    finally:
        os.close(descriptor)


def partitions_in(paths: Sequence[str]) -> list[PartitionOnDisk]:
    """The partitions in these directories or directly below them. Raises ConfigError if there are none."""
    partitions: dict[TopicAndPartition, PartitionOnDisk] = {}
    for text in paths:
        root = Path(text.removeprefix("file:"))
        if not root.is_dir():
            raise ConfigError(f"path={text}: there is no such directory")
        for directory in [root, *sorted(entry for entry in root.iterdir() if entry.is_dir())]:
            partition = _partition(directory)
            if partition is None:
                continue
            if partition.topic_partition in partitions:
                raise ConfigError(
                    f"path={','.join(paths)}: {partition.topic_partition} is there twice: name one"
                )
            partitions[partition.topic_partition] = partition
    if not partitions:
        raise ConfigError(f"path={','.join(paths)}: no directory such as orders-0 with .log files in it")
    return [partitions[topic_partition] for topic_partition in sorted(partitions)]


def _partition(directory: Path) -> PartitionOnDisk | None:
    name = file_names.parse_partition_directory(directory.name)
    if name is None:
        return None
    parsed = (file_names.parse_segment_file(path.name) for path in directory.iterdir())
    bases = sorted(name[0] for name in parsed if name is not None and name[1:] == (file_names.LOG, ""))
    if not bases:
        return None
    following = [*bases[1:], None]
    segments = tuple(SegmentOnDisk(directory, *pair) for pair in zip(bases, following, strict=True))
    log_starts = read_offsets(directory.parent / LOG_START)
    return PartitionOnDisk(TopicAndPartition(*name), segments, max(bases[0], log_starts.get(name, 0)))


def records_of(piece: SegmentPiece, *, has_headers: bool) -> Iterator[pa.RecordBatch]:
    """Yield the records of a piece, some megabytes at a time. Raises CorruptRecord with the file's name."""
    from ottla.records.reader import decode  # kernels: not for the driver

    position, block_bytes = piece.position, BLOCK_BYTES
    with reading(Path(piece.path)) as (read, _):
        while position < piece.end_position:
            data = read(position, min(block_bytes, piece.end_position - position))
            try:
                decoded = decode(data, from_offset=piece.start, headers=has_headers)
            except CorruptRecord as error:
                raise CorruptRecord(
                    f"{piece.path}, byte {position} or behind: {error}",
                    offset=error.offset,
                ) from error
            if decoded.valid_bytes:
                position += decoded.valid_bytes
                block_bytes = BLOCK_BYTES
                rows = decoded.batch
                count = int(rows.column("offset").to_numpy().searchsorted(piece.end))
                if count:
                    yield rows.slice(0, count)
            elif len(data) == block_bytes:
                block_bytes *= 2  # one batch is larger than that
            else:
                return  # the last one is not whole (yet)
