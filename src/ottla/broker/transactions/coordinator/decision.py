"""What the transaction coordinator decides, and the step in which it decides it.

As with groups, each call is one step at one instant and results in a `TransactionDecision`, which the
broker's loop carries out:

    replies   send the response to the request with this ticket. A request without a reply in its own
              decision is parked: its ticket is in a later decision, exactly once.
    appends   write these records to this partition of `__transaction_state`, all or nothing and in order;
              then call `on_append_result` with the append's id. Results come in the order of the appends.
    ends      write the marker to each of these partitions; then call `on_ended` with the errors.
    timers    call `on_timer` with this object at or after its time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ottla.broker.coordination.effects import Append, Caller, Record, Reply
from ottla.model.error_codes import Code
from ottla.model.topic_partition import TopicAndPartition
from ottla.wire.schema import Response


@dataclass(frozen=True, slots=True)
class EndInPartitions:
    """Markers to be written for a transaction that is decided, and to be reported together."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    is_commit: bool
    version: int
    partitions: tuple[TopicAndPartition, ...]


@dataclass(frozen=True, slots=True)
class RetryTimer:
    """Asks for a call of `on_timer` at `at_ms`: a transaction is decided, but not complete."""

    transactional_id: str
    at_ms: int


@dataclass(frozen=True, slots=True)
class TransactionDecision:
    """What one call decided."""

    replies: tuple[Reply, ...] = ()
    appends: tuple[Append, ...] = ()
    ends: tuple[EndInPartitions, ...] = ()
    timers: tuple[RetryTimer, ...] = ()


Continuation = Callable[["TransactionStep", Code], None]


@dataclass(frozen=True, slots=True)
class PendingTransactionAppend:
    """A record to be stored for a transactional id, and the continuation that gets the result."""

    transactional_id: str
    record: Record
    then: Continuation


@dataclass(slots=True)
class TransactionStep:
    """One call into the coordinator: its instant, and what has been decided so far."""

    now_ms: int
    replies: list[Reply] = field(default_factory=list)
    pending_appends: list[PendingTransactionAppend] = field(default_factory=list)
    ends: list[EndInPartitions] = field(default_factory=list)
    timers: list[RetryTimer] = field(default_factory=list)

    def reply(self, caller: Caller, response: Response) -> None:
        """Answer `caller`."""
        self.replies.append(Reply(caller.ticket, response))

    def append(self, transactional_id: str, record: Record, then: Continuation) -> None:
        """Store a record; `then` is called when it is in the log, or after the failure."""
        self.pending_appends.append(PendingTransactionAppend(transactional_id, record, then))
