"""TopicWatch: looks up which topics and partitions there are, beside the thread that sends heartbeats.

A broker that does not answer may cost a look-up half a minute. It must not cost the session.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Protocol, TypeVar

from ottla.client.metadata import ClusterMetadata
from ottla.client.retry import Action, action_about
from ottla.grouped.member import Member
from ottla.grouped.topics import TopicSelection, counts_in
from ottla.model.errors import OttlaError

log = logging.getLogger(__name__)

T = TypeVar("T")

LOOK_AGAIN_MS = 1_000.0
"""How soon topics are looked for that did not exist, or that no broker told of."""


class Access(Protocol):
    """How the watch gets at the member, which another thread drives."""

    def with_member(self, act: Callable[[Member], T]) -> T:
        """Do this with it."""

    def fail(self, error: Exception) -> None:
        """End the membership: this does not go away."""


class TopicWatch:
    """Looks when it is roused, and every so often: at a pattern's topics, and as the leader at the group's.

    Interrupt the metadata before `stop`, or it takes as long as a look-up."""

    def __init__(
        self,
        group_id: str,
        selection: TopicSelection,
        metadata: ClusterMetadata,
        max_age_ms: float,
        access: Access,
    ) -> None:
        self._group_id = group_id
        self._selection = selection
        self._metadata = metadata
        self._max_age_ms = max_age_ms
        self._access = access
        self._roused = threading.Event()
        self._is_stopping = False
        self._thread = threading.Thread(target=self._run, name=f"ottla-topics-{group_id}", daemon=True)

    def start(self) -> None:
        """Begin; nothing if it has begun."""
        if self._thread.ident is None:
            self._thread.start()

    def rouse(self) -> None:
        """From any thread: look now, the leader has to assign."""
        self._roused.set()

    def stop(self) -> None:
        """End it. May be called twice, and before `start`."""
        self._is_stopping = True
        self._roused.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        try:
            while not self._is_stopping:
                pause_ms = self._max_age_ms if self._has_seen_all() else LOOK_AGAIN_MS
                self._roused.wait(pause_ms / 1000)
                self._roused.clear()
        except Exception as error:  # noqa: BLE001 - the application's thread raises it
            if not self._is_stopping:
                self._access.fail(error)

    def _has_seen_all(self) -> bool:
        try:
            return self._look()
        except OttlaError as error:
            if self._is_stopping or action_about(error) is Action.FAIL:
                raise
            log.warning("group %r: topics could not be looked up: %s", self._group_id, error)
            return False

    def _look(self) -> bool:
        with_member = self._access.with_member
        if self._selection.is_pattern:
            found = self._selection.found_in(self._metadata.refresh_all(reason="topics by pattern"))
            with_member(lambda member: member.subscribe(found))
        topics = with_member(lambda member: member.topics_led)
        if topics is None:
            return True
        if topics:
            self._metadata.refresh(sorted(topics), reason="topics of the group")
        counts = counts_in(self._metadata.view, topics)
        with_member(lambda member: member.counted(topics, counts))
        return len(counts) == len(topics)
