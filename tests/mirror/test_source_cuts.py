"""Cuts of a source whose producers, coordinators and readers take turns at random divide no transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from random import Random

import pytest

from ottla import TopicAndPartition
from ottla.mirror import source_cuts
from ottla.mirror.source_cuts import CutSearch, Logs, LogSpans, Offsets, Span, greatest_cut
from ottla.records.transactions import ABORT_MARKER, COMMIT_MARKER, TransactionStep
from tests.scale import REPLAY, seeded, sized

HISTORIES = sized(20, 20_000)
STEPS = 400


@dataclass
class Transaction:
    """What was written where, by partition; `decision` is the marker that is being written."""

    writes: dict[TopicAndPartition, list[int]] = field(default_factory=dict)
    decision: int | None = None
    unmarked: list[TopicAndPartition] = field(default_factory=list)


class Writer:
    """A producer with its coordinator. Before KIP-890 it keeps its epoch."""

    def __init__(self, number: int, *, is_old: bool) -> None:
        self.number = number
        self.is_old = is_old
        self.epoch = 0
        self.current = Transaction()


class World:
    """Logs that grow by a few steps before each answer. It answers as a source does."""

    def __init__(self, chance: Random) -> None:
        self.chance = chance
        self.partitions = [TopicAndPartition("t", each) for each in range(chance.randint(1, 5))]
        self.logs: dict[TopicAndPartition, list[TransactionStep | None]] = {
            each: [] for each in self.partitions
        }
        self.first_open: dict[TopicAndPartition, dict[int, int]] = {each: {} for each in self.partitions}
        self.writers = [Writer(each, is_old=chance.random() < 0.5) for each in range(chance.randint(1, 4))]
        self.haste = chance.choice([0, 1, 5, 20])
        self.decided: list[Transaction] = []
        self.tells_states = chance.random() < 0.8

    # --- what happens

    def step(self) -> None:
        chance, writer = self.chance, self.chance.choice(self.writers)
        current, partition = writer.current, chance.choice(self.partitions)
        log = self.logs[partition]
        if current.unmarked:
            self._mark(writer, current.unmarked.pop(chance.randrange(len(current.unmarked))))
        elif chance.random() < 0.1:
            log.append(None)  # a record without a transaction
        elif current.writes and chance.random() < 0.3:
            current.decision = chance.choice([COMMIT_MARKER, COMMIT_MARKER, ABORT_MARKER])
            current.unmarked = list(current.writes)
            self.decided.append(current)
        else:
            self.first_open[partition].setdefault(writer.number, len(log))
            current.writes.setdefault(partition, []).append(len(log))
            log.append(TransactionStep(writer.number, writer.epoch, len(log), len(log), None))

    def _mark(self, writer: Writer, partition: TopicAndPartition) -> None:
        current, log = writer.current, self.logs[partition]
        epoch = writer.epoch + (not writer.is_old)
        log.append(TransactionStep(writer.number, epoch, len(log), len(log), current.decision))
        del self.first_open[partition][writer.number]
        if not current.unmarked:
            writer.current, writer.epoch = Transaction(), epoch

    def _go_on(self) -> None:
        for _ in range(self.chance.randint(0, self.haste)):
            self.step()

    def settle(self) -> None:
        """Let every transaction be decided and marked."""
        for writer in self.writers:
            if writer.current.writes and writer.current.decision is None:
                writer.current.decision = COMMIT_MARKER
                writer.current.unmarked = list(writer.current.writes)
                self.decided.append(writer.current)
            while writer.current.unmarked:
                self._mark(writer, writer.current.unmarked.pop())

    # --- what it answers

    def stable(self, partitions: Iterable[TopicAndPartition]) -> dict[TopicAndPartition, int]:
        found = {}
        for each in partitions:
            self._go_on()
            found[each] = min(self.first_open[each].values(), default=len(self.logs[each]))
        return found

    def ends(self, partitions: Iterable[TopicAndPartition]) -> dict[TopicAndPartition, int]:
        found = {}
        for each in partitions:
            self._go_on()
            found[each] = len(self.logs[each])
        return found

    def read_on(self, logs: Logs, ends: Offsets) -> bool:
        for each, spans in logs.items():
            self._go_on()
            for step in self.logs[each][spans.end : max(ends[each], spans.end)]:
                if step is not None:
                    spans.see(step)
            spans.end = max(ends[each], spans.end)
        return True

    def settled(self, producer_ids: Iterable[int]) -> frozenset[int]:
        self._go_on()
        wanted = set(producer_ids) if self.tells_states else set[int]()
        return frozenset(
            each.number for each in self.writers if each.number in wanted and not each.current.unmarked
        )

    # --- what must hold

    def divided(self, cut: Offsets) -> list[Transaction]:
        """Committed transactions that are partly before the cut, and undecided ones that are before it."""
        found = []
        for one in [*self.decided, *(each.current for each in self.writers)]:
            before = {offset < cut[each] for each, offsets in one.writes.items() for offset in offsets}
            may_be = {True, False} if one.decision == COMMIT_MARKER else {False}
            if one.decision != ABORT_MARKER and (len(before) > 1 or not before <= may_be):
                found.append(one)
        return found


def play(chance: Random) -> int:
    """Take cuts of a random history until all of it is copied; how many cuts moved. Asserts that all hold."""
    world, moves = World(chance), 0
    search = CutSearch(world)
    positions: dict[TopicAndPartition, int] = dict.fromkeys(world.partitions, 0)
    last: Offsets = positions
    for number in range(STEPS):
        world.step()
        if chance.random() < 0.1 or number == STEPS - 1:
            if number == STEPS - 1:
                world.haste = 0
                world.settle()
            cut = search.cut(positions, is_patient=True)
            assert cut.is_whole
            assert all(cut.offsets[each] >= last[each] for each in last), "copied records are behind the cut"
            assert not world.divided(cut.offsets), REPLAY
            moves += cut.offsets != last
            last = cut.offsets
            # A partition may not have reached the cut yet when the next one is taken.
            positions = {
                each: end if chance.random() < 0.7 or number == STEPS - 1 else positions[each]
                for each, end in cut.offsets.items()
            }
    assert positions == {each: len(log) for each, log in world.logs.items()}, "it stands still"
    return moves


def play_many(count: int) -> int:
    chance = seeded("cuts")
    return sum(play(chance) for _ in range(count))


@pytest.mark.timeout(sized(300, 7_200))
def test_no_cut_divides_a_transaction() -> None:
    assert play_many(HISTORIES) > 3 * HISTORIES


def no_lowering(patches: pytest.MonkeyPatch) -> None:
    patches.setattr(source_cuts, "greatest_cut", lambda stable, *_others: dict(stable))


def one_pass(patches: pytest.MonkeyPatch) -> None:
    """What is moved back for one transaction divides another."""
    calls = iter(range(10**9))
    right = source_cuts._is_divided
    patches.setattr(source_cuts, "_is_divided", lambda cut, unit: next(calls) % 2 == 0 and right(cut, unit))


def markers_are_there(patches: pytest.MonkeyPatch) -> None:
    """A transaction without a marker is taken for the next one."""
    patches.setattr(World, "settled", lambda _world, producer_ids: frozenset(producer_ids))


def ends_before_stable(patches: pytest.MonkeyPatch) -> None:
    """The ends are asked first: records between the two questions are taken for later ones."""
    right = World.stable
    kept: dict[World, dict[TopicAndPartition, int]] = {}

    def stable(world: World, partitions: Iterable[TopicAndPartition]) -> dict[TopicAndPartition, int]:
        kept[world] = {each: len(log) for each, log in world.logs.items()}
        return right(world, partitions)

    patches.setattr(World, "stable", stable)
    patches.setattr(World, "ends", lambda world, _partitions: kept[world])


@pytest.mark.parametrize("plant", [no_lowering, one_pass, markers_are_there, ends_before_stable])
def test_a_planted_tear_is_found(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        play_many(10_000)


# --- by hand

FIRST, SECOND = TopicAndPartition("t", 0), TopicAndPartition("t", 1)


def spans(*steps: tuple[int, int, int | None]) -> LogSpans:
    """Producer, epoch and marker of each batch, which has one record."""
    log = LogSpans(0)
    for offset, (producer_id, epoch, marker) in enumerate(steps):
        log.see(TransactionStep(producer_id, epoch, offset, offset, marker))
    log.end = len(steps)
    return log


def test_a_marker_that_is_late() -> None:
    logs = {FIRST: spans((1, 0, None), (1, 1, COMMIT_MARKER)), SECOND: spans((1, 0, None))}
    cut = greatest_cut({FIRST: 2, SECOND: 0}, {FIRST: 2, SECOND: 1}, logs, settled=())
    assert cut == {FIRST: 0, SECOND: 0}
    logs[SECOND].see(TransactionStep(1, 1, 1, 1, COMMIT_MARKER))
    cut = greatest_cut({FIRST: 2, SECOND: 2}, {FIRST: 2, SECOND: 2}, logs, settled=())
    assert cut == {FIRST: 2, SECOND: 2}


def test_an_open_transaction_holds_back_a_decided_one() -> None:
    logs = {
        FIRST: spans((1, 0, None), (1, 1, COMMIT_MARKER)),
        SECOND: spans((2, 0, None), (1, 0, None), (1, 1, COMMIT_MARKER)),
    }
    ends = {FIRST: 2, SECOND: 3}
    assert greatest_cut({FIRST: 2, SECOND: 0}, ends, logs, ()) == {FIRST: 0, SECOND: 0}


def test_the_next_transaction_of_an_old_producer() -> None:
    """Both have the same epoch; the coordinator's state tells them apart."""
    committed = ((1, 0, None), (1, 0, COMMIT_MARKER))
    logs = {FIRST: spans(*committed), SECOND: spans(*committed, (1, 0, None))}
    stable, ends = {FIRST: 2, SECOND: 2}, {FIRST: 2, SECOND: 3}
    assert greatest_cut(stable, ends, logs, settled={1}) == stable
    assert greatest_cut(stable, ends, logs, settled=()) == {FIRST: 0, SECOND: 0}


def test_aborted_transactions_do_not_count() -> None:
    logs = {FIRST: spans((1, 0, None), (1, 1, ABORT_MARKER)), SECOND: spans((1, 0, None))}
    assert greatest_cut({FIRST: 2, SECOND: 0}, {FIRST: 2, SECOND: 1}, logs, ()) == {FIRST: 2, SECOND: 0}


def test_spans_of_a_log() -> None:
    log = spans((1, 0, None), (2, 5, None), (1, 0, None), (1, 1, COMMIT_MARKER), (2, 6, ABORT_MARKER))
    assert list(log.committed) == [Span(source_cuts.Writer(1, 0), 0, 2)]
    assert not list(log.unmarked)
    log.forget_before(1)
    assert not list(log.committed)
