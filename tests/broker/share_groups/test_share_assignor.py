"""The assignor of share groups: every partition has members, every member partitions, and few move."""

from __future__ import annotations

import random
from math import ceil

import pytest

from ottla.broker.share_groups.core.assignor import Assignments, TopicIdPartition, assign
from tests.scale import SEED, sized

TOPICS = [bytes([number]) * 16 for number in range(3)]
HISTORIES = sized(300, 20_000)


def test_a_newcomer_gets_a_partition_though_each_has_one_already() -> None:
    ten = {f"m{number}": frozenset(TOPICS[:1]) for number in range(10)}
    before = assign(ten, {TOPICS[0]: 20}, {})
    assert {len(partitions) for partitions in before.values()} == {2}
    after = assign({**ten, "new": frozenset(TOPICS[:1])}, {TOPICS[0]: 20}, before)
    assert len(after["new"]) == 1
    assert sum(before[member] != after[member] for member in ten) == 1, "one gives one up"


def test_nobody_and_nothing() -> None:
    assert assign({}, {TOPICS[0]: 2}, {}) == {}
    assert assign({"a": frozenset(TOPICS)}, {}, {}) == {"a": frozenset()}
    assert assign({"a": frozenset()}, {TOPICS[0]: 2}, {}) == {"a": frozenset()}


@pytest.mark.parametrize("is_same", [True, False], ids=["the same topics", "different topics"])
def test_even_and_sticky_through_changes(is_same: bool) -> None:
    chance = random.Random(SEED)
    for _ in range(HISTORIES):
        counts = {topic: chance.randint(1, 6) for topic in TOPICS[: chance.randint(1, 3)]}
        assigned: Assignments = {}
        for _ in range(4):
            members = chance.sample([f"m{number}" for number in range(12)], chance.randint(1, 12))
            wanted = {member: frozenset(counts) for member in members}
            if not is_same:
                wanted = {member: frozenset(chance.sample(sorted(counts), 1)) for member in members}
            before = {member: assigned[member] for member in members if member in assigned}
            assigned = assign(wanted, counts, before)
            assert assigned.keys() == wanted.keys()
            pools = [[*counts]] if len(set(wanted.values())) == 1 else [[topic] for topic in counts]
            for pool in pools:
                _check(pool, counts, {m: assigned[m] for m in members if wanted[m].issuperset(pool)}, before)


def _check(
    pool: list[bytes],
    counts: dict[bytes, int],
    assigned: Assignments,
    before: dict[str, frozenset[TopicIdPartition]],
) -> None:
    partitions = {(topic, index) for topic in pool for index in range(counts[topic])}
    if not assigned:
        return
    sharing = ceil(len(assigned) / len(partitions))
    for partition in partitions:
        assert sum(partition in got for got in assigned.values()) == sharing
    numbers = {member: len(got & partitions) for member, got in assigned.items()}
    assert min(numbers.values()) >= 1 or sharing * len(partitions) < len(assigned)
    if sharing == 1:
        assert max(numbers.values()) - min(numbers.values()) <= 1
        for member, number in numbers.items():
            had = before.get(member, frozenset()) & partitions
            if any(had & other for name, other in before.items() if name != member):
                continue  # it shared them, and now only one of them has them
            assert len(had & assigned[member]) == min(len(had), number), "it keeps what it may have"
