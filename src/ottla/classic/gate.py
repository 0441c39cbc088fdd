"""Whether streams may hand out: a lease on the group's belief that this member is alive.

ZooKeeper keeps a session for its timeout after it last heard of it. So an answer to a request proves that our
nodes stay until the request's sending + timeout, whatever happens to the network or to this process. Streams
look at `until_ms` before every message; a process that was stopped for a minute finds it passed, even though
no thread of it has had the time to learn that the session is lost.

    answer ──▶ open until sent + timeout        SUSPENDED, LOST ──▶ shut, until the owner opens it again
"""

from __future__ import annotations

import threading
from math import inf

SHUT = -inf


class DeliveryGate:
    """`until_ms` is for any thread to read. The session's thread shuts; the rebalancing thread opens."""

    def __init__(self) -> None:
        self.until_ms = SHUT
        self._changed = threading.Condition(threading.Lock())
        self._is_shut = True

    def is_open(self, now_ms: float) -> bool:
        """Whether a message may be handed out now."""
        return now_ms < self.until_ms

    def shut(self) -> None:
        """At once, and whatever answers come in of requests that were under way."""
        with self._changed:
            self._is_shut = True
            self.until_ms = SHUT

    def reopen(self) -> None:
        """The session is connected, and what it lost was dropped: the next answer opens."""
        with self._changed:
            self._is_shut = False

    def extend(self, until_ms: float) -> None:
        """An answer came in."""
        with self._changed:
            if not self._is_shut:
                self.until_ms = max(self.until_ms, until_ms)
                self._changed.notify_all()

    def wait(self, timeout_ms: float | None) -> None:
        """For the next answer, or for `wake`."""
        with self._changed:
            self._changed.wait(None if timeout_ms is None else timeout_ms / 1000)

    def wake(self) -> None:
        """Let everybody who waits look again."""
        with self._changed:
            self._changed.notify_all()
