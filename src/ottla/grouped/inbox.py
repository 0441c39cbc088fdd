"""An inbox that can be woken: the application waits for records and for the group's demands at once."""

from __future__ import annotations

from ottla.fetching import FetchedDataChunk, Inbox


class WakingInbox(Inbox):
    """`wake` from any thread ends a `poll`, now or the next one, without a chunk."""

    def __init__(self) -> None:
        super().__init__()
        self._is_woken = False

    def wake(self) -> None:
        """There is something else to do."""
        with self.changed:
            self._is_woken = True
            self.changed.notify_all()

    def poll(self, timeout_ms: float | None = None) -> FetchedDataChunk | None:
        """The next chunk; None after so long, or when it was woken."""
        try:
            return super().poll(timeout_ms)
        finally:
            self._is_woken = False

    def _has_news(self) -> bool:
        return self._is_woken or super()._has_news()
