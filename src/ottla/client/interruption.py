"""Ends what a thread waits for, from another thread: sockets, connects, pauses. For an immediate close.

An `Interruption` belongs to one owner thread (a fetcher, a sender, a pool) and all its connections. Once
interrupted it stays so.
"""

from __future__ import annotations

import socket
import threading
from types import TracebackType
from typing import Self

from ottla.model.errors import ConnectionLost


class Interruption:
    """A flag that a thread in `poll` or in `Clock.pause` notices at once. Holds two descriptors: close it."""

    def __init__(self) -> None:
        self.event = threading.Event()
        self._lock = threading.Lock()  # a descriptor must not be closed, and reused, between check and use
        self._woken, self._waker = socket.socketpair()
        self._is_closed = False

    @property
    def is_set(self) -> bool:
        """Whether it was interrupted."""
        return self.event.is_set()

    def interrupt(self) -> None:
        """From any thread, and a signal handler: whatever the owner waits for ends with ConnectionLost."""
        self.event.set()
        with self._lock:
            if not self._is_closed:
                self._waker.close()  # readable for ever after, for everybody who polls the other end

    def check(self) -> None:
        """Raise ConnectionLost if it was interrupted."""
        if self.event.is_set():
            raise ConnectionLost("interrupted: this client is being closed")

    def fileno(self) -> int:
        """What to poll for reading, besides the socket."""
        return self._woken.fileno()

    def close(self) -> None:
        """By the owner, when its connections are closed."""
        with self._lock:
            self._is_closed = True
            self._waker.close()
            self._woken.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
