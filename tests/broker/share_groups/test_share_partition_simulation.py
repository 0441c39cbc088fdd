"""Random histories of a share partition, beside a naive model with one entry for each offset.

No record is held by two members, none is lost, none is delivered more often than the limit says, and the
start offset never passes a record that is not done. A seed replays a history exactly.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from ottla.broker.share_groups.core.acknowledgements import AcknowledgedRange, AcknowledgeType
from ottla.broker.share_groups.core.record_state import IS_DONE, RecordState
from ottla.broker.share_groups.core.records import ShareKey, ShareState, read, snapshot_record
from ottla.broker.share_groups.core.share_partition import (
    AcquireLimits,
    ReadBatches,
    SharePartition,
)
from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError
from tests.scale import REPLAY, seeded, sized

LIMIT = 3
LOCK_MS = 100
MEMBERS = ("a", "b", "c")
SEEDS = sized(300, 20_000)
KEY = ShareKey("group", bytes(range(16)), 0)


@dataclass
class NaiveRecord:
    """One offset; `holder` has it until `until_ms`."""

    state: RecordState = RecordState.AVAILABLE
    deliveries: int = 0
    stored_deliveries: int = 0
    holder: str = ""
    until_ms: int = 0
    accepted_by: list[str] = field(default_factory=list)

    def give_back(self) -> None:
        self.holder, self.until_ms = "", 0
        self.state = RecordState.ARCHIVED if self.deliveries >= LIMIT else RecordState.AVAILABLE
        self.stored_deliveries = self.deliveries


class History:
    """A log that grows, batches in it, members that do what they like, and restarts."""

    def __init__(self, number: int) -> None:
        self.random = seeded(f"share partition {number}")
        self.now_ms = 0
        self.log_start = 0
        self.batches: list[tuple[int, int]] = []
        self.gaps: set[int] = set()
        self.naive: dict[int, NaiveRecord] = {}
        self.partition = self.made()
        self.partition.begin(0)

    def made(self) -> SharePartition:
        return SharePartition(lambda: LIMIT)

    @property
    def log_end(self) -> int:
        return self.batches[-1][1] + 1 if self.batches else 0

    def run(self, step_count: int) -> None:
        steps = (self.produce, self.fetch, self.fetch, self.answer, self.answer, self.pass_time)
        rare = (self.leave, self.restart, self.retain, self.answer_wrongly)
        for _ in range(step_count):
            self.random.choice(rare if self.random.random() < 0.1 else steps)()
            self.check()

    def produce(self) -> None:
        first = self.log_end
        if self.random.random() < 0.2:  # offsets that no batch has: a marker, or compacted away
            count = self.random.randint(1, 3)
            self.gaps.update(range(first, first + count))
            first += count
        last = first + self.random.randint(0, 9)
        self.batches.append((first, last))
        for offset in range(first, last + 1):
            self.naive[offset] = NaiveRecord()

    def fetch(self) -> None:
        offset = self.partition.next_offset
        spans = [span for span in self.batches if span[1] >= max(offset, self.log_start)]
        spans = spans[: self.random.randint(1, 4)]
        if not spans or not self.partition.can_acquire(40):
            return
        member = self.random.choice(MEMBERS)
        wanted, is_strict = self.random.randint(1, 15), self.random.random() < 0.5
        limits = AcquireLimits(wanted, 40, self.now_ms + LOCK_MS, is_strict)
        acquired = self.partition.acquire(member, offset, ReadBatches(spans, spans[-1][1] + 1), limits)
        if is_strict:
            assert sum(item.last - item.first + 1 for item in acquired) <= wanted
        for item in acquired:
            for taken in range(item.first, item.last + 1):
                record = self.naive[taken]  # KeyError: an offset that is in no batch was given out
                assert record.state is RecordState.AVAILABLE, f"{taken} is held by {record.holder}"
                record.state, record.holder, record.until_ms = (
                    RecordState.ACQUIRED,
                    member,
                    limits.lock_until_ms,
                )
                record.deliveries += 1
                assert record.deliveries == item.delivery_count <= LIMIT

    def held(self, member: str) -> list[int]:
        return [offset for offset, record in self.naive.items() if record.holder == member]

    def answer(self) -> None:
        member = self.random.choice(MEMBERS)
        offsets = self.held(member)
        if not offsets:
            return
        first = self.random.choice(offsets)
        last = first
        while last + 1 in offsets and self.random.random() < 0.8:
            last += 1
        kind = self.random.choice(list(AcknowledgeType))
        self.partition.acknowledge(member, [AcknowledgedRange(first, last, kind)], self.now_ms + LOCK_MS)
        for offset in range(first, last + 1):
            self.settle(self.naive[offset], member, kind)

    def settle(self, record: NaiveRecord, member: str, kind: AcknowledgeType) -> None:
        match kind:
            case AcknowledgeType.RENEW:
                record.until_ms = self.now_ms + LOCK_MS
            case AcknowledgeType.RELEASE:
                record.give_back()
            case AcknowledgeType.ACCEPT:
                record.accepted_by.append(member)
                record.state, record.holder = RecordState.ACKNOWLEDGED, ""
            case _:
                record.state, record.holder = RecordState.ARCHIVED, ""

    def answer_wrongly(self) -> None:
        """A member answers for records that it does not hold: nothing changes."""
        member = self.random.choice(MEMBERS)
        first, end = self.partition.start_offset, self.partition.end_offset
        others = [offset for offset in range(first, end) if offset not in self.held(member)]
        if others:
            before = self.partition.runs()
            states = [(run.first, run.last, run.state, run.member_id) for run in before]
            wrong = AcknowledgedRange(first, max(others), AcknowledgeType.ACCEPT)
            with pytest.raises(KafkaError) as caught:
                self.partition.acknowledge(member, [wrong], 0)
            assert caught.value.code == Code.INVALID_RECORD_STATE
            after = [(run.first, run.last, run.state, run.member_id) for run in self.partition.runs()]
            assert after == states
        with pytest.raises(KafkaError):
            self.partition.acknowledge(member, [AcknowledgedRange(end, end, AcknowledgeType.ACCEPT)], 0)

    def pass_time(self) -> None:
        self.now_ms += self.random.randint(1, LOCK_MS)
        late = [record for record in self.naive.values() if record.holder and record.until_ms <= self.now_ms]
        assert self.partition.expire_locks(self.now_ms) == bool(late)
        for record in late:
            record.give_back()

    def leave(self) -> None:
        member = self.random.choice(MEMBERS)
        offsets = self.held(member)
        assert self.partition.release(member) == bool(offsets)
        for offset in offsets:
            self.naive[offset].give_back()

    def restart(self) -> None:
        """Only what is stored comes back: locks are gone, and the deliveries that were under way."""
        state = ShareState(self.partition.start_offset, self.partition.state_batches())
        entry = read(snapshot_record(KEY, state, self.partition.done_count, self.now_ms))
        assert entry is not None
        assert entry[0] == KEY
        assert entry[1] is not None
        self.partition = self.made()
        self.partition.begin(entry[1].start_offset, entry[1].batches)
        for record in self.naive.values():
            if record.holder:
                record.state, record.holder, record.until_ms = RecordState.AVAILABLE, "", 0
                record.deliveries = record.stored_deliveries

    def retain(self) -> None:
        if self.random.random() < 0.3 and self.log_end > self.log_start:
            self.log_start = self.random.randint(self.log_start, self.log_end)
            self.partition.log_begins_at(self.log_start)
            for offset in [offset for offset in self.naive if offset < self.log_start]:
                del self.naive[offset]
            self.batches = [
                (max(first, self.log_start), last) for first, last in self.batches if last >= self.log_start
            ] or [(self.log_start, self.log_start - 1)]

    def check(self) -> None:
        expected = self.partition.start_offset
        for run in self.partition.runs():
            assert run.first == expected <= run.last
            expected = run.last + 1
            for offset in range(run.first, run.last + 1):
                record = self.naive.get(offset)
                if record is not None:
                    assert (run.state, run.member_id) == (record.state, record.holder), offset
                    assert run.state in IS_DONE or run.delivery_count == record.deliveries, offset
        assert expected == self.partition.end_offset
        for offset, record in self.naive.items():
            assert len(record.accepted_by) <= 1
            if offset < self.partition.start_offset:
                assert record.state in IS_DONE, f"the start offset passed {offset}"
            if offset >= self.partition.end_offset:
                assert record.state is RecordState.AVAILABLE

    def finish(self) -> None:
        """Members accept all that is left: then everything is done, and nothing was lost."""
        for _ in range(10_000):
            self.now_ms += LOCK_MS
            self.pass_time()
            self.fetch()
            for member in MEMBERS:
                for offset in self.held(member):
                    self.partition.acknowledge(
                        member, [AcknowledgedRange(offset, offset, AcknowledgeType.ACCEPT)], 0
                    )
                    self.settle(self.naive[offset], member, AcknowledgeType.ACCEPT)
            if self.partition.start_offset >= self.log_end:
                break
        assert all(record.state in IS_DONE for record in self.naive.values())
        self.check()


def test_histories_agree_with_a_naive_model() -> None:
    for number in range(SEEDS):
        history = History(number)
        try:
            history.run(60)
            history.finish()
        except (AssertionError, KeyError, KafkaError) as error:
            raise AssertionError(f"{REPLAY}, history {number}: {error}") from error
