"""Memory for decoded columns, used again and again.

Fresh memory costs a page fault every 4 KiB, which is more than the decoding of what goes into it. So all
columns of one record set are parts of one slab; Arrow's buffers hold a lease on it, and when the last of
them is gone the slab returns to its pool.

A slice of one row therefore keeps a whole slab. Copy what is kept for long, as `batch.take(rows)` does.
The pool hands out a new slab whenever it has none: it bounds what it keeps in reserve, not what is in use.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

U8Array = npt.NDArray[np.uint8]

ALIGNMENT = 64  # Arrow's recommendation: a cache line, and a width for any SIMD
SLAB_SIZE_BITS = range(16, 33)  # larger ones are too rare to be kept
SLAB_BYTES_MIN = 1 << SLAB_SIZE_BITS[0]


def part_positions(sizes: Iterable[int]) -> list[int]:
    """Where aligned parts of these sizes begin, and at last where they end."""
    positions = [0]
    for size in sizes:
        positions.append(positions[-1] + size + (-size % ALIGNMENT))
    return positions


class SlabPool:
    """Slabs by size class (powers of two). Any thread may take one, any thread may drop the last buffer.

    A lease may end inside a garbage collection, in the middle of any code of any thread, this class's own
    included. So there is no lock, only single operations of deques, which are atomic.
    """

    def __init__(self, *, reserve_bytes: int) -> None:
        """`reserve_bytes`: how much returned memory of all sizes is kept for the next taker."""
        self.reserve_bytes = reserve_bytes
        self._free: dict[int, deque[Slab]] = {1 << bits: deque() for bits in SLAB_SIZE_BITS}

    @property
    def reserved_bytes(self) -> int:
        """Bytes that are kept now."""
        total = 0
        for size, free in self._free.items():
            if free:  # most are empty, and this runs whenever a slab returns
                total += size * len(free)
        return total

    def lease(self, size: int) -> Lease:
        """A slab of at least `size` bytes; its content is undefined."""
        capacity = max(SLAB_BYTES_MIN, 1 << (size - 1).bit_length())
        try:
            return Lease(self._free[capacity].pop(), self)
        except (IndexError, KeyError):
            return Lease(Slab(capacity), self)

    def give_back(self, slab: Slab) -> None:
        """Called when a lease ends, on whatever thread dropped it."""
        free = self._free.get(slab.size)
        if free is not None and (len(free) + 1) * slab.size <= self.reserve_bytes:
            free.append(slab)
            if self.reserved_bytes > self.reserve_bytes:
                self._drop_others(free)

    def close(self) -> None:
        """Keep nothing any more; slabs that are in use stay so."""
        self.reserve_bytes = 0
        for free in self._free.values():
            free.clear()

    def _drop_others(self, kept: deque[Slab]) -> None:
        """Drop kept slabs of sizes other than the one that was just returned: earlier data needed them."""
        for free in self._free.values():
            while free is not kept and free and self.reserved_bytes > self.reserve_bytes:
                with suppress(IndexError):  # another thread took the last one
                    free.popleft()


class Slab:
    """A piece of memory; its address is kept, since NumPy takes a microsecond to compute it."""

    __slots__ = ("address", "array", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.array: U8Array = np.empty(size, np.uint8)
        self.address: int = self.array.ctypes.data


class Lease:
    """The right to a slab while any Arrow buffer, or the reader that fills it, refers to it."""

    __slots__ = ("_pool", "slab")

    def __init__(self, slab: Slab, pool: SlabPool) -> None:
        self.slab = slab
        self._pool = pool

    def __del__(self) -> None:
        self._pool.give_back(self.slab)

    def buffer(self, position: int, size: int) -> pa.Buffer:
        """These bytes of the slab as an Arrow buffer that holds this lease."""
        return pa.foreign_buffer(self.slab.address + position, size, self)

    def view(self, position: int, size: int) -> memoryview:
        """These bytes of the slab, to be written; whatever is made over the view holds this lease."""
        loan = self.slab.array[position : position + size].view(_Loan)
        loan.lease = self
        return memoryview(loan)  # type: ignore[arg-type]  # NumPy types no buffer before Python 3.12


class _Loan(np.ndarray[Any, np.dtype[np.uint8]]):
    """A part of a slab. Views of it keep it, and it keeps the lease."""

    lease: Lease


POOL = SlabPool(reserve_bytes=64 << 20)
"""The pool of callers that pass no other."""
