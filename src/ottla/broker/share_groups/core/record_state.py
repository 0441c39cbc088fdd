"""The states of a record in a share group, as one table; it is drawn in docs/state-machines.md.

Theory of operation. A record between a partition's start offset and its end offset is in flight. It is
Available until a member acquires it, which locks it for that member and counts a delivery. The member accepts
it, and it is Acknowledged for good; rejects it, and it is Archived for good; or releases it, or its lock runs
out, and it is Available for the next delivery, unless the deliveries are used up: then it is Archived too.
The start offset moves over records that are done. The numbers are Kafka's, which are stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum, StrEnum
from types import MappingProxyType


class RecordState(IntEnum):
    """What became of a record, as it is stored. 3 is for records on their way to a dead-letter queue."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVED = 4


class RecordEvent(StrEnum):
    """What moves it."""

    ACQUIRED = "acquired by a member"
    ACCEPTED = "accepted"
    REJECTED = "rejected"
    RELEASED = "released, or its lock ran out"
    EXHAUSTED = "released after its last delivery"
    RENEWED = "lock renewed"
    MISSING = "not in the log"


TRANSITIONS: Mapping[RecordState, Mapping[RecordEvent, RecordState]] = MappingProxyType(
    {
        RecordState.AVAILABLE: {
            RecordEvent.ACQUIRED: RecordState.ACQUIRED,
            RecordEvent.MISSING: RecordState.ARCHIVED,
        },
        RecordState.ACQUIRED: {
            RecordEvent.ACCEPTED: RecordState.ACKNOWLEDGED,
            RecordEvent.REJECTED: RecordState.ARCHIVED,
            RecordEvent.RELEASED: RecordState.AVAILABLE,
            RecordEvent.EXHAUSTED: RecordState.ARCHIVED,
            RecordEvent.RENEWED: RecordState.ACQUIRED,
            RecordEvent.MISSING: RecordState.ARCHIVED,
        },
        RecordState.ACKNOWLEDGED: {},
        RecordState.ARCHIVED: {},
    }
)

IS_DONE = frozenset(state for state, events in TRANSITIONS.items() if not events)
"""States that a record never leaves."""
