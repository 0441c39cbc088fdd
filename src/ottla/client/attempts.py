"""A loop that tries again, with pauses between the tries, until a deadline has passed."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

from ottla.client.clock import Deadline
from ottla.client.interruption import Interruption
from ottla.client.retry import Backoff
from ottla.model.errors import KafkaError, OttlaError


def attempts(
    backoff: Backoff, deadline: Deadline, chance: random.Random, interruption: Interruption | None = None
) -> Iterator[int]:
    """Yields 0, 1, 2, … with a pause before each number but 0, until the deadline has passed.

        for _ in attempts(backoff, deadline, chance):
            try once; return if it succeeded
        raise the last error, as `error_to_raise` chooses it

    0 is yielded even if the deadline has passed. An interruption during a pause raises ConnectionLost.
    """
    yield 0
    for attempt in itertools.count(1):
        if deadline.passed:
            return
        pause_ms = deadline.capped_ms(backoff.pause_ms(attempt, chance))
        deadline.clock.pause(pause_ms, interruption.event if interruption is not None else None)
        if interruption is not None:
            interruption.check()
        yield attempt


def error_to_raise(before: OttlaError | None, error: OttlaError, deadline: Deadline) -> OttlaError:
    """Return the failure to raise at the end: the later one, unless it came because the time was over."""
    is_cut = deadline.passed and not isinstance(error, KafkaError)
    return before if before is not None and is_cut else error
