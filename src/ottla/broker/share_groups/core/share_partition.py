"""A partition as a share group sees it: which records are in flight, which member holds them, until when.

The records in flight are runs of consecutive offsets with the same state, delivery count, member and lock.
The runs lie side by side from the start offset to the end offset, so that there is no offset without a state.
Owner: the broker's loop. Nothing here blocks or reads a clock.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import NamedTuple

from ottla.broker.share_groups.core.acknowledgements import AcknowledgedRange, AcknowledgeType
from ottla.broker.share_groups.core.record_state import IS_DONE, TRANSITIONS, RecordEvent, RecordState
from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError

UNINITIALIZED = -1
"""The start offset of a partition from which the group has not read yet."""

_EVENTS = {
    AcknowledgeType.GAP: RecordEvent.MISSING,
    AcknowledgeType.ACCEPT: RecordEvent.ACCEPTED,
    AcknowledgeType.RELEASE: RecordEvent.RELEASED,
    AcknowledgeType.REJECT: RecordEvent.REJECTED,
    AcknowledgeType.RENEW: RecordEvent.RENEWED,
}


class AcquiredRange(NamedTuple):
    """Offsets that a member acquired, both ends included, and the number of this delivery."""

    first: int
    last: int
    delivery_count: int


class StateBatch(NamedTuple):
    """Offsets with the same state, as they are stored."""

    first: int
    last: int
    state: RecordState
    delivery_count: int


class DeadLetters(NamedTuple):
    """Records that the group has given up, for its dead-letter queue."""

    first: int
    last: int
    delivery_count: int
    event: RecordEvent


class ReadBatches(NamedTuple):
    """First and last offset of each batch that may be delivered, and the end of the bytes that were read."""

    spans: Sequence[tuple[int, int]]
    end_offset: int


class AcquireLimits(NamedTuple):
    """How many records a member may acquire, and until when they are locked.

    record_count   as many as it asked for; exceeded to the end of a batch unless `is_strict`
    in_flight      the largest number of records in flight
    """

    record_count: int
    in_flight: int
    lock_until_ms: int
    is_strict: bool = False


@dataclass(slots=True)
class RecordRun:
    """Consecutive offsets with the same state. Only acquired records have `member_id` and a lock."""

    first: int
    last: int
    state: RecordState
    delivery_count: int = 0
    member_id: str = ""
    lock_until_ms: int = 0

    @property
    def count(self) -> int:
        """The number of offsets in the run."""
        return self.last - self.first + 1

    def continues(self, other: RecordRun) -> bool:
        """Whether `other`, the run before this one, has the same state, delivery count, member and lock."""
        mine = (self.state, self.delivery_count, self.member_id, self.lock_until_ms)
        return mine == (other.state, other.delivery_count, other.member_id, other.lock_until_ms)


class SharePartition:
    """One partition of one share group. `dead` are records given up that nobody has taken away yet."""

    def __init__(self, delivery_count_limit: Callable[[], int]) -> None:
        self._delivery_count_limit = delivery_count_limit
        self.start_offset = UNINITIALIZED
        self.end_offset = UNINITIALIZED  # the first offset that was never acquired
        self.dead: list[DeadLetters] = []
        self._runs: list[RecordRun] = []

    def begin(self, start_offset: int, batches: Iterable[StateBatch] = ()) -> None:
        """Begin at an offset, with the stored states of the records after it."""
        self.start_offset = self.end_offset = start_offset
        self._runs = []
        for batch in sorted(batches):
            if batch.last < self.end_offset:
                continue
            first = max(batch.first, self.end_offset)
            self._extend(first - 1)
            self._runs.append(RecordRun(first, batch.last, batch.state, batch.delivery_count))
            self.end_offset = batch.last + 1
        self._move_start()

    # --- state ------------------------------------------------------------------------------------------

    @property
    def next_offset(self) -> int:
        """Where to read for the next member: the first available record, else after all in flight."""
        available = (run.first for run in self._runs if run.state is RecordState.AVAILABLE)
        return next(available, self.end_offset)

    @property
    def in_flight(self) -> int:
        """The number of offsets between start and end."""
        return self.end_offset - self.start_offset

    @property
    def done_count(self) -> int:
        """The number of records in flight that are acknowledged or archived."""
        return sum(run.count for run in self._runs if run.state in IS_DONE)

    def can_acquire(self, in_flight_max: int) -> bool:
        """Whether a member may acquire records, if the log has them."""
        return self.next_offset != self.end_offset or self.in_flight < in_flight_max

    def locked_until(self) -> int | None:
        """Return when the next lock runs out; None if there is none."""
        return min(
            (run.lock_until_ms for run in self._runs if run.state is RecordState.ACQUIRED), default=None
        )

    def state_batches(self) -> list[StateBatch]:
        """Return the states to store. A delivery that is under way does not count yet, as in Kafka."""
        return list(_stored(self._runs))

    def runs(self) -> Sequence[RecordRun]:
        """Return all runs, in order."""
        return tuple(self._runs)

    # --- acquiring --------------------------------------------------------------------------------------

    def acquire(
        self, member_id: str, read_offset: int, read: ReadBatches, limits: AcquireLimits
    ) -> list[AcquiredRange]:
        """Lock available records in the batches that were read from `read_offset` on; return their offsets.

        Offsets that were read and are in no batch are archived: the log does not have them any more, or they
        are not delivered to members.
        """
        acquired: list[AcquiredRange] = []
        expected, count = max(read_offset, self.start_offset), 0
        for base, last in read.spans:
            room = limits.record_count - count
            if room <= 0 or (base >= self.end_offset and self.in_flight >= limits.in_flight):
                break
            first = max(base, expected)
            self._archive(expected, first - 1)
            for offsets in self._acquire(member_id, first, last, room, limits):
                acquired.append(offsets)
                count += offsets.last - offsets.first + 1
            expected = max(expected, last + 1)
        else:
            self._archive(expected, read.end_offset - 1)
        self._tidy()
        return _joined(acquired)

    def _archive(self, first: int, last: int) -> None:
        """Archive offsets that the log does not have."""
        if first <= last:
            self._extend(last)
            self._change(first, last, RecordEvent.MISSING, RecordState.AVAILABLE)

    def _acquire(
        self, member_id: str, first: int, last: int, room: int, limits: AcquireLimits
    ) -> Iterator[AcquiredRange]:
        """Lock the available records of one batch. A strict limit cuts the batch."""
        if last >= self.end_offset:
            end = last
            if limits.is_strict:
                room_behind = limits.in_flight - self.in_flight
                missing = min(room - self._available(first), room_behind)
                end = min(last, max(self.end_offset, first) + missing - 1)
            self._extend(end)
        for run in self._within(first, min(last, self.end_offset - 1)):
            if run.state is not RecordState.AVAILABLE:
                continue
            if limits.is_strict and run.count > room:
                self._cut(run.first + room)
            if room <= 0:
                return
            room -= run.count if limits.is_strict else 0
            run.state = TRANSITIONS[run.state][RecordEvent.ACQUIRED]
            run.delivery_count += 1
            run.member_id, run.lock_until_ms = member_id, limits.lock_until_ms
            yield AcquiredRange(run.first, run.last, run.delivery_count)

    def _available(self, first: int) -> int:
        return sum(
            run.count
            for run in self._within(first, self.end_offset - 1)
            if run.state is RecordState.AVAILABLE
        )

    # --- acknowledging ----------------------------------------------------------------------------------

    def acknowledge(self, member_id: str, ranges: Sequence[AcknowledgedRange], lock_until_ms: int) -> None:
        """Apply a member's acknowledgements, all or none. `lock_until_ms` is for renewed locks.

        Offsets before the start are done already, and ignored. Raises KafkaError 121 if the member does not
        hold a record (any more), and 42 for offsets that were never given out.
        """
        wanted = [item._replace(first=max(item.first, self.start_offset)) for item in ranges]
        wanted = [item for item in wanted if item.first <= item.last]
        for item in wanted:
            self._check(member_id, item)
        for item in wanted:
            self._change(item.first, item.last, _EVENTS[item.kind], RecordState.ACQUIRED, lock_until_ms)
        self._tidy()

    def _check(self, member_id: str, item: AcknowledgedRange) -> None:
        if item.last >= self.end_offset:
            reason = f"offsets {item.first} to {item.last}: nothing from {self.end_offset} on was given out"
            raise KafkaError(Code.INVALID_REQUEST, reason)
        for run in self._overlapping(item.first, item.last):
            if run.state is not RecordState.ACQUIRED or run.member_id != member_id:
                reason = f"offsets {run.first} to {run.last} are not held by member {member_id!r}"
                raise KafkaError(Code.INVALID_RECORD_STATE, reason)

    def release(self, member_id: str) -> bool:
        """Release the records of a member that has left. Returns whether it held any."""
        held = [run for run in self._runs if run.state is RecordState.ACQUIRED and run.member_id == member_id]
        return self._release(held)

    def expire_locks(self, now_ms: int) -> bool:
        """Release records whose lock has run out. Returns whether there were any."""
        late = [
            run for run in self._runs if run.state is RecordState.ACQUIRED and run.lock_until_ms <= now_ms
        ]
        return self._release(late)

    def _release(self, held: Sequence[RecordRun]) -> bool:
        for run in held:
            self._change(run.first, run.last, RecordEvent.RELEASED, RecordState.ACQUIRED)
        self._tidy()
        return bool(held)

    def log_begins_at(self, offset: int) -> bool:
        """Go on at `offset`: the log has no older records any more. Returns whether anything changed."""
        if self.start_offset == UNINITIALIZED or offset <= self.start_offset:
            return False
        self._extend(offset - 1)
        self._cut(offset)
        self._runs = [run for run in self._runs if run.first >= offset]
        self.start_offset = offset
        self._move_start()
        return True

    # --- runs -------------------------------------------------------------------------------------------

    def _change(
        self, first: int, last: int, event: RecordEvent, only: RecordState, lock_until_ms: int = 0
    ) -> None:
        """Apply an event to the records of a range that are in the state `only`."""
        for run in self._within(first, last):
            if run.state is not only:
                continue
            happened = event
            if event is RecordEvent.RELEASED and run.delivery_count >= self._delivery_count_limit():
                happened = RecordEvent.EXHAUSTED
            run.state = TRANSITIONS[run.state][happened]
            if happened is RecordEvent.RENEWED:
                run.lock_until_ms = lock_until_ms
                continue
            run.member_id, run.lock_until_ms = "", 0
            if happened in (RecordEvent.REJECTED, RecordEvent.EXHAUSTED):
                self.dead.append(DeadLetters(run.first, run.last, run.delivery_count, happened))

    def _extend(self, last: int) -> None:
        """Extend the records in flight up to `last`."""
        if last >= self.end_offset:
            self._runs.append(RecordRun(self.end_offset, last, RecordState.AVAILABLE))
            self.end_offset = last + 1

    def _within(self, first: int, last: int) -> list[RecordRun]:
        """Cut the runs at the ends of a range, and return those within it."""
        if first > last:
            return []
        begin = self._cut(first)
        return self._runs[begin : self._cut(last + 1)]

    def _overlapping(self, first: int, last: int) -> Iterator[RecordRun]:
        """Yield the runs with offsets in a range, without cutting them."""
        at = max(bisect_right(self._runs, first, key=attrgetter("first")) - 1, 0)
        while at < len(self._runs) and self._runs[at].first <= last:
            yield self._runs[at]
            at += 1

    def _cut(self, offset: int) -> int:
        """Cut so that a run begins at `offset`, and return its index."""
        at = bisect_right(self._runs, offset, key=attrgetter("first")) - 1
        if at < 0:
            return 0
        run = self._runs[at]
        if run.first == offset:
            return at
        if run.last < offset:
            return at + 1
        self._runs.insert(at + 1, replace(run, first=offset))
        run.last = offset - 1
        return at + 1

    def _tidy(self) -> None:
        """Join runs that are alike, and move the start offset past records that are done."""
        joined: list[RecordRun] = []
        for run in self._runs:
            if joined and run.continues(joined[-1]):
                joined[-1].last = run.last
            else:
                joined.append(run)
        self._runs = joined
        self._move_start()

    def _move_start(self) -> None:
        done = 0
        while done < len(self._runs) and self._runs[done].state in IS_DONE:
            self.start_offset = self._runs[done].last + 1
            done += 1
        del self._runs[:done]


def _joined(ranges: Iterable[AcquiredRange]) -> list[AcquiredRange]:
    """Join adjacent ranges with the same delivery count."""
    joined: list[AcquiredRange] = []
    for item in ranges:
        before = joined[-1] if joined else None
        if before and before.last + 1 == item.first and before.delivery_count == item.delivery_count:
            joined[-1] = before._replace(last=item.last)
        else:
            joined.append(item)
    return joined


def _stored(runs: Iterable[RecordRun]) -> Iterator[StateBatch]:
    for run in runs:
        if run.state in IS_DONE:
            yield StateBatch(run.first, run.last, run.state, run.delivery_count)
            continue
        count = run.delivery_count - (run.state is RecordState.ACQUIRED)
        if count:
            yield StateBatch(run.first, run.last, RecordState.AVAILABLE, count)
