"""One `.log` file: append at its end, read anywhere, cut. Knows bytes, and of batches their headers.

`size` is what was written whole. A write that fails half-way is cut back, so that file and memory agree again
before the error is raised.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ottla.log.batch_header import HEADER_BYTES, BatchHeader, header_at
from ottla.log.end_markers import EndMarker, read_marker
from ottla.log.file_system import Buffer, FileSystem
from ottla.log.open_files import SEALED, OpenFile
from ottla.log.recent_batches import Span
from ottla.model.error_codes import Code
from ottla.model.errors import CorruptRecord, KafkaError, LogOffline, StorageError
from ottla.model.record_layout import (
    BATCH_LAST_OFFSET_DELTA_AT,
    ENTRY_BYTES_MIN,
    ENTRY_OVERHEAD,
    LAST_OFFSET_DELTA,
    MAGIC_AT,
    OFFSET_AND_SIZE,
    SIZE,
    SIZE_AT,
    SIZE_MIN,
)

# Walking small batches, one read serves many; after a large one it is wasted, so it stays small.
WALK_BYTES = 8192
# Linux can say that bytes are not in memory instead of waiting for the disk; not on every file system.
RWF_NOWAIT: int = getattr(os, "RWF_NOWAIT", 0)
UNSUPPORTED = {errno.EOPNOTSUPP, errno.ENOTSUP, errno.EINVAL, errno.ENOSYS}

Read = Callable[[int, int], Buffer]


class FileClosed(OSError):
    """The owner has given the file up."""

    def __init__(self, path: Path) -> None:
        super().__init__(errno.EBADF, "the file was closed", str(path))


class SegmentFile:
    """Reads are one system call: the file is open as long as it is active (`keep`), or among the last used.

    `cuts` counts truncations, each before it happens: a reader in another thread compares it afterwards.
    `damage` is what a reader has found, in any thread.
    With `later` the file is made by `make`, and is empty until then. With `is_made` it is there, and is not
    looked at before it is read, or its size is asked for.
    """

    __slots__ = (
        "_can_refuse_to_wait",
        "_file_system",
        "_is_closed",
        "_is_kept",
        "_kept",
        "_next_path",
        "_path",
        "cuts",
        "damage",
        "is_made",
        "size",
    )

    def __init__(
        self, path: str | Path, file_system: FileSystem, *, later: bool = False, is_made: bool = False
    ) -> None:
        self._path = self._next_path = os.fspath(path)
        self._file_system = file_system
        self._is_kept = self._is_closed = False
        self._kept: OpenFile | None = None
        self.is_made = is_made
        self.cuts = 0
        self.damage: str | None = None
        self._can_refuse_to_wait = bool(RWF_NOWAIT)
        if later:
            self.size = 0
        elif not is_made:
            self.make()

    if not TYPE_CHECKING:  # what mypy knows of the attributes is right

        def __getattr__(self, name: str) -> Any:
            if name != "size":
                raise AttributeError(name)
            try:
                self.size = self.stat().st_size
            except FileNotFoundError:
                self.size, self.damage = 0, f"{self._path}: the file is gone"
            return self.size

    @property
    def path(self) -> Path:
        """The file."""
        return Path(self._path)

    def stat(self) -> os.stat_result:
        """What the system knows of the file, which is not opened for it. Raises OSError."""
        try:
            return os.stat(self._path)
        except FileNotFoundError:
            return os.stat(self._next_path)  # the owner is renaming it

    def make(self) -> None:
        """Open the file, which is made if it is missing."""
        opened = OpenFile(self._file_system.open(self.path))
        self.size = os.fstat(opened.fd).st_size
        self.is_made = True
        self._hold(opened)

    def keep(self) -> None:
        """Have the file open from now on: it is appended to."""
        self._is_kept = True
        if self.is_made:
            self.opened()

    def release(self) -> None:
        """The end of `keep`: from now on the file is opened when it is read."""
        self._is_kept = False  # first, so that no thread keeps it again
        kept, self._kept = self._kept, None
        if kept is not None:
            self._hold(kept)

    def _hold(self, opened: OpenFile) -> None:
        if self._is_kept:
            self._kept = opened
        else:
            SEALED.add(self, opened)
            if self._is_closed:  # meanwhile, by the owner
                SEALED.take(self)

    def opened(self) -> OpenFile:
        """The open file, to be held while its descriptor is used. Raises OSError. Any thread may call."""
        opened = self._kept
        if opened is None:
            if self._is_closed or not self.is_made:
                raise FileClosed(self.path)
            opened = SEALED.take(self) or OpenFile(self._open_again())
            self._hold(opened)
        return opened

    def _open_again(self) -> int:
        flags = os.O_RDWR | getattr(os, "O_CLOEXEC", 0)
        try:
            with contextlib.suppress(FileNotFoundError):
                return os.open(self._path, flags)
            return os.open(self._next_path, flags)  # the owner is renaming it
        except FileNotFoundError:
            if self._is_closed:
                raise FileClosed(self.path) from None
            raise

    def rename(self, path: Path) -> None:
        """Give the file another name."""
        self._next_path = os.fspath(path)
        self._file_system.rename(self.path, path)
        self._path = self._next_path

    def append(self, buffers: Sequence[Buffer]) -> int:
        """Append to the file, all or nothing; returns the position of the first byte."""
        start, opened = self.size, self.opened()
        try:
            self.size += self._file_system.write_all(opened.fd, buffers, start)
        except OSError as error:
            try:
                self._file_system.truncate(opened.fd, start)
            except OSError as second:
                raise LogOffline(f"{self.path}: {error}, and cutting it back failed: {second}") from error
            raise StorageError(f"{self.path}: cannot append: {error}; nothing was kept of it") from error
        return start

    def read(self, position: int, size: int) -> bytes:
        """At most `size` bytes; fewer only at the end."""
        opened = self.opened()
        return os.pread(opened.fd, min(size, self.size - position), position)

    def read_now(self, position: int, size: int, least: int = HEADER_BYTES) -> Buffer:
        """What is in memory of `size` bytes; raises BlockingIOError if those are fewer than `least`.

        Where the file system does not support this, it waits as `read` does.
        """
        size = min(size, self.size - position)
        if size <= 0 or not self._can_refuse_to_wait:
            return self.read(position, size)
        buffer, opened = bytearray(size), self.opened()
        try:
            count = os.preadv(opened.fd, (buffer,), position, RWF_NOWAIT)
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
        for chunk, at, entry_position, _ in entries(self.read, position, self.size, chunk_bytes):
            header = header_at(chunk, at, entry_position)
            if header is not None:
                yield header

    def history(self, position: int) -> Iterator[tuple[BatchHeader, EndMarker | None]]:
        """The entries as `headers` gives them, each control batch with its marker.

        A control batch that cannot be read has none.
        """
        for header in self.headers(position):
            marker = None
            if header.is_control:
                with contextlib.suppress(CorruptRecord):
                    marker = read_marker(self.read(header.position, header.size), header)
            yield header, marker

    def damaged(self, position: int, offset: int) -> KafkaError:
        """Note that no batch begins at a position, and return the error for the reader of an offset."""
        self.damage = f"{self.path}, byte {position}: no batch begins there"
        return KafkaError(Code.CORRUPT_MESSAGE, f"{self.damage}, so offset {offset} cannot be found")

    def truncate(self, size: int) -> None:
        """Cut to `size` bytes."""
        if not self.is_made:
            return
        opened = self.opened()
        self.cuts += 1
        self._file_system.truncate(opened.fd, size)
        self.size = size

    def sync(self) -> None:
        """Wait until the bytes survive a power cut."""
        opened = self.opened()
        self._file_system.sync(opened.fd)

    def close(self) -> None:
        """Give the descriptor back, when nobody reads any more. May be called twice."""
        self._is_closed = True
        self._kept = None
        SEALED.take(self)


def entries(
    read: Read, position: int, end: int, chunk_bytes: int = WALK_BYTES
) -> Iterator[tuple[Buffer, int, int, int]]:
    """(some bytes, where in them the entry begins, its position in the file, its size) of each entry.

    The bytes hold the header, if not the whole entry. Ends before bytes that are no entry, or an entry that
    reaches beyond `end`.
    """
    chunk: Buffer = b""
    start = position
    while position + ENTRY_BYTES_MIN <= end:
        at = position - start
        if len(chunk) - at < HEADER_BYTES and start + len(chunk) < end:
            chunk, start, at = read(position, min(chunk_bytes, end - position)), position, 0
            if len(chunk) < min(HEADER_BYTES, end - position):
                return  # cut meanwhile
        size = SIZE.unpack_from(chunk, at + SIZE_AT)[0] + ENTRY_OVERHEAD
        least = SIZE_MIN.get(chunk[at + MAGIC_AT])
        if least is None or size < ENTRY_OVERHEAD + least or position + size > end:
            return
        yield chunk, at, position, size
        position += size


def find_batch(read: Read, position: int, end: int, offset: int) -> Span | None:
    """The first batch from `position` to `end` that ends at or after `offset`; None if there is none."""
    found = search(read, position, end, offset)
    return found if isinstance(found, Span) else None


def search(read: Read, position: int, end: int, offset: int) -> Span | int:
    """The first batch from `position` on that ends at or after `offset`, or the place where batches end.

    That place is `end`, unless the bytes there are damaged or `position` is not where a batch begins. A
    position other than 0 is of an index, and its batch begins at or before `offset`.
    """
    is_indexed, previous = position > 0, -1
    for chunk, at, entry_position, size in entries(read, position, end):
        first_offset, _ = OFFSET_AND_SIZE.unpack_from(chunk, at)
        last_offset = first_offset
        if chunk[at + MAGIC_AT] == 2:
            last_offset += LAST_OFFSET_DELTA.unpack_from(chunk, at + BATCH_LAST_OFFSET_DELTA_AT)[0]
        if last_offset <= previous or (is_indexed and first_offset > offset):
            return entry_position
        if last_offset >= offset:
            return Span(entry_position, size)
        is_indexed, previous, position = False, last_offset, entry_position + size
    return position
