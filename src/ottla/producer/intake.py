"""The inboxes of all topics, and whether records are accepted."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, TypeAlias

from ottla.model.errors import OttlaError

if TYPE_CHECKING:
    from ottla.producer.inboxes import TopicInbox
    from ottla.producer.parts import Part

PartsByPartition: TypeAlias = "list[tuple[int, list[Part]]]"
"""Parts by partition."""


class Intake:
    """Thread-safe. `send` looks topics up in `open_inboxes`, which is empty while nothing is accepted."""

    def __init__(self) -> None:
        self.open_inboxes: dict[str, TopicInbox] = {}
        self._inboxes: dict[str, TopicInbox] = {}
        self._refusal: OttlaError | None = None
        self._obstacle: OttlaError | None = None
        self._lock = threading.Lock()

    @property
    def is_open(self) -> bool:
        """Whether records are accepted now or after `reopen`."""
        return self._refusal is None

    def check_open(self) -> None:
        """Raise the error that ended the producer, if there is one."""
        if self._refusal is not None:
            raise self._refusal.with_traceback(None)

    @property
    def inboxes(self) -> list[TopicInbox]:
        """Return the inboxes of all topics."""
        return list(self._inboxes.values())

    def add(self, new: TopicInbox) -> TopicInbox:
        """Return the inbox of the topic: an existing one, or `new`. Raises the error that ended
        the producer.
        """
        with self._lock:
            refusal = self._refusal or self._obstacle
            if refusal is not None:
                raise refusal.with_traceback(None)
            inbox = self._inboxes.setdefault(new.topic, new)
            self.open_inboxes[new.topic] = inbox
        return inbox

    def refuse(self, error: OttlaError) -> None:
        """Accept nothing any more. The first reason is kept."""
        with self._lock:
            self._refusal = self._refusal or error
            self.open_inboxes.clear()

    def shut(self, error: OttlaError) -> None:
        """Accept nothing until `reopen`."""
        with self._lock:
            self._obstacle = error
            self.open_inboxes.clear()

    def reopen(self) -> None:
        """Accept records again, unless `refuse` was called."""
        with self._lock:
            self._obstacle = None
            if self._refusal is None:
                self.open_inboxes.update(self._inboxes)

    def refuse_after_fork(self, error: OttlaError) -> None:
        """As `refuse`, in a child process, where the lock may be held by a thread that does not
        exist there.
        """
        self._refusal = error
        self.open_inboxes.clear()

    def fail_rows(self, error: OttlaError) -> None:
        """Fail the rows that wait in inboxes."""
        for inbox in self.inboxes:
            inbox.fail(error)
