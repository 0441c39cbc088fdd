"""A disk whose power fails: the contents that a crash may leave, at any instant of a recorded history.

`RecordingFiles` makes every change of files on the real disk, and records a note of it. `Disk` applies the
notes one by one and can, after any of them, draw contents that a power cut may leave:

    bytes       Bytes written before the last `sync` of their file are there. Each sector of later writes may
                be there or not, in any order; if only the size has grown, the missing sectors are zeros.
    size        A truncation of the file that was not flushed may have happened or not.
    names       Names created, renamed and removed in a directory before its last `sync_directory` are so. Of
                later changes a first part is: file systems keep the order of names within a directory.

So a flushed file whose name was not flushed may be gone, and a flushed name may lead to an empty file.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import NamedTuple

from ottla.log.file_system import Buffer, FileSystem

SECTOR = 512


class Made(NamedTuple):
    """A file or directory got its first name. Directories have no bytes."""

    path: str
    inode: int
    is_directory: bool = False


class Written(NamedTuple):
    inode: int
    position: int
    data: bytes


class Truncated(NamedTuple):
    inode: int
    size: int


class Synced(NamedTuple):
    inode: int


class DirectorySynced(NamedTuple):
    path: str


class Renamed(NamedTuple):
    old: str
    new: str


class Removed(NamedTuple):
    path: str


class Noted(NamedTuple):
    """An event of a client, such as a request or answer, between two changes of the disk."""

    event: object


Note = Made | Written | Truncated | Synced | DirectorySynced | Renamed | Removed | Noted


class RecordingFiles(FileSystem):
    """Notes every change below `root` in the order in which they happen.

    `inodes` has the numbers of files that exist already, by their inodes on the real disk. Calls do not wait
    for the real disk. Any thread may use it.
    """

    def __init__(self, root: Path, inodes: Mapping[int, int] | None = None) -> None:
        self.root = root
        self.notes: list[Note] = []
        self._lock = threading.Lock()
        self._inodes = dict(inodes or {})
        self._last = max(self._inodes.values(), default=0)

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Hold the lock around a change and its note."""
        with self._lock:
            yield

    def _take(self, note: Note) -> None:
        self.notes.append(note)

    def note(self, event: object) -> None:
        """Record an event of a client."""
        with self._changing():
            self._take(Noted(event))

    def _name(self, path: Path) -> str:
        return str(path.relative_to(self.root))

    def open(self, path: Path) -> int:
        with self._changing():
            is_new = not path.exists()
            fd = super().open(path)
            if is_new:
                self._inodes[os.fstat(fd).st_ino] = self._made(path)
            return fd

    def _made(self, path: Path, *, is_directory: bool = False) -> int:
        self._last += 1  # 0 is the root
        self._take(Made(self._name(path), self._last, is_directory))
        return self._last

    def write(self, fd: int, buffers: Sequence[Buffer], position: int) -> int:
        with self._changing():
            count = super().write(fd, buffers, position)
            data = b"".join(bytes(buffer) for buffer in buffers)[:count]
            self._take(Written(self._inode(fd), position, data))
            return count

    def _inode(self, fd: int) -> int:
        return self._inodes[os.fstat(fd).st_ino]

    def truncate(self, fd: int, size: int) -> None:
        with self._changing():
            super().truncate(fd, size)
            self._take(Truncated(self._inode(fd), size))

    def sync(self, fd: int) -> None:
        with self._changing():
            self._take(Synced(self._inode(fd)))

    def sync_directory(self, path: Path) -> None:
        with self._changing():
            self._take(DirectorySynced(self._name(path)))

    def rename(self, old: Path, new: Path) -> None:
        with self._changing():
            super().rename(old, new)
            self._take(Renamed(self._name(old), self._name(new)))

    def remove(self, path: Path) -> None:
        with self._changing():
            if path.exists():
                super().remove(path)
                self._take(Removed(self._name(path)))

    def make_directory(self, path: Path) -> None:
        with self._changing():
            super().make_directory(path)
            self._made(path, is_directory=True)

    def remove_directory(self, path: Path) -> None:
        with self._changing():
            super().remove_directory(path)
            self._take(Removed(self._name(path)))


@dataclass(slots=True)
class _File:
    """A file: `flushed` survives a power cut, of the changes `later` any part may."""

    flushed: bytearray = field(default_factory=bytearray)
    later: list[Written | Truncated] = field(default_factory=list)

    def sync(self) -> None:
        for change in self.later:
            _apply(self.flushed, change)
        self.later.clear()

    def drawn(self, chance: Random) -> bytes:
        """Return contents that a power cut may leave."""
        content = bytearray(self.flushed)
        if not self.later:
            return bytes(content)
        how = chance.randrange(4)
        if how == 0:
            return bytes(content)
        for number, change in enumerate(self.later):
            if how == 1:
                _apply(content, change)
            elif how == 2:  # in order up to some point
                if chance.randrange(len(self.later) + 1) <= number:
                    _apply(content, _torn(change, chance))
                    break
                _apply(content, change)
            elif isinstance(change, Truncated):
                if chance.random() < 0.5:
                    _apply(content, change)
            else:
                _scatter(content, change, chance)
        return bytes(content)


def _apply(content: bytearray, change: Written | Truncated) -> None:
    if isinstance(change, Truncated):
        if change.size <= len(content):
            del content[change.size :]
        else:
            content.extend(bytes(change.size - len(content)))
        return
    if change.position > len(content):
        content.extend(bytes(change.position - len(content)))
    content[change.position : change.position + len(change.data)] = change.data


def _torn(change: Written | Truncated, chance: Random) -> Written | Truncated:
    if isinstance(change, Truncated):
        return change
    return change._replace(data=change.data[: chance.randrange(len(change.data) + 1)])


def _scatter(content: bytearray, change: Written, chance: Random) -> None:
    """Apply a write sector by sector, each or not; the size may grow without the bytes."""
    end = change.position + len(change.data)
    if chance.random() < 0.5 and end > len(content):
        content.extend(bytes(end - len(content)))
    at = change.position
    share = chance.choice((0.1, 0.5, 0.9))
    while at < end:
        sector_end = min(end, (at // SECTOR + 1) * SECTOR)
        if chance.random() < share:
            piece = change.data[at - change.position : sector_end - change.position]
            _apply(content, Written(change.inode, at, piece))
        at = sector_end


@dataclass(slots=True)
class _Directory:
    """The numbers of files by name: as flushed, and the changes since."""

    names: dict[str, int] = field(default_factory=dict)
    later: list[Made | Renamed | Removed] = field(default_factory=list)

    def sync(self) -> None:
        self.names = self.after(len(self.later))
        self.later.clear()

    def after(self, count: int) -> dict[str, int]:
        names = dict(self.names)
        for change in self.later[:count]:
            if isinstance(change, Made):
                names[os.path.basename(change.path)] = change.inode
            elif isinstance(change, Renamed):
                names[os.path.basename(change.new)] = names.pop(os.path.basename(change.old))
            else:
                names.pop(os.path.basename(change.path), None)
        return names


class Disk:
    """Applies notes in order; `draw` returns contents after a power cut. Owned by one caller."""

    def __init__(self) -> None:
        self._files: dict[int, _File] = {}
        self._directories: dict[int, _Directory] = {0: _Directory()}
        self._paths: dict[str, int] = {".": 0}  # directories, as a running system sees them
        self.inodes: dict[int, int] = {}  # numbers of files that existed at first, by real inode

    @classmethod
    def holding(cls, root: Path) -> Disk:
        """Return a disk with the contents of a directory, all of them flushed."""
        disk = cls()
        for number, path in enumerate(sorted(root.rglob("*")), 1):
            name = str(path.relative_to(root))
            disk.take(Made(name, number, path.is_dir()))
            disk.inodes[path.stat().st_ino] = number
            if not path.is_dir():
                disk.take(Written(number, 0, path.read_bytes()))
                disk.take(Synced(number))
        for directory in disk._directories.values():
            directory.sync()
        return disk

    @property
    def last_number(self) -> int:
        """The largest number of a file or directory."""
        return max(*self._files, *self._directories, 0)

    def take(self, note: Note) -> None:
        """Apply a change."""
        if isinstance(note, Written | Truncated):
            self._files[note.inode].later.append(note)
        elif isinstance(note, Synced):
            self._files[note.inode].sync()
        elif isinstance(note, DirectorySynced):
            self._directories[self._paths[note.path]].sync()
        elif isinstance(note, Made):
            if note.is_directory:
                self._directories[note.inode] = _Directory()
                self._paths[note.path] = note.inode
            else:
                self._files[note.inode] = _File()
            self._parent(note.path).later.append(note)
        elif isinstance(note, Renamed):
            self._parent(note.old).later.append(note)
            if note.old in self._paths:
                self._paths[note.new] = self._paths.pop(note.old)
        elif isinstance(note, Removed):
            self._parent(note.path).later.append(note)
            self._paths.pop(note.path, None)

    def _parent(self, path: str) -> _Directory:
        return self._directories[self._paths[os.path.dirname(path) or "."]]

    def draw(self, chance: Random) -> dict[str, bytes | None]:
        """Return contents by path that a power cut may leave now; None for a directory."""
        drawn: dict[str, bytes | None] = {}
        self._draw_directory("", 0, chance, drawn)
        return drawn

    def _draw_directory(self, path: str, inode: int, chance: Random, drawn: dict[str, bytes | None]) -> None:
        directory = self._directories[inode]
        count = len(directory.later)
        names = directory.after(chance.choice((0, count, chance.randint(0, count))) if count else 0)
        for name, child in names.items():
            if child in self._directories:
                drawn[path + name] = None
                self._draw_directory(f"{path}{name}/", child, chance, drawn)
            else:
                drawn[path + name] = self._files[child].drawn(chance)


def put(contents: dict[str, bytes | None], root: Path) -> None:
    """Write drawn contents into an empty directory."""
    for path, data in contents.items():
        if data is None:
            (root / path).mkdir()
        else:
            (root / path).write_bytes(data)
