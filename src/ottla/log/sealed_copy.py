"""A sealed segment as another thread may read it: its file, and numbers that do not change.

A sealed file is never written to again. It may be renamed; when it is deleted in the end, reading it raises
FileClosed. When the log is truncated it may be cut: then the owner throws away what was made of it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from ottla.log.segment import Segment


class SealedCopy:
    """Made by the owner of the segment. `check_wanted` is called before each read, and raises to end it."""

    def __init__(self, segment: Segment, check_wanted: Callable[[], None]) -> None:
        self.path: Path = segment.file.path
        self.base_offset = segment.base_offset
        self.next_offset = segment.next_offset
        self.size = segment.size
        self.modified_ms = segment.modified_ms
        self._check_wanted = check_wanted
        self._file = segment.file

    def read(self, position: int, size: int) -> bytes:
        """At most `size` bytes."""
        self._check_wanted()
        opened = self._file.opened()
        return os.pread(opened.fd, size, position)
