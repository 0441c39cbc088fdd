"""Memory flush against a page that nobody may touch: a kernel that reads or writes one byte too far dies.

Compiled kernels work on addresses, so that a stray access would go unseen in ordinary memory.
"""

from __future__ import annotations

import ctypes
import mmap
import sys

import numpy as np

from ottla.records.slabs import Lease, Slab, SlabPool

PAGE = mmap.PAGESIZE
PROT_NONE = 0
SUPPORTED = sys.platform.startswith("linux")


class Region:
    """So many bytes between two guard pages; `tail` gives the last of them."""

    def __init__(self, size: int) -> None:
        self.size = -(-size // PAGE) * PAGE
        self._memory = mmap.mmap(-1, self.size + 2 * PAGE)
        whole = np.frombuffer(self._memory, np.uint8)
        self._array = whole[PAGE : PAGE + self.size]
        start = whole.ctypes.data
        self.end: int = start + PAGE + self.size
        if SUPPORTED:
            protect = ctypes.CDLL(None, use_errno=True).mprotect
            for page in (start, self.end):
                if protect(ctypes.c_void_p(page), ctypes.c_size_t(PAGE), PROT_NONE):
                    raise OSError(ctypes.get_errno(), "mprotect")

    def tail(self, size: int) -> np.ndarray:
        return self._array[self.size - size :]

    def holding(self, data: bytes) -> np.ndarray:
        """These bytes, right in front of the guard page."""
        place = self.tail(len(data))
        place[:] = np.frombuffer(data, np.uint8)
        return place


class GuardedPool(SlabPool):
    """Hands out slabs that end exactly where the asked size ends, at a guard page."""

    def __init__(self, *, slab_bytes: int) -> None:
        super().__init__(reserve_bytes=0)
        self._slab_bytes = slab_bytes
        self._regions: list[Region] = []
        self._used: dict[int, Region] = {}

    def lease(self, size: int) -> Lease:
        if size > self._slab_bytes:
            return super().lease(size)
        region = self._regions.pop() if self._regions else Region(self._slab_bytes)
        slab = Slab(0)
        slab.array = region.tail(size)
        slab.size, slab.address = size, region.end - size
        self._used[id(slab)] = region
        return Lease(slab, self)

    def give_back(self, slab: Slab) -> None:
        region = self._used.pop(id(slab), None)
        if region is not None:
            self._regions.append(region)
