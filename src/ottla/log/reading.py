"""The bytes of a segment file for a fetch, and the ticket for bytes that are not in memory.

    data = log.read_cached(offset, max_bytes)     the owner; never waits for the disk
    if isinstance(data, ColdRead):
        data = data.read()                        anywhere, e.g. in an executor

A ticket holds its files open, so the segment may be deleted, compacted away or closed meanwhile: what
was there when the ticket was made is read. Only a truncated log is different, since other bytes may stand in
that place afterwards: then nothing is read, and the reader asks again.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from ottla.log.file_range import RANGE_BYTES_MIN, FileRange
from ottla.log.file_system import Buffer
from ottla.log.recent_batches import Span
from ottla.log.segment import Segment
from ottla.log.segment_file import Read, SegmentFile, search
from ottla.model.errors import StorageError

WHOLE_BYTES_MIN = 64 << 10
"""A read of less may end within a batch: the index has an entry every index.interval.bytes only."""


class FirstBatch(Enum):
    """What a fetch gets if its first batch alone is larger than its limit."""

    WHOLE = "whole"  # Fetch 3 and later
    CUT = "cut"  # Fetch 0 to 2: the reader sees a partial message and asks for more bytes


class ReadLimits(NamedTuple):
    """The limits of a fetch: a number of bytes, and no batch at or after `end_offset`, if given.

    `end_offset` is where a batch begins, and above `offset`.
    """

    offset: int
    max_bytes: int
    first_batch: FirstBatch
    end_offset: int | None = None


def read_from(segments: Sequence[Segment], limits: ReadLimits) -> bytes:
    """The bytes of the first segment that has any at or after the offset. Raises OSError."""
    for segment in segments:
        span = segment.locate(limits.offset)
        if span is not None:
            end = _end_position(segment, limits, segment.file.read)
            needed = bytes_needed(span, limits.first_batch)
            size = max(limits.max_bytes, needed)
            return segment.file.read(span.position, min(size, max(end - span.position, 0)))
    return b""


def read_cached_from(
    segments: Sequence[Segment], limits: ReadLimits, *, as_range: bool = False
) -> Buffer | FileRange:
    """`read_from`, of what is in memory. Raises BlockingIOError if that is not enough, and OSError.

    With `as_range`, many bytes are left in their file, if all of them are in memory.
    """
    for segment in segments:
        if not segment.is_read:
            raise BlockingIOError
        file = segment.file
        span = segment.locate(limits.offset, file.read_now)
        if span is not None:
            needed = bytes_needed(span, limits.first_batch)
            size = max(limits.max_bytes, needed)
            if limits.end_offset is not None:
                end = _end_position(segment, limits, file.read_now)
                size = min(size, max(end - span.position, 0))
            if size == limits.max_bytes:
                size = _without_partial(segment, span, size)
            if as_range and size >= RANGE_BYTES_MIN:
                size = min(size, file.size - span.position)
                whole = FileRange.of(file, span.position, size, span.size)
                if whole is not None:
                    return whole
            return file.read_now(span.position, size, needed)
    return b""


def _without_partial(segment: Segment, span: Span, size: int) -> int:
    """`size` bytes from `span` on without the start of a batch at their end, as far as the index tells.

    Readers drop it, and would get it again with the next fetch.
    """
    end = span.position + size
    if size < WHOLE_BYTES_MIN or end >= segment.size:
        return size
    whole = segment.offset_index.position_before(end) - span.position
    return whole if whole >= max(span.size, 1) else size


def cached_or_cold(
    segments: list[Segment], limits: ReadLimits, *, as_range: bool
) -> Buffer | ColdRead | FileRange:
    """`read_cached_from`, or a ticket where that is not enough. Raises OSError."""
    try:
        return read_cached_from(segments, limits, as_range=as_range)
    except BlockingIOError:
        return ColdRead.of(segments, limits)


def _end_position(segment: Segment, limits: ReadLimits, read: Read) -> int:
    """Where the first batch is that may not be read; the end of the file if there is none."""
    if limits.end_offset is None or limits.end_offset >= segment.next_offset:
        return segment.size
    first = segment.locate(limits.end_offset, read)
    return segment.size if first is None else first.position


def bytes_needed(span: Span, first_batch: FirstBatch) -> int:
    """The fewest bytes that serve a reader."""
    return span.size if first_batch is FirstBatch.WHOLE else 0


class _Stretch:
    """The part of one file to look through: from a batch at or before the wanted one to what was the end."""

    def __init__(self, segment: Segment, limits: ReadLimits) -> None:
        self._file: SegmentFile = segment.file
        self._cuts = segment.file.cuts
        self._segment = segment
        self._end = segment.size
        self._opened = segment.file.opened()
        self._start = segment.offset_index.lookup(limits.offset) if segment.is_read else None

    @property
    def size(self) -> int:
        """Bytes to look through, as far as that is known."""
        return self._end - (self._start or 0)

    def read(self, limits: ReadLimits) -> bytes | None:
        """The bytes of a fetch; None if they are not in this file, empty if it was cut."""
        data, start = None, self._start
        if start is None:
            try:
                start = self._segment.offset_index.lookup(limits.offset)  # this thread reads the index
            except OSError:
                start = 0  # the index may be gone: the segment was deleted since the ticket was made
        span = search(self._pread, start, self._end, limits.offset)
        if not isinstance(span, Span) and span != self._end and start:
            span = search(self._pread, 0, self._end, limits.offset)  # the index may be damaged
        if isinstance(span, Span):
            size = max(limits.max_bytes, bytes_needed(span, limits.first_batch))
            end = self._end
            if limits.end_offset is not None:
                first = search(self._pread, span.position, self._end, limits.end_offset)
                end = first.position if isinstance(first, Span) else end
            data = self._pread(span.position, min(size, end - span.position))
        if self._file.cuts != self._cuts:
            return b""
        if not isinstance(span, Span) and span != self._end:
            raise self._file.damaged(span, limits.offset)
        return data

    def _pread(self, position: int, size: int) -> bytes:
        return os.pread(self._opened.fd, size, position)


@dataclass(slots=True)
class ColdRead:
    """A read that must wait for the disk. Use it once: `read`, or `close` if it is not wanted any more."""

    limits: ReadLimits
    _stretches: list[_Stretch] = field(default_factory=list)

    @classmethod
    def of(cls, segments: list[Segment], limits: ReadLimits) -> ColdRead:
        """A ticket for the first batch that ends at or after an offset, in the first of the segments.

        If compaction removed the end of that segment, the batch is the first one of the next segment with
        any.
        """
        ticket = cls(limits)
        ticket._stretches.append(_Stretch(segments[0], limits))
        later = next((segment for segment in segments[1:] if segment.size), None)
        if later is not None:
            ticket._stretches.append(_Stretch(later, limits))
        return ticket

    @property
    def size(self) -> int:
        """How many bytes to expect, unless the first batch alone is larger."""
        return min(self.limits.max_bytes, sum(stretch.size for stretch in self._stretches[:1]))

    def read(self) -> bytes:
        """Wait for the disk; what `PartitionLog.read` would have given.

        Raises StorageError, and KafkaError 2 if the file is damaged before the batch.
        """
        try:
            for stretch in self._stretches:
                data = stretch.read(self.limits)
                if data is not None:
                    return data
        except OSError as error:
            raise StorageError(f"cannot read offset {self.limits.offset}: {error}") from error
        finally:
            self.close()
        return b""

    def close(self) -> None:
        """Give the files back; `read` does it too."""
        self._stretches.clear()
