"""The thread that watches the time: rows that lingered enough, records too old, topics that stay unknown."""

from __future__ import annotations

import logging
import threading

from ottla.model.errors import OttlaError
from ottla.producer.dispatcher import Dispatcher
from ottla.producer.errors import DeliveryExpired
from ottla.producer.inboxes import NEVER, TopicInbox

LOG = logging.getLogger(__name__)

EXPIRY_STEPS = 20  # records expire up to a twentieth of their time late, and 100 ms at most
EXPIRY_STEP_MAX_MS = 100.0


class Upkeep:
    """See the module."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        timeout_ms = dispatcher.config.delivery_timeout_ms
        self._expiry_step_ms = min(EXPIRY_STEP_MAX_MS, max(1.0, timeout_ms / EXPIRY_STEPS))
        self._look_again_ms = 0.0
        name = f"{dispatcher.config.client.client_id}-upkeep"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def join(self, timeout: float | None) -> None:
        """Wait for the end."""
        if self._thread is not threading.current_thread():
            self._thread.join(timeout)

    def _run(self) -> None:
        dispatcher = self._dispatcher
        try:
            while not dispatcher.is_stopped:
                self._wait()
                for inbox in list(dispatcher.inboxes.values()):
                    self._look_at(inbox)
                self._expire()
        except Exception as error:
            LOG.exception("the upkeep failed")
            dispatcher.fail(OttlaError(f"the producer cannot go on: {error!r}"))

    def _wait(self) -> None:
        dispatcher = self._dispatcher
        with dispatcher.rows_changed:
            if dispatcher.is_stopped:
                return
            now_ms = dispatcher.clock.now_ms()
            due_ms = min((self._due_ms(one) for one in dispatcher.inboxes.values()), default=NEVER)
            if not dispatcher.core.is_empty:
                due_ms = min(due_ms, max(self._look_again_ms, now_ms))
            if due_ms == NEVER:
                dispatcher.rows_changed.wait()
            elif due_ms > now_ms:
                dispatcher.rows_changed.wait((due_ms - now_ms) / 1000.0)

    def _due_ms(self, inbox: TopicInbox) -> float:
        """When there is something to do for its rows."""
        dispatcher = self._dispatcher
        if inbox.due_ms == NEVER:
            return NEVER
        if dispatcher.knows(inbox.topic):
            return 0.0 if dispatcher.core.in_hurry else inbox.due_ms
        if dispatcher.refuses(inbox.topic) or inbox.topic not in dispatcher.wanted:
            return 0.0
        return dispatcher.wanted[inbox.topic] + dispatcher.unknown_ms

    def _look_at(self, inbox: TopicInbox) -> None:
        dispatcher = self._dispatcher
        if self._due_ms(inbox) > dispatcher.clock.now_ms():
            return
        refusal = dispatcher.refusal(inbox.topic)
        if refusal is not None:
            inbox.fail(refusal)
        elif dispatcher.known(inbox.topic) is not None:
            inbox.seal()
        elif inbox.topic in dispatcher.wanted and dispatcher.gave_up_on(inbox.topic):
            inbox.fail(dispatcher.unknown_topic(inbox.topic))

    def _expire(self) -> None:
        dispatcher = self._dispatcher
        now_ms = dispatcher.clock.now_ms()
        if now_ms < self._look_again_ms:
            return
        self._look_again_ms = now_ms + self._expiry_step_ms
        with dispatcher.lock:
            outcomes = dispatcher.core.expired(now_ms) if dispatcher.core.expires_at() <= now_ms else []
            cause = dispatcher.last_error
        for outcome in outcomes:
            if isinstance(outcome.error, DeliveryExpired) and cause is not None:
                outcome.error.__cause__ = cause
                outcome.error.add_note(f"the last error of the network: {cause}")
        dispatcher.settle(outcomes)
