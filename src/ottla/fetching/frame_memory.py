"""Memory that answers are received into, used again when nothing refers to it any more.

A fresh megabyte costs more page faults than its bytes cost to receive. The slabs are those of the decoder, in
a pool of their own: what is received is given back as soon as it is decoded.
"""

from __future__ import annotations

from ottla.records.slabs import SlabPool

PAGE_BYTES = 4096
"""The kernel copies out of whole pages. Where the target begins a few bytes into its page, as memory of
malloc does (16), AMD processors take three to four times as long: on Zen 3, 2.5 against 9 GB/s."""


class FrameMemory:
    """An allocator for `Connection.open`, for one thread or several."""

    def __init__(self, *, reserve_bytes: int) -> None:
        """`reserve_bytes`: how much of a size class is kept for the next frames."""
        self._pool = SlabPool(reserve_bytes=reserve_bytes)

    def allocate(self, size: int) -> memoryview:
        """Writable memory from the start of a page on, of undefined content."""
        lease = self._pool.lease(size + PAGE_BYTES)
        return lease.view(-lease.slab.address % PAGE_BYTES, size)
