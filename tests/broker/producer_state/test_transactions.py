"""Transactions in one partition: last stable offset and aborted transactions, against a simple model."""

from __future__ import annotations

from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from random import Random

import pytest

from ottla.broker.producer_state import save
from ottla.log import producer_snapshots
from ottla.log.end_markers import EndMarker, marker_batch, read_marker
from ottla.log.log_config import DAY_MS, LogConfig
from ottla.log.undecided import StoredAbort
from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError
from tests.log.faulty_files import QuickFiles
from tests.log.record_sets import NOW, names
from tests.log.transactional_log import TransactionalLog
from tests.scale import seeded, sized

# --- single cases ---------------------------------------------------------------------------------------


def test_a_transaction_is_unstable_until_its_marker_is_written(tmp_path: Path) -> None:
    one = TransactionalLog(tmp_path / "t-0")
    one.stage(b"before")
    one.stage(b"a", 7)
    one.write()
    one.stage(b"behind")
    one.write()
    assert (one.stable, one.committed(0)) == (1, [(0, b"before")])
    marker = one.end(7, is_commit=True)
    assert one.stable == 1, "it is only staged"
    one.write()
    assert (marker, one.stable) == (3, 4)
    assert one.committed(0) == [(0, b"before"), (1, b"a"), (2, b"behind")]


def test_an_aborted_transaction_is_told_by_its_records_and_is_in_the_file(tmp_path: Path) -> None:
    one = TransactionalLog(tmp_path / "t-0", LogConfig())
    one.stage(b"a", 7)  # 0
    one.stage(b"b", 8)  # 1
    one.stage(b"c")  # 2
    one.end(7, is_commit=False)  # 3: from 1 on all is open
    one.end(8, is_commit=False)  # 4
    one.write()
    expected = [StoredAbort(7, 0, 3, 1), StoredAbort(8, 1, 4, 5)]
    assert one.log.aborted(0, 1 << 20, one.stable) == expected
    assert one.log.aborted(4, 1 << 20, one.stable) == expected[1:]
    assert one.committed(0) == [(2, b"c")]
    data = (tmp_path / "t-0" / f"{0:020d}.txnindex").read_bytes()
    assert data[:34] == b"\0\0" + b"".join(number.to_bytes(8, "big") for number in (7, 0, 3, 1))
    assert len(data) == 2 * 34


def test_a_marker_without_a_transaction_leaves_no_trace_but_its_epochs(tmp_path: Path) -> None:
    one = TransactionalLog(tmp_path / "t-0")
    one.end(7, is_commit=False)
    one.write()
    assert not any(name.endswith(".txnindex") for name in names(one.path))
    with pytest.raises(KafkaError) as refused:
        one.states.check_marker(EndMarker(7, 0, -1, is_commit=True))
    assert refused.value.code == Code.TRANSACTION_COORDINATOR_FENCED


@pytest.mark.parametrize(
    ("marker", "code"),
    [
        (EndMarker(7, 4, 9, is_commit=True), Code.INVALID_PRODUCER_EPOCH),
        (EndMarker(7, 5, 2, is_commit=True), Code.TRANSACTION_COORDINATOR_FENCED),
        (EndMarker(7, 5, 3, is_commit=True), None),
        (EndMarker(7, 5, 3, is_commit=True, transaction_version=2), Code.INVALID_PRODUCER_EPOCH),
        (EndMarker(7, 6, 3, is_commit=True, transaction_version=2), None),
    ],
)
def test_markers_of_those_that_were_replaced_are_refused(
    tmp_path: Path, marker: EndMarker, code: Code | None
) -> None:
    one = TransactionalLog(tmp_path / "t-0")
    one.states.stage_marker(EndMarker(7, 5, 3, is_commit=True), NOW)
    one.stage(b"a", 7)
    if code is None:
        one.states.check_marker(marker)
        return
    with pytest.raises(KafkaError) as refused:
        one.states.check_marker(marker)
    assert refused.value.code == code


def test_a_late_marker_of_version_2_does_not_end_the_next_transaction(tmp_path: Path) -> None:
    """The same marker twice: the coordinator did not see that it was written."""
    one = TransactionalLog(tmp_path / "t-0")
    one.stage(b"a", 7)
    marker = EndMarker(7, 1, 0, is_commit=True, transaction_version=2)
    one.states.stage_marker(marker, NOW)
    one.states.check_marker(marker)
    one.stage(b"b", 7)
    with pytest.raises(KafkaError, match="of the transaction before"):
        one.states.check_marker(marker)


def test_a_producer_with_an_open_transaction_does_not_expire(tmp_path: Path) -> None:
    one = TransactionalLog(tmp_path / "t-0")
    one.stage(b"a", 7)
    one.stage(b"b", 8, transactional=False)
    one.write()
    assert one.states.expire(NOW + 9 * DAY_MS, DAY_MS) == 1
    assert set(one.states.ids) == {7}
    one.end(7, is_commit=True)
    one.write()
    assert one.states.expire(NOW + 9 * DAY_MS, DAY_MS) == 1


def test_a_marker_is_written_and_read_as_kafka_has_it() -> None:
    marker = EndMarker(7, 3, 12, is_commit=False)
    data, (header,), _ = marker_batch(marker, NOW)
    assert header.is_control
    assert (header.record_count, header.base_sequence, header.last_offset) == (1, -1, 0)
    assert bytes(data[-17:]) == b"\x20\0\0\0\x08\0\0\0\0\x0c\0\0\0\0\0\x0c\0"
    assert read_marker(data, header) == marker


def test_a_snapshot_tells_of_a_transaction_that_began_before_what_is_read(tmp_path: Path) -> None:
    """The walk begins in the middle of it, and must not take that for its beginning."""
    one = TransactionalLog(tmp_path / "t-0", LogConfig(index_interval_bytes=0))
    one.stage(b"first", 7)
    for _ in range(300):
        one.stage(b"x" * 1000, 7)
        one.stage(b"x" * 1000)
        one.write()
    one.reopen(is_clean=True)
    assert producer_snapshots.newest_offset(one.path) == one.log.high_watermark
    assert one.states.first_unstable == 0
    one.end(7, is_commit=False)
    one.write()
    assert one.log.aborted(0, 100, one.stable) == [StoredAbort(7, 0, 601, 602)]
    one.reopen(is_clean=True)
    assert (one.states.first_unstable, one.log.has_aborts) == (-1, True)


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_producer_goes_on_though_of_its_batches_only_the_marker_is_read(
    tmp_path: Path, *, is_clean: bool
) -> None:
    """Those before it are known to the snapshot alone."""
    one = TransactionalLog(tmp_path / "t-0", LogConfig(segment_bytes=100_000, index_interval_bytes=200))
    one.stage(b"of a long transaction", 1)
    for _ in range(200):
        one.stage(bytes(1000), 2, transactional=False)
        one.write()
    assert save(one.states, one.log)
    one.end(1, is_commit=True)
    one.write()
    before = one.states.get(1)
    one.reopen(is_clean=is_clean)
    assert one.states.get(1) == before
    one.stage(b"the next", 1)
    assert one.write()


@pytest.mark.parametrize("is_damaged", [False, True])
def test_the_index_of_aborts_is_made_anew_after_a_crash_and_when_it_is_damaged(
    tmp_path: Path, is_damaged: bool
) -> None:
    one = TransactionalLog(tmp_path / "t-0")
    one.stage(b"begins in the first segment", 7)
    for number in range(40):
        one.stage(b"y" * 50)
        one.stage(b"z" * 50, 8)
        one.end(8, is_commit=number % 2 == 0)
        one.write()
    one.end(7, is_commit=False)
    one.write()
    assert len(one.log.segments) > 5
    expected = [segment.aborted.entries() for segment in one.log.segments]
    wanted = one.committed(0)
    for segment in one.log.segments:
        path = segment.path_of(".txnindex")
        if path.exists():
            path.write_bytes(path.read_bytes()[:-1] if is_damaged else b"")
    if not is_damaged:
        one.log.recovery_point = 0
    one.reopen(is_clean=is_damaged)
    assert [segment.aborted.entries() for segment in one.log.segments] == expected
    assert one.committed(0) == wanted


# --- any order of events --------------------------------------------------------------------------------


@dataclass
class Expected:
    """What was written: (offset, value, transaction), and how the transactions ended."""

    records: list[tuple[int, bytes, int]]
    outcomes: dict[int, bool | None]  # by number: committed, aborted or open
    spans: dict[int, tuple[int, int, int]]  # producer, first record and marker of those that were aborted

    def first_open(self) -> int | None:
        return min((at for at, _, txn in self.records if self.outcomes.get(txn, True) is None), default=None)


class Walk:
    """Random transactions of a few producers in a log of small segments, with failed writes and restarts."""

    def __init__(self, path: Path, random: Random) -> None:
        self.random = random
        self.one = TransactionalLog(path)
        self.expected = Expected([], {}, {})
        self.open: dict[int, int] = {}  # transactions by producer
        self.count = 0

    def turn(self) -> None:
        """Some appends and markers, written together or not at all."""
        before = Expected([*self.expected.records], {**self.expected.outcomes}, {**self.expected.spans})
        open_before = dict(self.open)
        for _ in range(self.random.randrange(1, 6)):
            self._stage()
        if self.random.random() < 0.15:
            self.one.disk.room = self.random.randrange(300)
        if not self.one.write():
            self.expected, self.open = before, open_before
        self.one.disk.room = 1 << 60

    def _stage(self) -> None:
        producer = self.random.randrange(4)
        value = self.random.randbytes(self.random.randrange(1, 120))
        if self.random.random() < 0.25:
            self.expected.records.append((self.one.stage(value), value, -1))
        elif producer in self.open and self.random.random() < 0.4:
            self._end(producer)
        else:
            if producer not in self.open:
                self.count += 1
                self.open[producer] = self.count
                self.expected.outcomes[self.count] = None
            self.expected.records.append((self.one.stage(value, producer), value, self.open[producer]))

    def _end(self, producer: int) -> None:
        number = self.open.pop(producer)
        is_commit = self.random.random() < 0.5
        at = self.one.end(producer, is_commit=is_commit, epochs=self.random.randrange(2))
        self.expected.outcomes[number] = is_commit
        if not is_commit:
            first = min(offset for offset, _, txn in self.expected.records if txn == number)
            self.expected.spans[number] = (producer, first, at)

    def reopen(self) -> None:
        self.one.reopen(is_clean=self.random.random() < 0.5)

    def flush(self) -> None:
        self.one.log.flush()

    def snapshot(self) -> None:
        log = self.one.log
        known = producer_snapshots.Snapshot(log.high_watermark, self.one.states.entries())
        producer_snapshots.write(log.path, known, QuickFiles())

    def delete(self) -> None:
        self.one.log.delete_records(self.random.randrange(self.one.log.start_offset, self.one.stable + 1))
        self.one.log.purge()

    def check(self) -> None:
        one, expected = self.one, self.expected
        first = expected.first_open()
        assert one.stable == (one.log.high_watermark if first is None else first)
        start = one.log.start_offset
        start = self.random.randrange(start, max(one.stable, start) + 1)
        wanted = [
            (offset, value)
            for offset, value, txn in expected.records
            if start <= offset < one.stable and expected.outcomes.get(txn, True)
        ]
        assert one.committed(start, self.random.choice([1, 300, 1 << 20])) == wanted
        indexed = [item[:3] for segment in one.log.segments for item in segment.aborted.entries()]
        oldest = one.log.segments[0].base_offset
        assert indexed == sorted(
            (span for span in expected.spans.values() if span[2] >= oldest), key=itemgetter(2)
        )


@pytest.mark.parametrize("history", range(sized(6, 60)))
def test_random_transactions(tmp_path: Path, history: int) -> None:
    random = seeded(f"transactions {history}")
    walk = Walk(tmp_path / "t-0", random)
    steps = [walk.turn] * 8 + [walk.reopen, walk.flush, walk.snapshot]
    if history % 2:
        steps.append(walk.delete)
    for _ in range(sized(100, 300)):
        random.choice(steps)()
        walk.check()
