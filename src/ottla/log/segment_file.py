"""One `.log` file: append at its end, read anywhere, cut. Knows bytes, and of batches their headers.

`size` is what was written whole. A write that fails half-way is cut back, so that file and memory agree again
before the error is raised.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from ottla.log.batch_header import (
    BATCH_LAST_OFFSET_DELTA_AT,
    ENTRY_OVERHEAD,
    HEADER_BYTES,
    MAGIC_AT,
    OFFSET_AND_SIZE,
    SIZE,
    SIZE_MIN,
    BatchHeader,
    header_at,
)
from ottla.log.file_system import Buffer, FileSystem
from ottla.log.recent_batches import Span
from ottla.model.errors import LogOffline, StorageError

# Walking small batches, one read serves many; behind a large one it is wasted, so it stays small.
WALK_BYTES = 8192
ENTRY_BYTES_MIN = ENTRY_OVERHEAD + SIZE_MIN[0]
# Linux can say that bytes are not in memory instead of waiting for the disk; not on every file system.
RWF_NOWAIT: int = getattr(os, "RWF_NOWAIT", 0)
UNSUPPORTED = {errno.EOPNOTSUPP, errno.ENOTSUP, errno.EINVAL, errno.ENOSYS}

Read = Callable[[int, int], Buffer]


class SegmentFile:
    """The descriptor stays open for the life of the segment: reads are one system call.

    `cuts` counts truncations, each before it happens: who reads in another thread compares it afterwards.
    """

    def __init__(self, path: Path, file_system: FileSystem) -> None:
        self.path = path
        self._file_system = file_system
        self.fd = file_system.open(path)
        self.size = os.fstat(self.fd).st_size
        self.cuts = 0
        self._can_refuse_to_wait = bool(RWF_NOWAIT)

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

    def read_now(self, position: int, size: int, least: int = HEADER_BYTES) -> Buffer:
        """What is in memory of `size` bytes; raises BlockingIOError if those are fewer than `least`.

        Where the file system cannot tell, it waits as `read` does.
        """
        size = min(size, self.size - position)
        if size <= 0 or not self._can_refuse_to_wait:
            return self.read(position, size)
        buffer = bytearray(size)
        try:
            count = os.preadv(self.fd, (buffer,), position, RWF_NOWAIT)
        except OSError as error:
            if error.errno not in UNSUPPORTED:
                raise  # BlockingIOError, too
            self._can_refuse_to_wait = False
            return self.read(position, size)
        if count == size:
            return buffer
        if count < min(least, size):
            raise BlockingIOError
        return memoryview(buffer)[:count]

    def headers(self, position: int, chunk_bytes: int = WALK_BYTES) -> Iterator[BatchHeader]:
        """The entries from `position`, which must be where one begins, to the end of the file.

        Ends early at bytes that are no entry: a reader never gets what no walk can reach.
        """
        for chunk, at, place, _ in entries(self.read, position, self.size, chunk_bytes):
            header = header_at(chunk, at, place)
            if header is not None:
                yield header

    def truncate(self, size: int) -> None:
        """Cut to `size` bytes."""
        self.cuts += 1
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


def entries(
    read: Read, position: int, end: int, chunk_bytes: int = WALK_BYTES
) -> Iterator[tuple[Buffer, int, int, int]]:
    """(some bytes, where in them the entry begins, its position in the file, its size) of each entry.

    The bytes hold the header, if not the whole entry. Ends at what is no entry, or reaches beyond `end`.
    """
    chunk: Buffer = b""
    start = position
    while position + ENTRY_BYTES_MIN <= end:
        at = position - start
        if len(chunk) - at < HEADER_BYTES and start + len(chunk) < end:
            chunk, start, at = read(position, min(chunk_bytes, end - position)), position, 0
            if len(chunk) < min(HEADER_BYTES, end - position):
                return  # cut meanwhile
        size = SIZE.unpack_from(chunk, at + 8)[0] + ENTRY_OVERHEAD
        least = SIZE_MIN.get(chunk[at + MAGIC_AT])
        if least is None or size < ENTRY_OVERHEAD + least or position + size > end:
            return
        yield chunk, at, position, size
        position += size


def find_batch(read: Read, position: int, end: int, offset: int) -> Span | None:
    """The first batch from `position` on that ends at or behind `offset`; None if all before `end` do not."""
    for chunk, at, place, size in entries(read, position, end):
        last_offset, _ = OFFSET_AND_SIZE.unpack_from(chunk, at)
        if chunk[at + MAGIC_AT] == 2:
            last_offset += SIZE.unpack_from(chunk, at + BATCH_LAST_OFFSET_DELTA_AT)[0]
        if last_offset >= offset:
            return Span(place, size)
    return None
