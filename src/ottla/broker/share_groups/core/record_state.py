"""The states of a record in a share group, as one table; it is drawn in docs/state-machines.md.

Theory of operation. A record between a partition's start offset and its end offset is in flight. It is
Available until a member acquires it, which locks it for that member and counts a delivery. If the member
accepts it, it is Acknowledged for good; if the member rejects it, it is Archived for good. If the member
releases it or its lock runs out, it is Available for the next delivery; after the last allowed delivery it is
Archived. The start offset moves over records that are done. The stored numbers are Kafka's.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum, StrEnum
from types import MappingProxyType


class RecordState(IntEnum):
    """The state of a record, as it is stored. 3 is for records on their way to a dead-letter queue."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVED = 4


class RecordEvent(StrEnum):
    """The events that change the state of a record."""

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
