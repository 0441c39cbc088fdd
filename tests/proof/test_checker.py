"""The checker finds each anomaly in a history that has it, and none in a sound one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla import TopicAndPartition
from tests.proof.checker import (
    Change,
    History,
    Look,
    Outcome,
    Ownership,
    Placed,
    Table,
    Transaction,
    Write,
    anomalies,
)

IN, OUT, OTHER = TopicAndPartition("in", 0), TopicAndPartition("out", 0), TopicAndPartition("out", 1)


def sound() -> History:
    """Three transactions: committed, aborted and tried again, and one whose writer never knew."""
    return History(
        transactions=[
            Transaction("id", 0, 10, {OUT: ["a1", "a2"], OTHER: ["a3"]}, {IN: (0, 3)}, Outcome.COMMITTED),
            Transaction("id", 0, 20, {OUT: ["b1"]}, {IN: (3, 5)}, Outcome.ABORTED),
            Transaction("id", 0, 30, {OUT: ["c1"], OTHER: ["c2"]}, {IN: (3, 5)}, Outcome.UNKNOWN),
        ],
        final={OUT: ["a1", "a2", "c1"], OTHER: ["a3", "c2"]},
        readers=[{OUT: ["a1", "a2"]}],
        takeovers={("id", 0): (4, 5), ("id", 1): (25, 40)},
        positions={IN: 5},
    )


def test_a_sound_history() -> None:
    assert anomalies(sound()) == []
    without = sound()
    without.final = {OUT: ["a1", "a2"], OTHER: ["a3"]}
    without.positions = {IN: 3}
    assert anomalies(without) == [], "what nobody knows may also not have happened"


def final(**values: list[str]) -> Callable[[History], None]:
    def change(history: History) -> None:
        history.final = {OUT: values["out"], OTHER: values["other"]}

    return change


def aborted_read(history: History) -> None:
    history.readers = [{OUT: ["a1", "a2", "b1"]}]


def duplicate(history: History) -> None:
    history.readers = [{OUT: ["a1", "a2", "a2"]}]


def made_up(history: History) -> None:
    history.readers = [{OUT: ["x"]}]


def seen_and_gone(history: History) -> None:
    history.readers = [{OUT: ["a1", "a2", "c1"]}]
    history.final, history.positions = {OUT: ["a1", "a2"], OTHER: ["a3"]}, {IN: 3}


def fenced(history: History) -> None:
    history.takeovers = {("id", 0): (4, 5), ("id", 1): (15, 25)}


def position_outside(history: History) -> None:
    history.positions = {IN: 9}


def read_again(history: History) -> None:
    history.transactions[2].reads[IN] = (2, 5)


def left_out(history: History) -> None:
    history.transactions[2].reads[IN] = (4, 5)


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (aborted_read, "aborted read: b1"),
        (final(out=["c1"], other=["c2"]), "lost: a1"),
        (final(out=["a1", "a2", "c1"], other=["a3"]), "torn: 1 of 2"),
        (final(out=["a2", "a1", "c1"], other=["a3", "c2"]), "disorder: a1"),
        (duplicate, "duplicate: a2"),
        (made_up, "made up: x"),
        (seen_and_gone, "lost: a reader saw c1"),
        (fenced, "fenced: c1"),
        (position_outside, "positions: in-0 is at 9"),
        (read_again, "positions: in-0 from 2 to 3 is read again"),
        (left_out, "positions: in-0 from 3 to 4 is left out"),
    ],
)
def test_each_anomaly_is_found(change: Callable[[History], None], found: str) -> None:
    history = deepcopy(sound())
    change(history)
    assert any(line.startswith(found) for line in anomalies(history)), anomalies(history)


# --- histories of plain records, positions, owners and tables, made by a sound model


class Model:
    """A log, its writers, a reader, a group and a table, which do nothing wrong."""

    def __init__(self, chance: Random) -> None:
        self.chance = chance
        self.log: list[Placed] = []
        self.writes: list[Write] = []
        self.changes: list[Change] = []
        self.looks: list[Look] = []
        self.owners: list[Ownership] = []
        self.position: int | None = None
        for step in range(chance.randint(12, 40)):
            self.write(f"w{chance.randrange(3)}", f"v{step}")
            if step % 3 == 0:
                self.commit(step)

    def write(self, writer: str, value: str) -> None:
        outcome = self.chance.choices([*Outcome], [6, 1, 2])[0]
        is_stored = outcome is not Outcome.ABORTED and (
            outcome is Outcome.COMMITTED or self.chance.random() < 0.5
        )
        offset = len(self.log) if outcome is Outcome.COMMITTED else None
        if is_stored:
            self.log.append(Placed(len(self.log), value))
        self.writes.append(Write(writer, OUT, value, outcome, offset))

    def commit(self, step: int) -> None:
        outcome = self.chance.choice([Outcome.COMMITTED, Outcome.COMMITTED, Outcome.UNKNOWN])
        self.changes.append(Change("group", step, step, step + 0.4, outcome))
        if outcome is Outcome.COMMITTED or self.chance.random() < 0.5:
            self.position = step
        self.looks.append(Look("group", self.position, step + 0.5, step + 0.6))
        self.owners.append(Ownership("group", OUT, f"m{step % 2}", step, step, step + 3))

    def history(self) -> History:
        rows = Counter(item.value for item in self.log)
        first = self.chance.randrange(len(self.log))
        return History(
            writes=self.writes,
            final={OUT: self.log},
            readers=[{OUT: self.log[first : first + 9]}],
            changes=self.changes,
            looks=self.looks,
            owners=self.owners,
            tables=[Table("counts", rows, rows.copy())],
        )


@given(st.randoms(use_true_random=False))
def test_a_sound_model_has_no_anomaly(chance: Random) -> None:
    assert anomalies(Model(chance).history()) == []


def acked(model: Model) -> int:
    """The place in the writes of an acknowledged one that is not at an end of the log."""
    inner = [
        index
        for index, write in enumerate(model.writes)
        if write.offset is not None and 0 < write.offset < len(model.log) - 1
    ]
    return model.chance.choice(inner)


def renumbered(log: list[Placed]) -> list[Placed]:
    return [Placed(offset, value) for offset, (_, value) in enumerate(log)]


def lose(model: Model) -> None:
    value = model.writes[acked(model)].value
    model.log = renumbered([item for item in model.log if item.value != value])


def repeat(model: Model) -> None:
    model.log.append(Placed(len(model.log), model.writes[acked(model)].value))


def leave_out(model: Model) -> None:
    del model.log[model.chance.randrange(1, len(model.log) - 1)]


def go_back(model: Model) -> None:
    at = model.chance.randrange(1, len(model.log))
    model.log[at - 1], model.log[at] = model.log[at], model.log[at - 1]


def swap_values(model: Model) -> None:
    """Two values of one writer have changed places, offsets and all."""
    places: dict[str, list[int]] = {}
    owners = {write.value: write.writer for write in model.writes}
    for at, item in enumerate(model.log):
        places.setdefault(owners[item.value], []).append(at)
    first, second = max(places.values(), key=len)[:2]
    values = [item.value for item in model.log]
    values[first], values[second] = values[second], values[first]
    model.log = [Placed(offset, value) for offset, value in enumerate(values)]
    model.writes = [replace(write, offset=None) for write in model.writes]


def move(model: Model) -> None:
    """An acknowledged offset has another record now."""
    write = model.writes[acked(model)]
    assert write.offset is not None
    model.writes.append(Write("other", OUT, "other", Outcome.UNKNOWN))
    model.log[write.offset] = Placed(write.offset, "other")
    model.log.append(Placed(len(model.log), write.value))


def read_refused(model: Model) -> None:
    model.writes.append(Write("w0", OUT, "refused", Outcome.ABORTED))
    model.log.append(Placed(len(model.log), "refused"))


def invent(model: Model) -> None:
    model.log.append(Placed(len(model.log), "nobody's"))


def forget_commit(model: Model) -> None:
    model.changes += [Change("group", -1, 80, 81), Change("group", -2, 90, 91)]
    model.looks.append(Look("group", -1))


def lose_commit(model: Model) -> None:
    model.changes.append(Change("fresh", 7, 80, 81))
    model.looks.append(Look("fresh", None))


def share(model: Model) -> None:
    owner = model.chance.choice(model.owners)
    model.owners.append(replace(owner, member="other"))


def overlap(model: Model) -> None:
    owner = model.chance.choice(model.owners)
    model.owners.append(replace(owner, member="other", generation=-1, since=owner.until - 0.5))


PLANTS: dict[str, list[Callable[[Model], None]]] = {
    "lost: ": [lose, lose_commit],
    "duplicate: ": [repeat],
    "gap: ": [leave_out],
    "disorder: ": [go_back, swap_values],
    "offset: ": [move],
    "aborted read: ": [read_refused],
    "made up: ": [invent],
    "went back: ": [forget_commit],
    "double owner: ": [share, overlap],
}


@pytest.mark.parametrize(
    ("found", "plant"), [(found, plant) for found, plants in PLANTS.items() for plant in plants]
)
@given(chance=st.randoms(use_true_random=False))
def test_each_plant_is_found_in_any_history(
    found: str, plant: Callable[[Model], None], chance: Random
) -> None:
    model = Model(chance)
    if sum(write.offset is not None for write in model.writes) < 6:
        return
    plant(model)
    lines = anomalies(model.history())
    assert any(line.startswith(found) for line in lines), lines


@pytest.mark.parametrize("seen", [{"a": 1}, {"a": 1, "b": 2, "c": 1}, {"a": 1, "b": 3}])
def test_a_wrong_table(seen: dict[str, int]) -> None:
    tables = [Table("t", {"a": 1, "b": 2}, seen)]
    assert [line[:12] for line in anomalies(History(tables=tables))] == ["wrong table:"]


def test_acknowledgements_in_another_order() -> None:
    writes = [Write("w", OUT, "a", offset=1), Write("w", OUT, "b", offset=0)]
    lines = anomalies(History(writes=writes, final={OUT: [Placed(0, "b"), Placed(1, "a")]}))
    assert any(line.startswith("offset: w got offsets") for line in lines), lines


def test_what_retention_removed_is_not_lost() -> None:
    writes = [Write("w", OUT, "a", offset=0), Write("w", OUT, "b", offset=1)]
    history = History(writes=writes, final={OUT: [Placed(1, "b")]}, log_starts={OUT: 1})
    assert anomalies(history) == []


def test_a_repeating_client_may_write_twice() -> None:
    history = History(
        writes=[Write("w", OUT, "a")], final={OUT: [Placed(0, "a"), Placed(1, "a")]}, repeats=True
    )
    assert anomalies(history) == []
