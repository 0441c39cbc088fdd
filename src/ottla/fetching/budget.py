"""Memory for chunks that are queued or being fetched: queued.max.bytes for all partitions together. Pure.

One half is divided equally among the partitions, used or not. Without that, partitions that nobody reads
could take all the memory, and the reader of another partition would wait for ever. The other half goes to the
partitions that need it first, so that the fetches of a thousand partitions are not tiny while their readers
keep up.

    share of a partition = its part of the first half + what the others leave of the second half

A chunk is fetched only while its partition stays within its share. Then all together stay within the budget:
a partition goes above its part only while everything that is held fits into the second half and that part.
"""

from __future__ import annotations

from collections import deque
from contextlib import AbstractContextManager, nullcontext


class FetchBudget:
    """Counts the bytes that are held, as queues and fetchers report them."""

    def __init__(self, total_bytes: int, lock: AbstractContextManager[object] | None = None) -> None:
        """`lock` guards the count; threads that share the budget need one."""
        self._common_bytes = total_bytes // 2
        self._divided_bytes = total_bytes - self._common_bytes
        self._part_bytes = self._divided_bytes
        self._lock = lock or nullcontext()
        self.held_bytes = 0

    def divide(self, partitions: int) -> None:
        """Set the number of partitions that share the first half."""
        self._part_bytes = self._divided_bytes // max(1, partitions)

    def hold(self, nbytes: int) -> None:
        """Count `nbytes` more that are queued or requested."""
        with self._lock:
            self.held_bytes += nbytes

    def release(self, nbytes: int) -> None:
        """Count `nbytes` less: a reader took them, or they did not arrive."""
        self.hold(-nbytes)

    def share_bytes(self, own_bytes: int) -> int:
        """Return how many bytes a partition may hold at present, if it holds `own_bytes` now."""
        others_bytes = max(0, self.held_bytes - own_bytes)
        return self._part_bytes + max(0, self._common_bytes - others_bytes)


class ResponseReserve:
    """What a fetcher holds for responses that are not queued yet, the oldest first. It is held already."""

    def __init__(self, budget: FetchBudget) -> None:
        self._budget = budget
        self._held_bytes: deque[int] = deque()

    def add(self, nbytes: int) -> None:
        """Note what a plan has taken from the budget."""
        self._held_bytes.append(nbytes)

    def release_but(self, count: int) -> None:
        """Release what is held for all but the last `count` responses."""
        while len(self._held_bytes) > count:
            self._budget.release(self._held_bytes.popleft())
