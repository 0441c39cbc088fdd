"""A part of a segment file that is in the page cache, to be sent from there without a copy into this process.

Linux says in one call how many pages of a range are in memory (cachestat, since 6.5). Where it does not, or
where files cannot be sent, there are no ranges, and bytes are read.
"""

from __future__ import annotations

import os
import struct
import sys
from functools import cache
from typing import TYPE_CHECKING

from ottla.model.outside_bytes import OutsideBytes

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.log.open_files import OpenFile
    from ottla.log.segment_file import SegmentFile

RANGE_BYTES_MIN = 512 << 10
"""Below this a copy costs less than a range (decision 29)."""
RANGES_MAX = 512
"""Ranges at a time in a process: each may be the last one that has its file open."""

_CACHESTAT = 451  # on every processor that Linux has it for
_WANTED = struct.Struct("=QQ")
_COUNTS = struct.Struct("=QQQQQ")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
_free = [None] * RANGES_MAX  # taken and given back by any thread: pop and append are one step each


class CutShort(OSError):
    """The file ends before the range: somebody has cut it meanwhile."""


class FileRange(OutsideBytes):
    """`size` bytes of a file from `position` on; the first batch has `first_bytes`.

    It holds the open file, so the segment may be deleted, compacted away or closed meanwhile.
    """

    __slots__ = ("_cuts", "_file", "_opened", "_position", "_size", "is_cut")

    def __init__(
        self, file: SegmentFile, opened: OpenFile, position: int, size: int, first_bytes: int
    ) -> None:
        self._file, self._opened, self._cuts = file, opened, file.cuts
        self._position, self._size = position, size
        self.is_cut = first_bytes > size  # not even the first batch is whole

    @classmethod
    def of(cls, file: SegmentFile, position: int, size: int, first_bytes: int) -> FileRange | None:
        """The range, if all of it is in memory and there are not too many ranges; else None."""
        opened = file.opened()
        if size < RANGE_BYTES_MIN or not _free or not _is_cached(opened.fd, position, size):
            return None
        try:
            _free.pop()
        except IndexError:
            return None
        return cls(file, opened, position, size, first_bytes)

    def __len__(self) -> int:
        return self._size

    def send(self, sock_fd: int, start: int, count: int) -> int:
        """Send up to `count` bytes from `start` on; returns how many. Raises OSError, CutShort too."""
        count = min(count, self._size - start)
        sent = os.sendfile(sock_fd, self._opened.fd, self._position + start, count)
        if self._file.cuts != self._cuts or not sent:
            raise CutShort("a log was cut while it was sent")
        return sent

    def read(self, start: int = 0) -> bytes:
        """The bytes from `start` on. Raises OSError, CutShort too."""
        data = os.pread(self._opened.fd, self._size - start, self._position + start)
        if self._file.cuts != self._cuts or len(data) != self._size - start:
            raise CutShort("a log was cut while it was read")
        return data

    def __del__(self) -> None:
        _free.append(None)


def _is_cached(fd: int, position: int, size: int) -> bool:
    """Whether all pages of a range are in memory; False where that cannot be known."""
    first, last = position // _PAGE_BYTES, (position + size - 1) // _PAGE_BYTES
    return _page_counter()(fd, position, size) > last - first


@cache
def _page_counter() -> Callable[[int, int, int], int]:
    """A function that counts the pages of a range in memory; it says 0 where Linux cannot."""
    import ctypes  # here, since a broker that serves small fetches does without it

    if sys.platform != "linux":
        return lambda _fd, _position, _size: 0
    call = ctypes.CDLL(None).syscall
    call.argtypes = [ctypes.c_long, ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_int]
    counts = ctypes.create_string_buffer(_COUNTS.size)

    def count(fd: int, position: int, size: int) -> int:
        if call(_CACHESTAT, fd, _WANTED.pack(position, size), counts, 0):
            return 0
        pages: int = _COUNTS.unpack(counts.raw)[0]
        return pages

    return count
