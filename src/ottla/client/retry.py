"""What to do about an error that a broker answers, and how long to wait before trying again.

`action_for(code)` is the table; whoever asks decides what the action means for it: a fetcher that shall
REFRESH asks the metadata for a new leader, a commit that shall FIND_COORDINATOR looks it up again. Codes
that belong to one kind of caller only (an offset out of range, a rebalance, a fenced producer) are FAIL
here: their callers look at them first.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from ottla.client.clock import Deadline
from ottla.client.interruption import Interruption
from ottla.model.error_codes import Code
from ottla.model.errors import ConnectionLost, KafkaError, OttlaError, RequestTimedOut


class Action(Enum):
    """What comes before the next try, if there is one."""

    NONE = "no error"
    RETRY = "try again later"
    REFRESH = "refresh the metadata, then try again"
    FIND_COORDINATOR = "look the coordinator up again, then try again"
    FAIL = "tell the caller"


_ACTIONS = {
    Code.NONE: Action.NONE,
    # The partition is elsewhere, or this broker does not know of it (yet).
    Code.UNKNOWN_TOPIC_OR_PARTITION: Action.REFRESH,
    Code.LEADER_NOT_AVAILABLE: Action.REFRESH,
    Code.NOT_LEADER_OR_FOLLOWER: Action.REFRESH,
    Code.BROKER_NOT_AVAILABLE: Action.REFRESH,  # not retriable for Kafka's clients, but it is what 0.8 says
    Code.REPLICA_NOT_AVAILABLE: Action.REFRESH,
    Code.NETWORK_EXCEPTION: Action.REFRESH,
    Code.KAFKA_STORAGE_ERROR: Action.REFRESH,
    Code.LISTENER_NOT_FOUND: Action.REFRESH,
    Code.FENCED_LEADER_EPOCH: Action.REFRESH,
    Code.UNKNOWN_TOPIC_ID: Action.REFRESH,
    Code.INCONSISTENT_TOPIC_ID: Action.REFRESH,
    Code.NOT_CONTROLLER: Action.REFRESH,
    # The other broker has yet to hear of what we know.
    Code.UNKNOWN_LEADER_EPOCH: Action.RETRY,
    # Another broker coordinates, or none does at present.
    Code.COORDINATOR_NOT_AVAILABLE: Action.FIND_COORDINATOR,
    Code.NOT_COORDINATOR: Action.FIND_COORDINATOR,
}


def action_for(code: int) -> Action:
    """What to do about an error code; codes that are not listed RETRY if Kafka calls them retriable."""
    known = Code.of(code)
    listed = _ACTIONS.get(known)
    if listed is not None:
        return listed
    return Action.RETRY if known.retriable else Action.FAIL


def action_about(error: OttlaError) -> Action:
    """The same for what was raised: a lost connection or a timeout asks for fresh metadata."""
    if isinstance(error, KafkaError):
        return action_for(error.code)
    if isinstance(error, ConnectionLost | RequestTimedOut):
        return Action.REFRESH
    return Action.FAIL


@dataclass(frozen=True, slots=True)
class Backoff:
    """Pauses that double from `first_ms` to `most_ms`, each up to a fifth shorter or longer: clients that
    lost the same broker do not come back all at once."""

    first_ms: float
    most_ms: float
    jitter: float = 0.2

    def pause_ms(self, failures: int, chance: random.Random) -> float:
        """How long to wait after so many failures in a row; nothing after none."""
        if failures <= 0:
            return 0.0
        doubled = self.first_ms * 2.0 ** min(failures - 1, 30)
        spread = chance.uniform(1.0 - self.jitter, 1.0 + self.jitter)
        return min(doubled, max(self.first_ms, self.most_ms)) * spread


def attempts(
    backoff: Backoff, deadline: Deadline, chance: random.Random, interruption: Interruption | None = None
) -> Iterator[int]:
    """0, 1, 2, … with pauses between them, until the deadline has passed; 0 comes in any case.

        for attempt in attempts(backoff, deadline, chance):
            try once; return if it went well
        raise the last error

    An interruption ends a pause with ConnectionLost.
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
