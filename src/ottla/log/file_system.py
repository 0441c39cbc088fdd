"""Every call of the log that changes a file or a directory.

The real thing is `FileSystem`; tests give one that stops after the n-th change, as a killed process would, or
that has no room left. Reading is harmless and done with `os` directly. Names of files: `file_names`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from ottla.security.private_files import DIRECTORY_MODE, FILE_MODE

Buffer = bytes | bytearray | memoryview
# What one call takes; longer lists go in several (Linux and macOS have 1024).
BUFFERS_MAX = os.sysconf("SC_IOV_MAX") if hasattr(os, "sysconf") else 16
SMALL_BYTES = 4096
# fdatasync writes the size too when it grew, and is one journal commit cheaper than fsync.
_sync_data = getattr(os, "fdatasync", os.fsync)


class FileSystem:
    """Plain system calls. Every method raises OSError and nothing else."""

    def open(self, path: Path) -> int:
        """A descriptor to read and write `path`, which is made if it is missing."""
        return os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), FILE_MODE)

    def write(self, fd: int, buffers: Sequence[Buffer], position: int) -> int:
        """Write at a position, in one system call; returns how many bytes were written."""
        return os.pwritev(fd, buffers[:BUFFERS_MAX], position)

    def truncate(self, fd: int, size: int) -> None:
        """Cut the file."""
        os.ftruncate(fd, size)

    def sync(self, fd: int) -> None:
        """Wait until the file's bytes survive a power cut."""
        _sync_data(fd)

    def sync_directory(self, path: Path) -> None:
        """Wait until names made, changed or removed in the directory survive a power cut."""
        fd = os.open(path, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def rename(self, old: Path, new: Path) -> None:
        """Give a file or directory another name; an existing file of that name is replaced, atomically."""
        os.replace(old, new)

    def remove(self, path: Path) -> None:
        """Remove a file, if it exists."""
        path.unlink(missing_ok=True)

    def make_directory(self, path: Path) -> None:
        """Make a directory, which must not exist; only its owner may enter it."""
        os.mkdir(path, DIRECTORY_MODE)

    def remove_directory(self, path: Path) -> None:
        """Remove an empty directory."""
        path.rmdir()

    def set_modified(self, path: Path, modified_ms: int) -> None:
        """Set the time of the last change."""
        os.utime(path, ns=(modified_ms * 1_000_000, modified_ms * 1_000_000))

    def write_all(self, fd: int, buffers: Sequence[Buffer], position: int) -> int:
        """Write all buffers, in as few calls as possible; returns the number of bytes."""
        start, end = position, position + sum(map(len, buffers))
        rest = buffers
        while position < end:
            written = self.write(fd, rest, position)
            position += written
            if position < end:
                rest = _after(rest, written)
        return end - start

    def replace_file(self, path: Path, data: bytes, *, flush: bool = True) -> None:
        """Put `data` into `path` so that a crash leaves the old content or the new one, never a mixture.

        Without `flush` that is true of a killed process; before a power cut the caller has to flush the file.
        """
        self.rename(self._written_beside(path, data, flush=flush), path)
        if flush:
            self.sync_directory(path.parent)

    def replace_files(self, directory: Path, files: Mapping[str, bytes]) -> None:
        """Put data into files of a directory, by their names, with one wait for all of the names.

        A kill leaves the old content of the last of them, a power cut that of any.
        """
        paths = [directory / name for name in files]
        written = [self._written_beside(path, files[path.name], flush=True) for path in paths]
        for temporary, path in zip(written, paths, strict=True):
            self.rename(temporary, path)
        self.sync_directory(directory)

    def _written_beside(self, path: Path, data: bytes, *, flush: bool) -> Path:
        temporary = path.with_name(path.name + ".tmp")
        fd = self.open(temporary)
        try:
            self.truncate(fd, 0)
            self.write_all(fd, [data], 0)
            if flush:
                self.sync(fd)
        finally:
            os.close(fd)
        return temporary


def _after(buffers: Sequence[Buffer], written: int) -> Sequence[Buffer]:
    """What is left of the buffers after `written` bytes."""
    for index, buffer in enumerate(buffers):
        size = len(buffer)
        if written < size:
            return [memoryview(buffer)[written:], *buffers[index + 1 :]]
        written -= size
    return []


def read_whole(path: str) -> bytes:
    """The bytes of a small file, in a third of the time that `Path` takes: a start reads many."""
    fd = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
    try:
        data = os.read(fd, SMALL_BYTES)
        if len(data) == SMALL_BYTES:
            data += os.read(fd, os.fstat(fd).st_size - SMALL_BYTES)
        return data
    finally:
        os.close(fd)


REAL = FileSystem()
