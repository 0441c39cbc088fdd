"""Memory for decoded columns, used again and again.

Fresh memory costs a page fault every 4 KiB, which is more than the decoding of what goes into it. So all
columns of one record set are carved out of one slab; Arrow's buffers hold a lease on it, and when the
last of them is gone the slab returns to its pool.

A slice of one row keeps its whole slab. Copy what is kept for long (`pa.concat_batches([slice])` copies
nothing; `slice.take(...)` or a round trip through IPC does), or let the pool grow: it hands out new slabs
whenever it has none, and only bounds what it keeps in reserve.
"""

from __future__ import annotations

from collections import defaultdict
from threading import Lock

import numpy as np
import numpy.typing as npt
import pyarrow as pa

U8Array = npt.NDArray[np.uint8]

ALIGNMENT = 64  # Arrow's recommendation: a cache line, and a width for any SIMD
SLAB_BYTES_MIN = 64 * 1024


class SlabPool:
    """Slabs by size class (powers of two). Any thread may take and return; dropping a lease never blocks long."""

    def __init__(self, *, reserve_bytes: int) -> None:
        """`reserve_bytes`: how much returned memory is kept for the next taker."""
        self.reserve_bytes = reserve_bytes
        self.reserved_bytes = 0
        self._free: defaultdict[int, list[U8Array]] = defaultdict(list)
        self._lock = Lock()

    def lease(self, size: int) -> Lease:
        """A slab of at least `size` bytes; its content is undefined."""
        capacity = max(SLAB_BYTES_MIN, 1 << (size - 1).bit_length())
        with self._lock:
            free = self._free[capacity]
            array = free.pop() if free else None
            if array is not None:
                self.reserved_bytes -= capacity
        return Lease(np.empty(capacity, np.uint8) if array is None else array, self)

    def give_back(self, array: U8Array) -> None:
        """Called when a lease ends, on whatever thread dropped it."""
        with self._lock:
            if self.reserved_bytes + array.size <= self.reserve_bytes:
                self._free[array.size].append(array)
                self.reserved_bytes += array.size


class Lease:
    """The right to a slab while any Arrow buffer, or the reader that fills it, refers to it."""

    __slots__ = ("_address", "_pool", "_used", "array")

    def __init__(self, array: U8Array, pool: SlabPool) -> None:
        self.array = array
        self._pool = pool
        self._used = 0
        self._address = array.ctypes.data

    def __del__(self) -> None:
        self._pool.give_back(self.array)

    def carve(self, size: int) -> U8Array:
        """The next `size` bytes, aligned."""
        start = self._used
        self._used = start + size + (-size % ALIGNMENT)
        return self.array[start : start + size]

    def buffer(self, part: npt.NDArray[np.generic], size: int) -> pa.Buffer:
        """The first `size` bytes of a carved part as an Arrow buffer that holds this lease."""
        return pa.foreign_buffer(part.ctypes.data, size, self)


def carved_size(sizes: list[int]) -> int:
    """How large a slab must be for these parts."""
    return sum(size + (-size % ALIGNMENT) for size in sizes)
