"""The bytes that may be handed in and not be acknowledged: what makes send() wait for slow brokers."""

from __future__ import annotations

import threading
from collections.abc import Callable

from ottla.client.clock import Clock, Deadline
from ottla.producer.errors import BufferFull, ProducerClosed


class MemoryBudget:
    """`buffer.memory`. Whoever waits is served when there is room for it; thread-safe."""

    def __init__(self, limit: int, max_block_ms: float, clock: Clock) -> None:
        self.limit = limit
        self._max_block_ms = max_block_ms
        self._clock = clock
        self._free = limit
        self._waiters = 0
        self._is_closed = False
        # Taken itself, not through the condition: a Ctrl-C in the condition's own code would keep it shut.
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)

    @property
    def used(self) -> int:
        """Bytes that are taken."""
        return self.limit - self._free

    @property
    def has_waiters(self) -> bool:
        """Whether somebody waits for room."""
        return self._waiters > 0

    def try_reserve(self, size: int) -> bool:
        """Take so many bytes if they are free and nobody waits for them."""
        with self._lock:
            if self._free < size or self._waiters:
                return False
            self._free -= size
            return True

    def reserve(self, size: int, hurry: Callable[[], None]) -> None:
        """Take so many bytes; waits up to max.block.ms. `hurry` is told before, outside all locks.

        Raises BufferFull, ProducerClosed.
        """
        if self.try_reserve(size):
            return
        with self._lock:
            self._waiters += 1
        try:
            hurry()
            self._wait(size)
        finally:
            with self._lock:
                self._waiters -= 1

    def _wait(self, size: int) -> None:
        deadline = Deadline(self._clock, self._max_block_ms)
        with self._lock:
            while self._free < size:
                if self._is_closed:
                    raise ProducerClosed("the producer was closed while send() waited for memory")
                left_ms = deadline.left_ms() or 0.0
                if not left_ms:
                    raise BufferFull(
                        f"{size:,} bytes do not fit into buffer.memory={self.limit:,}, of which {self.used:,}"
                        f" have waited for brokers for max.block.ms={self._max_block_ms:.0f}; are the brokers"
                        " up, and fast enough? A larger buffer.memory or max.block.ms gives them more time"
                    )
                self._changed.wait(left_ms / 1000.0)
            self._free -= size

    def release(self, size: int) -> None:
        """Give bytes back."""
        if size:
            with self._lock:
                self._free += size
                if self._waiters:
                    self._changed.notify_all()

    def close(self) -> None:
        """Who waits gets ProducerClosed."""
        with self._lock:
            self._is_closed = True
            self._changed.notify_all()
