"""The sparse offset index of a segment: 8 bytes an entry, relative offset i32 and file position i32.

An entry says: the batch at this position ends with this offset. Looking up an offset gives the position of
the last entry at or below it, from where batches are walked. Entries are kept in two arrays. The file exists
from the segment's first day, and `store` appends the entries that it does not have: every few dozen of them,
and with each flush. What a crash costs of it is rebuilt from the log.

    base 100, entries (3, 0) (17, 4310)      lookup(110) → 0      lookup(117) → 4310      lookup(102) → 0
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left, bisect_right
from pathlib import Path

from ottla.log.file_system import FileSystem, read_whole
from ottla.log.index_file import IndexFile

ENTRY_BYTES = 8
RELATIVE_OFFSET_MAX = (1 << 31) - 1


class OffsetIndex(IndexFile):
    """Belongs to one segment. `entries_max` is `segment.index.bytes` in entries."""

    __slots__ = ("_positions", "_relative")

    entry_bytes = ENTRY_BYTES

    def __init__(self, path: str | Path, base_offset: int, entries_max: int, file_system: FileSystem) -> None:
        super().__init__(path, base_offset, entries_max, file_system)
        self._relative = array("i")
        self._positions = array("i")

    @property
    def count(self) -> int:
        """Entries, stored or not."""
        return len(self._relative)

    @property
    def room(self) -> int:
        """How many more entries `segment.index.bytes` has room for."""
        return self.entries_max - len(self._relative)

    def entries(self) -> list[tuple[int, int]]:
        """All (offset, position)."""
        base = self.base_offset
        return [(base + offset, at) for offset, at in zip(self._relative, self._positions, strict=True)]

    @property
    def last_position(self) -> int:
        """The position of the last entry; 0 without one."""
        return self._positions[-1] if self._positions else 0

    def append(self, offset: int, position: int) -> None:
        """Add an entry in memory, unless its offset is not larger than the last one."""
        relative = offset - self.base_offset
        if not self._relative or relative > self._relative[-1]:
            self._relative.append(relative)
            self._positions.append(position)

    def lookup(self, offset: int) -> int:
        """A position at or before the batch that holds `offset`."""
        index = bisect_right(self._relative, min(offset - self.base_offset, RELATIVE_OFFSET_MAX)) - 1
        return max(self._positions[index], 0) if index >= 0 else 0

    def position_before(self, position: int) -> int:
        """Where the last batch with an entry begins, at or before a position; 0 without one."""
        index = bisect_right(self._positions, position) - 1
        return self._positions[index] if index >= 0 else 0

    def offset_after(self, offset: int, size: int) -> int | None:
        """An offset at or after the end of `size` bytes from `offset` on; None where no entry tells."""
        first = bisect_left(self._relative, min(offset - self.base_offset, RELATIVE_OFFSET_MAX))
        if first == len(self._relative):
            return None
        behind = bisect_left(self._positions, self._positions[first] + size)
        return None if behind == len(self._positions) else self.base_offset + self._relative[behind] + 1

    def load(self, log_bytes: int) -> bool:
        """Read the file; False if it is missing, or not the index of a log of `log_bytes`."""
        try:
            raw = read_whole(self._path)
        except FileNotFoundError:
            return False
        if len(raw) % ENTRY_BYTES:
            return False
        flat = array("i")
        flat.frombytes(raw)
        if sys.byteorder == "little":
            flat.byteswap()
        self._relative, self._positions = flat[0::2], flat[1::2]
        self._trim_zeros()
        self._note_file(len(raw))
        if not self._relative:
            return True
        return 0 <= self._positions[-1] < log_bytes and self._relative[-1] >= self._relative[0] >= 0

    def _trim_zeros(self) -> None:
        """Remove zeros at the end: Kafka allocates the whole file first, and leaves them there in a crash."""
        while len(self._relative) > 1 and not self._relative[-1] and not self._positions[-1]:
            self._relative.pop()
            self._positions.pop()

    def truncate(self, offset: int) -> None:
        """Forget entries at and above an offset; the file follows with the next `store`."""
        keep = bisect_right(self._relative, offset - 1 - self.base_offset)
        del self._relative[keep:]
        del self._positions[keep:]
        self._note_cut(keep)

    def _encoded(self, first: int) -> bytes:
        flat = array("i", bytes(ENTRY_BYTES * (self.count - first)))
        flat[0::2], flat[1::2] = self._relative[first:], self._positions[first:]
        if sys.byteorder == "little":
            flat.byteswap()
        return flat.tobytes()
