"""Memory for chunks that wait for their readers or are on their way: queued.max.bytes, for all partitions.

One half is divided equally, whether it is used or not: a budget that goes to whoever comes first could be
eaten up by partitions that nobody reads, and the reader of another one would wait for ever. The other half
does go to whoever comes first, so that a thousand partitions are not fetched in crumbs while their readers
keep up.

    share of a partition = its part of the first half + what the others leave of the second half

A chunk is asked for only while its partition stays within its share. Then all of them together stay within
the budget: whoever goes above its part does so while all hold no more than the second half and that part.
"""

from __future__ import annotations

import threading


class Budget:
    """Counts what is held; queues and fetchers tell it. Thread-safe."""

    def __init__(self, total_bytes: int) -> None:
        self._common_bytes = total_bytes // 2
        self._divided_bytes = total_bytes - self._common_bytes
        self._part_bytes = self._divided_bytes
        self._lock = threading.Lock()
        self.held_bytes = 0

    def divide(self, partitions: int) -> None:
        """Among so many."""
        self._part_bytes = self._divided_bytes // max(1, partitions)

    def hold(self, nbytes: int) -> None:
        """So much more waits, or will come."""
        with self._lock:
            self.held_bytes += nbytes

    def release(self, nbytes: int) -> None:
        """So much has been taken, or did not come."""
        self.hold(-nbytes)

    def share_bytes(self, own_bytes: int) -> int:
        """What a partition may hold at present that holds so much itself."""
        others_bytes = max(0, self.held_bytes - own_bytes)
        return self._part_bytes + max(0, self._common_bytes - others_bytes)
