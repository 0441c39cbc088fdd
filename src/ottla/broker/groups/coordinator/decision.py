"""The decisions of the coordinator, and the step in which it makes one.

The coordinator does nothing itself. Each call (a request, a timer, the result of an append) is one
`CoordinatorStep` at one instant. It results in a `GroupDecision`, which the broker's loop carries out:

    replies   send the response to the request with this ticket. A request without a reply in its own
              decision is parked: its ticket is in a later decision, exactly once.
    appends   write these records to this partition of `__consumer_offsets`, all or nothing and in order;
              then call `on_append_result` with the append's id. Results come in the order of the appends.
    timers    call `on_timer` with this object at or after its time. Timers are not cancelled: the
              coordinator ignores those that are out of date.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from ottla.broker.coordination.effects import Append, Caller, Record, Reply, client_error
from ottla.broker.settings.group_config import GroupConfig
from ottla.model.error_codes import Code
from ottla.wire.schema import Response


class TimerKind(StrEnum):
    """The kind of a deadline: what ends when it passes."""

    SESSION = "session of a member"
    JOIN = "end of the join phase"
    SYNC = "end of the sync phase"
    REVOCATION = "time to give partitions up"


@dataclass(frozen=True, slots=True)
class TimerKey:
    """Names a deadline of a group; `member_id` is empty if it concerns the whole group."""

    kind: TimerKind
    member_id: str = ""


@dataclass(frozen=True, slots=True)
class Timer:
    """Asks for a call of `on_timer` at `at_ms`."""

    group_id: str
    key: TimerKey
    at_ms: int


@dataclass(frozen=True, slots=True)
class GroupDecision:
    """The result of one call: what the loop has to do."""

    replies: tuple[Reply, ...] = ()
    appends: tuple[Append, ...] = ()
    timers: tuple[Timer, ...] = ()


Continuation = Callable[["CoordinatorStep", Code], None]


@dataclass(frozen=True, slots=True)
class PendingGroupAppend:
    """Records to be stored for a group, and the continuation that gets the result."""

    group_id: str
    records: tuple[Record, ...]
    then: Continuation
    producer: tuple[int, int] | None = None


@dataclass(slots=True)
class CoordinatorStep:
    """One call into the coordinator: its instant, the settings, and what has been decided so far."""

    now_ms: int
    config: GroupConfig
    new_member_id: Callable[[Caller, str | None], str]
    new_uuid: Callable[[], str]
    replies: list[Reply] = field(default_factory=list)
    pending_appends: list[PendingGroupAppend] = field(default_factory=list)
    timers: list[Timer] = field(default_factory=list)

    def reply(self, caller: Caller, response: Response) -> None:
        """Answer `caller`."""
        self.replies.append(Reply(caller.ticket, response))

    def append(
        self,
        group_id: str,
        records: Sequence[Record],
        then: Continuation,
        producer: tuple[int, int] | None = None,
    ) -> None:
        """Store `records`; `then` is called after they were replayed, or after the failure."""
        self.pending_appends.append(PendingGroupAppend(group_id, tuple(records), then, producer))


# As `client_error`, but for commits that are too large.
_OFFSET_ERRORS = {
    Code.MESSAGE_TOO_LARGE: Code.INVALID_COMMIT_OFFSET_SIZE,
    Code.RECORD_LIST_TOO_LARGE: Code.INVALID_COMMIT_OFFSET_SIZE,
    Code.INVALID_FETCH_SIZE: Code.INVALID_COMMIT_OFFSET_SIZE,
}


def offset_error(append_error: Code) -> Code:
    """Return the error of a commit or delete whose records could not be stored."""
    return _OFFSET_ERRORS.get(append_error, client_error(append_error))
