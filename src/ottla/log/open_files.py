"""Open files that several share: each is closed with its last user.

A broker may have more segments than a process may have descriptors. Only active segments keep their files
open; of the sealed ones the last used stay open, and the others are opened again when somebody reads. Whoever
reads or sends holds an `OpenFile` meanwhile, so that the file may be deleted, renamed or closed by its owner.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.log.segment_file import SegmentFile

OPEN_SEALED_MAX = 256
"""In a process. To open a file costs a hundredth of reading a megabyte of it, so more would save little."""


class OpenFile:
    """A descriptor, valid as long as this object is."""

    __slots__ = ("fd",)

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def __del__(self, _close: Callable[[int], None] = os.close) -> None:
        _close(self.fd)  # at the interpreter's end, the module's names are gone before the last file


class RecentFiles:
    """The files that were used last. Any thread may call: each step on the dictionary is one of its own."""

    def __init__(self, count_max: int) -> None:
        self._count_max = count_max
        self._open: dict[SegmentFile, OpenFile] = {}  # the last used at the end

    def take(self, file: SegmentFile) -> OpenFile | None:
        """Take out the open file, to be added again; None if it is not open."""
        return self._open.pop(file, None)

    def add(self, file: SegmentFile, opened: OpenFile) -> None:
        """Keep a file open until enough others were used."""
        self._open[file] = opened
        while len(self._open) > self._count_max:
            with suppress(RuntimeError, StopIteration):  # another thread has changed it: look again
                self._open.pop(next(iter(self._open)), None)


SEALED = RecentFiles(OPEN_SEALED_MAX)
