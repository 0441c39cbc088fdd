"""Inbox: where a reader of several feeds waits for chunks, or to be woken for something else."""

from __future__ import annotations

import threading
from collections import deque
from typing import Protocol

from ottla.client.clock import Condition, wait_for
from ottla.fetching.chunk_queue import FetchedDataChunk


class Listed(Protocol):
    """A feed as its inbox sees it. Called under the inbox's lock."""

    @property
    def has_news(self) -> bool:
        """Whether there is a chunk to take, or an error that was not raised yet."""

    def unlist(self) -> None:
        """Note that the inbox has removed this feed from its list."""

    def taken_by_inbox(self) -> FetchedDataChunk | None:
        """Return the chunk for `Inbox.poll`; raise the error of a stopped partition once."""


class Inbox:
    """Chunks of several feeds for one reader: `poll` gives the next one of any of them, in turns.

    `wait` takes nothing, for readers that take chunks under their own lock. `wake` ends a wait for another
    reason.
    """

    def __init__(self, changed: Condition | None = None) -> None:
        """`changed` guards the inbox and its feeds; by default a condition for threads."""
        self.changed: Condition = changed or threading.Condition(threading.Lock())
        self._outside: Condition = threading.Condition(threading.Lock())
        self._listed: deque[Listed] = deque()
        self._is_woken = False
        self._is_closed = False

    def outside_condition(self) -> Condition:
        """Return a condition of the same kind, to wait for something outside of the inbox.

        All feeds share it: thousands of their own would keep the garbage collector busy.
        """
        return self._outside

    def poll(self, timeout_ms: float | None = None) -> FetchedDataChunk | None:
        """Take the next chunk; None after `timeout_ms`, or when woken or closed. None waits for ever.

        Raises the error of a feed that stopped, once, after its last chunk; the other feeds continue. That
        feed has this error as its `failure`.
        """
        with self.changed:
            self._wait(timeout_ms)
            return self._listed.popleft().taken_by_inbox() if self._listed else None

    def wait(self, timeout_ms: float | None = None) -> bool:
        """Wait for something to take, `wake` or `close`; False after `timeout_ms`."""
        with self.changed:
            return self._wait(timeout_ms)

    def wake(self) -> None:
        """End a `poll` or a `wait`: the current one, or the next one if none is running. From any thread."""
        with self.changed:
            self._is_woken = True
            self.changed.notify_all()

    def close(self) -> None:
        """End all waits, now and later. Feeds continue."""
        with self.changed:
            self._is_closed = True
            self.changed.notify_all()

    @property
    def is_closed(self) -> bool:
        """Whether it was closed."""
        return self._is_closed

    def enlist(self, feed: Listed) -> None:
        """Note that a feed has something to take. Called under the lock."""
        self._listed.append(feed)

    def _wait(self, timeout_ms: float | None) -> bool:
        seconds = None if timeout_ms is None else timeout_ms / 1000
        has_ended = wait_for(self.changed, self.has_reason, seconds)
        self._is_woken = False
        return has_ended

    def has_reason(self) -> bool:
        """Whether a wait ends now. Called under the lock."""
        return self._has_news() or self._is_woken or self._is_closed

    def _has_news(self) -> bool:
        """Whether a feed has something to take. Feeds that were emptied meanwhile are removed."""
        while self._listed and not self._listed[0].has_news:
            self._listed.popleft().unlist()
        return bool(self._listed)
