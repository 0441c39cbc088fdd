"""The memory of records that are not acknowledged yet. While it is full, send() waits."""

from __future__ import annotations

import threading

from ottla.client.clock import SIGNAL_CHECK_S, Clock, Deadline
from ottla.client.network_errors import NetworkErrors
from ottla.model.errors import ProducerClosed
from ottla.producer.deliveries import BufferFull


class BufferMemory:
    """`buffer.memory`. Thread-safe."""

    def __init__(self, limit: int, max_block_ms: float, clock: Clock, errors: NetworkErrors) -> None:
        self.limit = limit
        self._errors = errors
        self.max_block_ms = max_block_ms
        self._clock = clock
        self._free = limit
        self._waiters = 0
        self._is_closed = False
        # Locked directly, not through the condition: a Ctrl-C in the condition's code would keep it locked.
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)

    @property
    def used(self) -> int:
        """Bytes that are reserved."""
        return self.limit - self._free

    def try_reserve(self, size: int) -> bool:
        """Take `size` bytes if they are free and no thread waits for memory."""
        with self._lock:
            if self._free < size or self._waiters:
                return False
            self._free -= size
            return True

    def reserve(self, size: int) -> None:
        """Take `size` bytes; waits up to max.block.ms. Raises BufferFull, ProducerClosed."""
        with self._lock:
            self._waiters += 1
        try:
            self._wait(size)
        finally:
            with self._lock:
                self._waiters -= 1

    def _wait(self, size: int) -> None:
        deadline = Deadline(self._clock, self.max_block_ms)
        with self._lock:
            while self._free < size:
                self.check_open()
                left_ms = deadline.left_ms() or 0.0
                if not left_ms:
                    raise self.full(size)
                self._changed.wait(min(SIGNAL_CHECK_S, left_ms / 1000.0))
            self._free -= size

    def check_open(self) -> None:
        """Raise ProducerClosed if the producer is closed."""
        if self._is_closed:
            raise ProducerClosed("the producer was closed while send() waited for memory")

    def full(self, size: int) -> BufferFull:
        """Return the error for a caller that has waited for max.block.ms."""
        return BufferFull(
            f"{size:,} bytes do not fit into buffer.memory={self.limit:,}, of which {self.used:,}"
            f" have waited for brokers for max.block.ms={self.max_block_ms:.0f}; are the brokers"
            " up, and fast enough? A larger buffer.memory or max.block.ms gives them more time"
            f"{self._errors.cause()}"
        )

    def release(self, size: int) -> None:
        """Release bytes."""
        if size:
            with self._lock:
                self._free += size
                if self._waiters:
                    self._changed.notify_all()

    def close(self) -> None:
        """Make waiting threads raise ProducerClosed."""
        with self._lock:
            self._is_closed = True
            self._changed.notify_all()
