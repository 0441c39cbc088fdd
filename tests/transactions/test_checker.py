"""The checker finds each anomaly in a history that has it, and none in a sound one."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy

import pytest

from ottla import TopicAndPartition
from tests.transactions.checker import History, Outcome, Transaction, anomalies

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
        (final(out=["a2", "a1", "c1"], other=["a3", "c2"]), "out of order: a1"),
        (duplicate, "duplicate: a2"),
        (made_up, "made up: x"),
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
