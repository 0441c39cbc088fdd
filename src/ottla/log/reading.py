"""What a fetch gets of a segment file, and the ticket for what is not in memory.

    data = log.read_cached(offset, max_bytes)     the owner; never waits for the disk
    if isinstance(data, ColdRead):
        data = data.read()                        anywhere, e.g. in an executor

A ticket has descriptors of its own, so the segment may be deleted, compacted away or closed meanwhile: what
was there when the ticket was made is read. Only a truncated log is different, since other bytes may stand in
that place afterwards: then nothing is read, and the reader asks again.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from enum import Enum

from ottla.log.recent_batches import Span
from ottla.log.segment import Segment
from ottla.log.segment_file import SegmentFile, find_batch
from ottla.model.errors import StorageError


class FirstBatch(Enum):
    """What a fetch gets when its first batch alone is larger than it asked for."""

    WHOLE = "whole"  # Fetch 3 and later
    CUT = "cut"  # Fetch 0 to 2: the reader sees a partial message and asks for more bytes


def bytes_needed(span: Span, first_batch: FirstBatch) -> int:
    """The fewest bytes that serve a reader."""
    return span.size if first_batch is FirstBatch.WHOLE else 0


class _Stretch:
    """The part of one file to look through: from a batch at or before the wanted one to what was the end."""

    def __init__(self, segment: Segment, offset: int) -> None:
        self._file: SegmentFile = segment.file
        self._cuts = segment.file.cuts
        self._start = segment.offset_index.lookup(offset)
        self._end = segment.size
        self._fd = os.dup(segment.file.fd)

    @property
    def size(self) -> int:
        """Bytes to look through."""
        return self._end - self._start

    def read(self, ticket: ColdRead) -> bytes | None:
        """The bytes that the ticket is for; None if they are not in this file, empty if it was cut."""
        data, span = None, find_batch(self._pread, self._start, self._end, ticket.offset)
        if span is not None:
            size = max(ticket.max_bytes, bytes_needed(span, ticket.first_batch))
            data = self._pread(span.position, min(size, self._end - span.position))
        return data if self._file.cuts == self._cuts else b""

    def _pread(self, position: int, size: int) -> bytes:
        return os.pread(self._fd, size, position)

    def close(self) -> None:
        os.close(self._fd)


@dataclass(slots=True)
class ColdRead:
    """A read that must wait for the disk. Use it once: `read`, or `close` if nobody wants it any more."""

    offset: int
    max_bytes: int
    first_batch: FirstBatch
    _stretches: list[_Stretch] = field(default_factory=list)

    @classmethod
    def of(cls, segments: list[Segment], offset: int, max_bytes: int, first_batch: FirstBatch) -> ColdRead:
        """A ticket for the first batch that ends at or behind `offset`, in the first of the segments.

        If compaction took the end of that one, the batch is the first of the next that has any.
        """
        ticket = cls(offset, max_bytes, first_batch)
        for segment in [segments[0], *[item for item in segments[1:] if item.size][:1]]:
            ticket._stretches.append(_Stretch(segment, offset))
        return ticket

    @property
    def size(self) -> int:
        """How many bytes to expect, unless the first batch alone is larger."""
        return min(self.max_bytes, sum(stretch.size for stretch in self._stretches[:1]))

    def read(self) -> bytes:
        """Wait for the disk; what `PartitionLog.read` would have given. Raises StorageError."""
        try:
            for stretch in self._stretches:
                data = stretch.read(self)
                if data is not None:
                    return data
        except OSError as error:
            raise StorageError(f"cannot read offset {self.offset}: {error}") from error
        finally:
            self.close()
        return b""

    def close(self) -> None:
        """Give the descriptors back; `read` does it too."""
        while self._stretches:
            self._stretches.pop().close()
