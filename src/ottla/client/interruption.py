"""Ends the wait of a thread (socket, connect, pause) from another thread, for an immediate close.

An `Interruption` belongs to one owner thread (a fetcher, a sender, a pool) and all its connections. Once
interrupted, it stays interrupted.
"""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Iterable

from ottla.client.clock import MONOTONIC, Deadline
from ottla.model.closing import Closing
from ottla.model.errors import ConnectionLost

log = logging.getLogger(__name__)

ENDING_S = 5.0
"""How long a `close` waits for its threads, all together."""


class Interruption(Closing):
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
        """End the wait of the owner with ConnectionLost. From any thread or signal handler."""
        self.event.set()
        with self._lock:
            if not self._is_closed:
                self._waker.close()  # from now on the other end is readable for everyone who polls it

    def check(self) -> None:
        """Raise ConnectionLost if it was interrupted."""
        if self.event.is_set():
            raise ConnectionLost("interrupted: this client is being closed")

    def fileno(self) -> int:
        """The descriptor to poll for reading, besides the socket."""
        return self._woken.fileno()

    def close(self) -> None:
        """To be called by the owner when its connections are closed."""
        with self._lock:
            self._is_closed = True
            self._waker.close()
            self._woken.close()


def ended(threads: Iterable[threading.Thread], owner: str, timeout: float | None = None) -> bool:
    """Wait for threads that were told to end, ENDING_S by default.

    Returns False, with a warning, if some do not. They end at once, unless one resolves a name, which cannot
    be interrupted, or decodes a large answer.
    """
    timeout = ENDING_S if timeout is None else timeout
    deadline = Deadline(MONOTONIC, timeout * 1000.0)
    left: list[str] = []
    for thread in threads:
        if thread.ident is None or thread is threading.current_thread():
            continue
        thread.join((deadline.left_ms() or 0.0) / 1000.0)
        if thread.is_alive():
            left.append(thread.name)
    if left:
        log.warning(
            "%s is closed, but not all of it has ended in %g s: %s. It ends when it has an answer, from the "
            "resolver of names for example",
            *(owner, timeout, ", ".join(left)),
        )
    return not left


def acquired(lock: threading.Lock, owner: str) -> bool:
    """Wait up to ENDING_S for a lock that an interrupted call holds.

    Returns False, with a warning, if it stays held.
    """
    is_acquired = lock.acquire(timeout=ENDING_S)
    if not is_acquired:
        log.warning("%s is closed, but a call in another thread has not ended in %g s", owner, ENDING_S)
    return is_acquired
