"""Work that is due at a time: rows that lingered enough, records that are too old, topics that
stay unknown.
"""

from __future__ import annotations

from ottla.producer.dispatcher import Dispatcher
from ottla.producer.inboxes import NEVER, TopicInbox
from ottla.producer.producer_state import ProducerParts

EXPIRY_STEPS = 20  # records expire up to a twentieth of delivery.timeout.ms late, and at most 100 ms
EXPIRY_STEP_MAX_MS = 100.0


class TimedWork:
    """Says when work is due, and does it. Does not wait."""

    def __init__(self, state: ProducerParts, dispatcher: Dispatcher) -> None:
        config = state.config
        self._clock = state.clock
        self._dispatcher = dispatcher
        self._intake = state.intake
        self._topics = state.topics
        self._expiry_step_ms = min(EXPIRY_STEP_MAX_MS, max(1.0, config.delivery_timeout_ms / EXPIRY_STEPS))
        self._idle_step_ms = config.delivery_timeout_ms / 2
        self._expire_at_ms = 0.0

    def left_ms(self) -> float:
        """Return how long nothing is due; 0 or less: call `do` now."""
        now_ms = self._clock.now_ms()
        # Columns go to the dispatcher and wake nobody here: it looks long before the first of them expires.
        look_ms = now_ms + self._idle_step_ms if self._dispatcher.is_empty else self._expire_at_ms
        return min([look_ms, *(self._due_ms(inbox) for inbox in self._intake.inboxes)]) - now_ms

    def do(self) -> None:
        """Do the work that is due."""
        for inbox in self._intake.inboxes:
            self._look_at(inbox)
        now_ms = self._clock.now_ms()
        if now_ms >= self._expire_at_ms:
            self._expire_at_ms = now_ms + self._expiry_step_ms
            self._dispatcher.expire(now_ms)

    def _due_ms(self, inbox: TopicInbox) -> float:
        """Return when there is something to do for the rows of an inbox."""
        if inbox.due_ms == NEVER:
            return NEVER
        waits_until = self._topics.waits_until(inbox.topic)
        if waits_until is not None:
            return waits_until
        return 0.0 if self._dispatcher.is_hurrying else inbox.due_ms

    def _look_at(self, inbox: TopicInbox) -> None:
        if self._due_ms(inbox) > self._clock.now_ms():
            return
        refusal = self._topics.take_refusal(inbox.topic)
        if refusal is not None:
            inbox.fail(refusal)
        elif self._topics.known(inbox.topic) is not None:
            inbox.seal()
        elif self._topics.give_up(inbox.topic):
            inbox.fail(self._topics.unknown_topic(inbox.topic))
