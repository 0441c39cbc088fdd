"""A file of index entries: all of them are in memory, and the file is brought up to date with `store`."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from pathlib import Path
from typing import ClassVar

from ottla.log.file_system import FileSystem


class IndexFile(ABC):
    """Belongs to one segment. `entries_max` is `segment.index.bytes` in entries."""

    __slots__ = (
        "_file_system",
        "_is_exact",
        "_is_unflushed",
        "_path",
        "_stored",
        "base_offset",
        "entries_max",
    )

    entry_bytes: ClassVar[int]

    def __init__(self, path: str | Path, base_offset: int, entries_max: int, file_system: FileSystem) -> None:
        self._path = os.fspath(path)
        self.base_offset = base_offset
        self.entries_max = entries_max
        self._file_system = file_system
        self._stored = 0  # entries that the file has
        self._is_exact = False  # and no more bytes than that
        self._is_unflushed = False

    @property
    def path(self) -> Path:
        """The file."""
        return Path(self._path)

    @property
    @abstractmethod
    def count(self) -> int:
        """Entries, stored or not."""

    @property
    def unstored(self) -> int:
        """How many entries the file does not have yet."""
        return self.count - self._stored

    @abstractmethod
    def _encoded(self, first: int) -> bytes:
        """Return the bytes of the entries from number `first` on."""

    def _note_file(self, size: int) -> None:
        """The file has `size` bytes, and all entries were read from it."""
        self._stored = self.count
        self._is_exact = size == self._stored * self.entry_bytes

    def _note_cut(self, keep: int) -> None:
        """Only the first `keep` entries are left; the file follows with the next `store`."""
        self._is_exact &= self._stored <= keep
        self._stored = min(self._stored, keep)

    def store(self) -> None:
        """Bring the file up to date. Raises OSError; written by position, so it may be called again then."""
        if self._is_exact and not self.unstored:
            return
        self._is_exact, self._is_unflushed = False, True
        fd = self._file_system.open(self.path)
        try:
            if self.unstored:
                position = self._stored * self.entry_bytes
                self._file_system.write_all(fd, [self._encoded(self._stored)], position)
            size = self.count * self.entry_bytes
            if os.fstat(fd).st_size != size:
                self._file_system.truncate(fd, size)
        finally:
            os.close(fd)
        self._stored, self._is_exact = self.count, True

    def flush(self) -> None:
        """Let the file survive a power cut, if it was written since the last time. Raises OSError."""
        if self._is_unflushed:
            fd = self._file_system.open(self.path)
            try:
                self._file_system.sync(fd)
            finally:
                os.close(fd)
            self._is_unflushed = False
