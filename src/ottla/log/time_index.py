"""The time index of a segment: 12 bytes an entry, timestamp i64 and relative offset i32.

An entry says: up to this offset no record is younger than this. Timestamps strictly increase, so the first
record at or after a time is behind the last entry below it. A sealed segment's last entry holds its largest
timestamp, from which retention by time is decided. Records without a timestamp leave no entry.
"""

from __future__ import annotations

import struct
import sys
from array import array
from bisect import bisect_left
from collections.abc import Callable, Sequence
from itertools import islice
from operator import le, lt
from pathlib import Path

from ottla.log.file_system import FileSystem, read_whole
from ottla.log.index_file import IndexFile
from ottla.model.record_layout import NO_TIMESTAMP

ENTRY = struct.Struct(">qi")


class TimeIndex(IndexFile):
    """Belongs to one segment; the same rules for memory and file as `OffsetIndex`."""

    __slots__ = ("_relative", "_timestamps")

    entry_bytes = ENTRY.size

    def __init__(self, path: str | Path, base_offset: int, entries_max: int, file_system: FileSystem) -> None:
        super().__init__(path, base_offset, entries_max, file_system)
        self._timestamps = array("q")
        self._relative = array("q")

    @property
    def count(self) -> int:
        """Entries, stored or not."""
        return len(self._timestamps)

    @property
    def room(self) -> int:
        """How many more entries fit, with one kept free for the largest timestamp at the roll."""
        return self.entries_max - 1 - len(self._timestamps)

    @property
    def last(self) -> tuple[int, int]:
        """(timestamp, offset) of the last entry; (-1, base offset) without one."""
        if not self._timestamps:
            return NO_TIMESTAMP, self.base_offset
        return self._timestamps[-1], self.base_offset + self._relative[-1]

    def entries(self) -> list[tuple[int, int]]:
        """All (timestamp, offset)."""
        base = self.base_offset
        return [(time, base + offset) for time, offset in zip(self._timestamps, self._relative, strict=True)]

    def append(self, timestamp: int, offset: int) -> None:
        """Add an entry in memory, unless it says nothing new."""
        last_timestamp, last_offset = self.last
        if timestamp > last_timestamp and offset >= last_offset:
            self._timestamps.append(timestamp)
            self._relative.append(offset - self.base_offset)

    def lookup(self, timestamp: int) -> int:
        """An offset at or before the first record with `timestamp` or a later one."""
        index = bisect_left(self._timestamps, timestamp) - 1
        return self.base_offset + (self._relative[index] if index >= 0 else 0)

    def load(self) -> bool:
        """Read the file; False if it is missing or not a time index."""
        try:
            raw = read_whole(self._path)
        except FileNotFoundError:
            return False
        if len(raw) % ENTRY.size:
            return False
        size = len(raw)
        if raw:
            used = len(raw.rstrip(b"\0")) or 1  # behind it are zeros that Kafka allotted and did not use
            raw = raw[: -(-used // ENTRY.size) * ENTRY.size]
        self._timestamps, self._relative = _columns(raw)
        self._note_file(size)
        return _rises([NO_TIMESTAMP, *self._timestamps], lt) and _rises([0, *self._relative], le)

    def truncate(self, offset: int) -> None:
        """Forget entries at and above an offset; the file follows with the next `store`."""
        keep = bisect_left(self._relative, offset - self.base_offset)
        del self._timestamps[keep:]
        del self._relative[keep:]
        self._note_cut(keep)

    def _encoded(self, first: int) -> bytes:
        new = zip(self._timestamps[first:], self._relative[first:], strict=True)
        return b"".join(ENTRY.pack(timestamp, relative) for timestamp, relative in new)


def _columns(raw: bytes) -> tuple[array[int], array[int]]:
    """Timestamps and relative offsets of entries, column by column: a segment of 1 GB has 65,536 or more."""
    words = array("i", raw)
    if sys.byteorder == "little":
        words.byteswap()
    high, low, relative = words[0::3], words[1::3], words[2::3]
    halves = array("i", bytes(8 * len(high)))
    halves[0::2], halves[1::2] = (low, high) if sys.byteorder == "little" else (high, low)
    return array("q", halves.tobytes()), array("q", relative)


def _rises(numbers: Sequence[int], is_before: Callable[[int, int], bool]) -> bool:
    return all(map(is_before, numbers, islice(numbers, 1, None)))
