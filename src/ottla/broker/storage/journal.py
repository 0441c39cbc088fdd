"""A file of changes, one line each, that a crash can cut but not mix up.

    3f2a91c0 {"generation": "5c0b…"}                           the first line: which snapshot it continues
    90b1d7aa {"topic": "orders", "fields": {…}}                 the checksum is that of the text behind it
    77e0c43b [{"topic": "a"}, {"topic": "b"}]                   changes that were made together

Changes are there if their line is whole: `append` writes one line, and returns when it is on disk. A last
line that is not whole is what a crash left of changes that nobody was told of, and is cut: a power cut may
leave the end of a write and not its beginning. Anything else that is wrong is damage.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from ottla.log.file_system import FileSystem
from ottla.model.checksums import crc32c
from ottla.model.errors import StorageError

Change = dict[str, Any]


class Journal:
    """Owned by the broker's loop. `size` is that of the whole lines; 0 until `begin` or `load`."""

    def __init__(self, path: Path, file_system: FileSystem) -> None:
        self.path = path
        self.size = 0
        self.loss = ""  # what `load` found missing
        self.file_system = file_system

    def load(self, generation: str) -> list[Change]:
        """Return the changes since the snapshot of that generation. Those of an older one are in it already.

        Raises StorageError for damage.
        """
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            self.loss = f"{self.path} is missing: the last changes of topics and settings are lost"
            return []
        except OSError as error:
            raise StorageError(f"{self.path}: cannot read it: {error}") from error
        changes, size = _whole_lines(data, self.path)
        if not changes:
            self.loss = f"{self.path} has no whole line: the last changes of topics and settings are lost"
            return []
        if changes[0].get("generation") != generation:
            return []
        self.size = size
        if size < len(data):
            self.loss = f"{self.path}: {len(data) - size} bytes at the end are no whole change, and are cut"
        return changes[1:]

    def begin(self, generation: str) -> None:
        """Start over: the snapshot of that generation has everything. Raises OSError."""
        self.size = 0
        head = _line({"generation": generation})
        self.file_system.replace_file(self.path, head)
        self.size = len(head)

    def begin_with(self, generation: str, snapshot: Path, data: bytes, changes: list[Change]) -> None:
        """Write the first snapshot of all, and the journal with the first changes. Raises OSError.

        Nothing was stored before, so that it does not matter which of the two files a power cut leaves.
        """
        text = _line({"generation": generation}) + _together(changes)
        files = {snapshot.name: data, self.path.name: text}
        try:
            self.file_system.replace_files(self.path.parent, files)
        except OSError:
            with suppress(OSError):
                self.file_system.remove(self.path)  # it has changes that nobody was told of
            raise
        self.size = len(text)

    def append(self, changes: Iterable[Change]) -> None:
        """Write at least one change, all or none; they are on disk when this returns.

        Raises OSError; then `size` is as before.
        """
        data = _together(list(changes))
        fd = self.file_system.open(self.path)
        try:
            if os.fstat(fd).st_size != self.size:
                self.file_system.truncate(fd, self.size)  # what a crash or a full disk left behind
            self.file_system.write_all(fd, [data], self.size)
            self.file_system.sync(fd)
        except OSError:
            with suppress(OSError):
                self.file_system.truncate(fd, self.size)  # lines may be whole that nobody was told of
            raise
        finally:
            os.close(fd)
        self.size += len(data)


def _line(content: Change | list[Change]) -> bytes:
    text = json.dumps(content).encode()
    return b"%08x %s\n" % (crc32c(text), text)


def _together(changes: list[Change]) -> bytes:
    return _line(changes if len(changes) > 1 else changes[0])


def _whole_lines(data: bytes, path: Path) -> tuple[list[Change], int]:
    """The changes, and where the last whole line ends. Raises StorageError if a line before it is damaged."""
    changes: list[Change] = []
    size = at = 0
    for line in data.split(b"\n")[:-1]:
        at += len(line) + 1
        together = _changes(line)
        if together is None:
            continue
        if size + len(line) + 1 < at:
            raise StorageError(
                f"{path}, byte {size}: the checksum of a line does not match. Restore the file, or see:"
                f" ottla log repair {path.parent} --dry-run"
            )
        changes += together
        size = at
    return changes, size


def damaged_lines(data: bytes) -> list[tuple[int, int]]:
    """Where lines begin and end that are not whole, and have whole ones after them."""
    bad: list[tuple[int, int]] = []
    unsure: list[tuple[int, int]] = []
    at = 0
    for line in data.split(b"\n")[:-1]:
        end = at + len(line) + 1
        if _changes(line) is None:
            unsure.append((at, end))
        else:
            bad, unsure = bad + unsure, []
        at = end
    return bad


def _changes(line: bytes) -> list[Change] | None:
    """The changes of a line; None if it is not whole."""
    checksum, _, text = line.partition(b" ")
    try:
        if int(checksum, 16) != crc32c(text):
            return None
        content = json.loads(text)
    except ValueError:
        return None
    changes = content if isinstance(content, list) else [content]
    return changes if all(isinstance(change, dict) for change in changes) else None
