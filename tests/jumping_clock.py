"""A wall clock that jumps when a test says so, in processes that have it. Other clocks do not jump."""

from __future__ import annotations

import mmap
import struct
import time
from pathlib import Path

_SHIFT = struct.Struct("q")


class JumpingClock:
    """The test's end: a file that says by how much the clock is wrong."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.write_bytes(_SHIFT.pack(0))
        self._shared = _mapped(path)

    def jump(self, seconds: float) -> None:
        """Set the clock on, or back, from where it is."""
        shift = self.shift_ns + round(seconds * 1e9)
        _SHIFT.pack_into(self._shared, 0, shift)

    @property
    def shift_ns(self) -> int:
        """How far it is ahead of the true time."""
        return int(_SHIFT.unpack_from(self._shared)[0])


def install(path: Path) -> None:
    """Let this process see that clock from now on."""
    shared, true_ns = _mapped(path), time.time_ns

    def shifted_ns() -> int:
        return true_ns() + int(_SHIFT.unpack_from(shared)[0])

    time.time_ns = shifted_ns
    time.time = lambda: shifted_ns() / 1e9


def _mapped(path: Path) -> mmap.mmap:
    with path.open("r+b") as file:
        return mmap.mmap(file.fileno(), _SHIFT.size)
