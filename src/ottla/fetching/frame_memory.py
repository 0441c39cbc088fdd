"""Memory for received responses, which is used again when nothing refers to it any more.

The page faults of a fresh megabyte cost more than receiving its bytes. This is a pool of slabs like the
decoder's: the memory of a response comes back as soon as it is decoded.
"""

from __future__ import annotations

from ottla.records.slabs import SlabPool

PAGE_BYTES = 4096
"""The kernel copies from whole pages.

If the target begins some bytes after the start of a page (16 for memory from malloc), AMD processors are
three to four times slower: on Zen 3, 2.5 instead of 9 GB/s.
"""


class FrameMemory:
    """An allocator for `Connection.open`, for one thread or several."""

    def __init__(self, *, reserve_bytes: int) -> None:
        """`reserve_bytes` of each size class are kept for the next frames."""
        self._pool = SlabPool(reserve_bytes=reserve_bytes)

    def allocate(self, size: int) -> memoryview:
        """Writable memory that begins at the start of a page, with undefined content."""
        lease = self._pool.lease(size + PAGE_BYTES)
        return lease.view(-lease.slab.address % PAGE_BYTES, size)

    def close(self) -> None:
        """Keep nothing for the next frames any more."""
        self._pool.close()
