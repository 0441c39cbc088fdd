"""Memory that answers are received into, used again when nothing refers to it any more.

A fresh megabyte costs more page faults than its bytes cost to receive. The slabs are those of the decoder, in
a pool of their own: what is received is given back as soon as it is decoded.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ottla.records.slabs import Lease, SlabPool


class _Loan(np.ndarray[Any, np.dtype[np.uint8]]):
    """A part of a slab. Views of it keep it, and it keeps the lease."""

    lease: Lease


class FrameMemory:
    """An allocator for `Connection.open`, for one thread or several."""

    def __init__(self, *, reserve_bytes: int) -> None:
        """`reserve_bytes`: how much of a size class is kept for the next frames."""
        self._pool = SlabPool(reserve_bytes=reserve_bytes)

    def allocate(self, size: int) -> memoryview:
        """Writable memory of undefined content."""
        lease = self._pool.lease(size)
        loan = lease.slab.array[:size].view(_Loan)
        loan.lease = lease
        return memoryview(loan)  # type: ignore[arg-type]  # NumPy types no buffer before Python 3.12
