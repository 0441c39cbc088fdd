"""TopicWatch: looks up topics and their partitions, in a thread beside the one that sends heartbeats.

A look-up may take half a minute if a broker does not answer. It must not end the session meanwhile.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from ottla.client.metadata import ClusterMetadata
from ottla.consumer.coordinated.topic_lookups import TopicLookups
from ottla.consumer.coordinated.topic_selection import TopicSelection


class TopicWatch:
    """Looks topics up every `max_age_ms` and when `look_now` is called.

    If some are not there yet or no broker answers, it looks again after `pause_ms(failures)`. Interrupt the
    metadata before `stop`, to end a running look-up.
    """

    def __init__(
        self,
        group_id: str,
        lookups: TopicLookups,
        metadata: ClusterMetadata,
        max_age_ms: float,
        pause_ms: Callable[[int], float],
    ) -> None:
        self._lookups = lookups
        self._metadata = metadata
        self._max_age_ms = max_age_ms
        self._pause_ms = pause_ms
        self._failures = 0
        self._wanted = threading.Event()
        self._is_stopping = False
        self._thread = threading.Thread(target=self._run, name=f"ottla-topics-{group_id}", daemon=True)

    def start(self) -> None:
        """Start the thread, if it is not started yet."""
        if self._thread.ident is None:
            self._thread.start()

    def look_now(self) -> None:
        """Look at once: the leader has to assign. From any thread."""
        self._wanted.set()

    def select(self, selection: TopicSelection) -> None:
        """Look for other topics from now on. From any thread."""
        self._lookups.selection = selection
        self._wanted.set()

    def stop(self) -> threading.Thread:
        """End the thread, and return it; does not wait. May be called twice, and before `start`."""
        self._is_stopping = True
        self._wanted.set()
        return self._thread

    def _run(self) -> None:
        while not self._is_stopping:
            self._failures = 0 if self._has_seen_all() else self._failures + 1
            pause_ms = self._pause_ms(self._failures) if self._failures else self._max_age_ms
            self._wanted.wait(pause_ms / 1000)
            self._wanted.clear()

    def _has_seen_all(self) -> bool:
        try:
            return self._look()
        except Exception as error:  # noqa: BLE001 - the application's thread raises it
            return True if self._is_stopping else self._lookups.failed(error)

    def _look(self) -> bool:
        lookup = self._lookups.once(lambda: self._metadata.view)
        try:
            wanted = next(lookup)
            while True:
                if wanted is None:
                    view = self._metadata.refresh_all(reason="topics by pattern")
                else:
                    view = self._metadata.refresh(sorted(wanted), reason="topics of the group")
                wanted = lookup.send(view)
        except StopIteration as end:
            has_seen_all: bool = end.value
            return has_seen_all
