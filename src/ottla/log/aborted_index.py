"""Kafka's `.txnindex` of a segment: the aborted transactions whose markers it holds, in their order.

    version i16 = 0, producer id i64, first offset i64, last offset i64 (the marker's), last stable offset i64

A fetch of committed data tells its reader which producers' records to hide. Aborts are rare, so each goes
into the file with the write of its marker; there is no file before the first. Nothing else says that a
segment has aborts: the file is flushed with its segment, and rebuilt from the batches with the other indexes.
"""

from __future__ import annotations

import os
import struct
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from pathlib import Path

from ottla.log.file_system import FileSystem, read_whole
from ottla.log.undecided import StoredAbort

VERSION = 0
_ROW = struct.Struct(">hqqqq")


class AbortedIndex:
    """Belongs to one segment."""

    __slots__ = ("_file_system", "_is_stale", "_path", "_rows", "_stored_bytes")

    def __init__(self, path: str | Path, file_system: FileSystem) -> None:
        self._path = os.fspath(path)
        self._file_system = file_system
        self._rows = bytearray()
        self._stored_bytes = 0  # what the file has of them
        self._is_stale = False  # the file has what is not known here

    @property
    def path(self) -> Path:
        """The file."""
        return Path(self._path)

    @property
    def count(self) -> int:
        """How many aborted transactions."""
        return len(self._rows) // _ROW.size

    def entries(self) -> list[StoredAbort]:
        """All of them."""
        return list(self.from_offset(0))

    def from_offset(self, offset: int) -> Iterator[StoredAbort]:
        """Those that end at or after an offset."""
        first = bisect_left(range(self.count), offset, key=self._last_offset) if self._rows else 0
        for _, *fields in _ROW.iter_unpack(bytes(self._rows[first * _ROW.size :])):
            yield StoredAbort(*fields)

    def _last_offset(self, index: int) -> int:
        last_offset: int = _ROW.unpack_from(self._rows, index * _ROW.size)[3]
        return last_offset

    def extend(self, aborted: Iterable[StoredAbort]) -> None:
        """Add transactions in memory, by their ends; the file follows with the next `store`."""
        for item in aborted:
            self._rows += _ROW.pack(VERSION, *item)

    def load(self, base_offset: int) -> bool:
        """Read the file, which may be missing; False if it is not the index of a segment with this base."""
        try:
            self._rows = bytearray(read_whole(self._path))
        except FileNotFoundError:
            return True
        self._stored_bytes = len(self._rows)
        if len(self._rows) % _ROW.size:
            return False
        last = base_offset - 1
        for version, producer_id, first_offset, last_offset, stable in _ROW.iter_unpack(bytes(self._rows)):
            is_sound = version == VERSION and producer_id >= 0 <= first_offset < last_offset > last
            if not is_sound or not 0 <= stable <= last_offset + 1:
                return False
            last = last_offset
        return True

    def truncate(self, offset: int) -> None:
        """Forget transactions that end at or after an offset; the file follows with the next `store`."""
        keep = bisect_left(range(self.count), offset, key=self._last_offset) * _ROW.size
        if keep < len(self._rows):
            del self._rows[keep:]
            self._stored_bytes, self._is_stale = min(self._stored_bytes, keep), True

    def forget(self) -> None:
        """Start over, before a rebuild; the file follows with the next `store`."""
        self._rows.clear()
        self._stored_bytes, self._is_stale = 0, True

    def store(self) -> None:
        """Bring the file up to date. Raises OSError; it may be called again then."""
        if self._stored_bytes != len(self._rows) or (self._is_stale and self.path.exists()):
            self._write()
        self._is_stale = False

    def _write(self) -> None:
        fd = self._file_system.open(self.path)
        try:
            start = min(self._stored_bytes, len(self._rows))
            if start < len(self._rows):
                self._file_system.write_all(fd, [bytes(self._rows[start:])], start)
            if os.fstat(fd).st_size != len(self._rows):
                self._file_system.truncate(fd, len(self._rows))
        finally:
            os.close(fd)
        self._stored_bytes = len(self._rows)
