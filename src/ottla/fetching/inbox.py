"""Inbox: where a reader of several feeds waits for chunks, or for something else that somebody tells it."""

from __future__ import annotations

import threading
from collections import deque
from typing import Protocol

from ottla.fetching.chunk_queue import FetchedDataChunk


class Listed(Protocol):
    """A feed as its inbox sees it. Called under the inbox's lock."""

    @property
    def has_news(self) -> bool:
        """Whether there is a chunk to take or an error that was not told."""

    def unlist(self) -> None:
        """The inbox does not have it any more."""

    def taken_by_inbox(self) -> FetchedDataChunk | None:
        """What `poll` hands out."""


class Inbox:
    """Chunks of several feeds for one reader: `poll` gives the next one of any of them, in turns.

    `wait` takes nothing, for readers that take under a lock of their own. `wake` is for those who have
    something else to tell the reader.
    """

    def __init__(self) -> None:
        self.changed = threading.Condition(threading.Lock())
        self._listed: deque[Listed] = deque()
        self._is_woken = False
        self._is_closed = False

    def poll(self, timeout_ms: float | None = None) -> FetchedDataChunk | None:
        """The next chunk; None after so long, or when it was woken or closed. None waits without end.

        Raises the error of a feed that stopped, once, behind its last chunk; the other feeds go on. Its
        `failure` tells which one it was.
        """
        with self.changed:
            self._wait(timeout_ms)
            return self._listed.popleft().taken_by_inbox() if self._listed else None

    def wait(self, timeout_ms: float | None = None) -> bool:
        """Whether there is something to take within so long, or it was woken or closed."""
        with self.changed:
            return self._wait(timeout_ms)

    def wake(self) -> None:
        """From any thread: end a `poll` or a `wait`, the present one or the next."""
        with self.changed:
            self._is_woken = True
            self.changed.notify_all()

    def close(self) -> None:
        """Wake who waits, for good; feeds go on."""
        with self.changed:
            self._is_closed = True
            self.changed.notify_all()

    @property
    def is_closed(self) -> bool:
        """Whether nothing more comes."""
        return self._is_closed

    def enlist(self, feed: Listed) -> None:
        """Called by a feed that has something, under the lock."""
        self._listed.append(feed)

    def _wait(self, timeout_ms: float | None) -> bool:
        seconds = None if timeout_ms is None else timeout_ms / 1000
        is_so = self.changed.wait_for(lambda: self._has_news() or self._is_woken or self._is_closed, seconds)
        self._is_woken = False
        return is_so

    def _has_news(self) -> bool:
        """A feed that was emptied otherwise, by its own poll, a seek or its end, has no news any more."""
        while self._listed and not self._listed[0].has_news:
            self._listed.popleft().unlist()
        return bool(self._listed)
