"""File systems that fail: one dies at the n-th change as a killed process does, one has no room or files."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from pathlib import Path

from ottla.log.file_system import Buffer, FileSystem


class Killed(BaseException):
    """The process is gone: nothing of ours may catch it and go on."""


class QuickFiles(FileSystem):
    """Does not wait for the disk: a killed process loses nothing that the system has."""

    def sync(self, fd: int) -> None:
        pass

    def sync_directory(self, path: Path) -> None:
        pass


class DyingFiles(QuickFiles):
    """Carries out `changes` changes and dies in the next one; a write is then half done."""

    def __init__(self, changes: int) -> None:
        self.changes_left = changes
        self.is_dead = False

    def _change(self) -> None:
        if self.is_dead or self.changes_left == 0:
            self.is_dead = True
            raise Killed
        self.changes_left -= 1

    def open(self, path: Path) -> int:
        if not path.exists():
            self._change()
        return super().open(path)

    def write(self, fd: int, buffers: Sequence[Buffer], position: int) -> int:
        try:
            self._change()
        except Killed:
            whole = b"".join(bytes(buffer) for buffer in buffers)
            super().write(fd, [whole[: len(whole) // 2]], position)
            raise
        return super().write(fd, buffers, position)

    def truncate(self, fd: int, size: int) -> None:
        self._change()
        super().truncate(fd, size)

    def sync_directory(self, path: Path) -> None:
        self._change()
        super().sync_directory(path)

    def rename(self, old: Path, new: Path) -> None:
        self._change()
        super().rename(old, new)

    def remove(self, path: Path) -> None:
        if path.exists():
            self._change()
        super().remove(path)

    def make_directory(self, path: Path) -> None:
        self._change()
        super().make_directory(path)

    def remove_directory(self, path: Path) -> None:
        self._change()
        super().remove_directory(path)

    def set_modified(self, path: Path, modified_ms: int) -> None:
        self._change()
        super().set_modified(path, modified_ms)


class FullDisk(FileSystem):
    """Takes `room` more bytes, then writes what fits and answers ENOSPC, until it is given room again.

    It opens `opens` more files, then answers EMFILE.
    """

    def __init__(self, room: int = 1 << 60) -> None:
        self.room = room
        self.opens = 1 << 60

    def open(self, path: Path) -> int:
        self._take_descriptor(path)
        return super().open(path)

    def sync_directory(self, path: Path) -> None:
        self._take_descriptor(path)
        super().sync_directory(path)

    def _take_descriptor(self, path: Path) -> None:
        if not self.opens:
            raise OSError(errno.EMFILE, "Too many open files", str(path))
        self.opens -= 1

    def write(self, fd: int, buffers: Sequence[Buffer], position: int) -> int:
        size = sum(len(buffer) for buffer in buffers)
        if size <= self.room:
            self.room -= size
            return super().write(fd, buffers, position)
        if not self.room:
            raise OSError(errno.ENOSPC, "No space left on device")
        whole = b"".join(bytes(buffer) for buffer in buffers)[: self.room]
        self.room = 0
        return super().write(fd, [whole], position)
