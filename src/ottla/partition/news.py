"""News: an inbox at which one can wait without taking anything, so that taking can be done under a lock."""

from __future__ import annotations

from ottla.fetching import Inbox, PartitionFeed


def _seconds(timeout_ms: float | None) -> float | None:
    return None if timeout_ms is None else timeout_ms / 1000


class News(Inbox):
    """The feeds of one consumer."""

    def wait(self, timeout_ms: float | None) -> bool:
        """Whether there is something of any feed within so long, or the end."""
        with self.changed:
            return self.changed.wait_for(lambda: self._is_closed or self._has_news(), _seconds(timeout_ms))

    def wait_for(self, feed: PartitionFeed, timeout_ms: float | None) -> bool:
        """The same of one feed."""
        with self.changed:
            return self.changed.wait_for(
                lambda: feed.is_closed or feed.has_news or feed.failure is not None, _seconds(timeout_ms)
            )

    def _has_news(self) -> bool:
        """What stopped a feed that is closed by now is no news any more."""
        while self._listed and self._listed[0].is_closed:
            self._listed.popleft().unlist()
        return super()._has_news()

    @property
    def is_closed(self) -> bool:
        """Whether nothing more comes."""
        return self._is_closed
