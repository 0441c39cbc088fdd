"""One `.log` file: append at its end, read anywhere, cut. Knows bytes, and of batches their headers.

`size` is what was written whole. A write that fails half-way is cut back, so that file and memory agree again
before the error is raised.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from ottla.log.batch_header import ENTRY_OVERHEAD, HEADER_BYTES, BatchHeader, header_at
from ottla.log.file_system import Buffer, FileSystem
from ottla.model.errors import LogOffline, StorageError

# Walking small batches, one read serves many; behind a large one it is wasted, so it stays small.
WALK_BYTES = 8192


class SegmentFile:
    """The descriptor stays open for the life of the segment: reads are one system call."""

    def __init__(self, path: Path, file_system: FileSystem) -> None:
        self.path = path
        self._file_system = file_system
        self.fd = file_system.open(path)
        self.size = os.fstat(self.fd).st_size

    def append(self, buffers: Sequence[Buffer]) -> int:
        """Write behind what is there; the position where it begins. All or nothing."""
        start = self.size
        try:
            self.size += self._file_system.write_all(self.fd, buffers, start)
        except OSError as error:
            try:
                self._file_system.truncate(self.fd, start)
            except OSError as second:
                raise LogOffline(f"{self.path}: {error}, and cutting it back failed: {second}") from error
            raise StorageError(f"{self.path}: cannot append: {error}; nothing was kept of it") from error
        return start

    def read(self, position: int, size: int) -> bytes:
        """At most `size` bytes; fewer only at the end."""
        return os.pread(self.fd, min(size, self.size - position), position)

    def headers(self, position: int, chunk_bytes: int = WALK_BYTES) -> Iterator[BatchHeader]:
        """The entries from `position`, which must be where one begins, to the end of the file.

        Ends early at bytes that are no entry: a reader never gets what no walk can reach.
        """
        chunk, start = b"", position
        while position + ENTRY_OVERHEAD < self.size:
            header = header_at(chunk, position - start, position)
            if header is None and len(chunk) - (position - start) < HEADER_BYTES:
                chunk, start = os.pread(self.fd, min(chunk_bytes, self.size - position), position), position
                header = header_at(chunk, 0, position)
            if header is None or header.size < ENTRY_OVERHEAD + 14 or position + header.size > self.size:
                return
            yield header
            position += header.size

    def truncate(self, size: int) -> None:
        """Cut to `size` bytes."""
        self._file_system.truncate(self.fd, size)
        self.size = size

    def sync(self) -> None:
        """Wait until the bytes survive a power cut."""
        self._file_system.sync(self.fd)

    def close(self) -> None:
        """Give the descriptor back; twice is once."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1
