"""The broker's assignors: every partition has one subscriber, evenly, and few move."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from ottla.broker.groups.coordinator.consumer_groups.assignors import (
    AssignedMember,
    Targets,
    range_assignor,
    uniform_assignor,
)
from tests.scale import SEED, sized

TOPICS = [bytes([number]) * 16 for number in range(4)]
HISTORIES = sized(300, 20_000)


def member(name: str, *topics: int, instance: str | None = None) -> AssignedMember:
    return AssignedMember(name, instance, frozenset(TOPICS[number] for number in topics), frozenset())


def numbers(targets: Targets) -> dict[str, list[tuple[int, int]]]:
    return {
        name: sorted((TOPICS.index(topic), number) for topic, number in partitions)
        for name, partitions in targets.items()
    }


def test_range_gives_runs_that_match_across_topics() -> None:
    counts = {TOPICS[0]: 3, TOPICS[1]: 3}
    assert numbers(range_assignor([member("b", 0, 1), member("a", 0, 1)], counts)) == {
        "a": [(0, 0), (0, 1), (1, 0), (1, 1)],
        "b": [(0, 2), (1, 2)],
    }


def test_range_takes_static_members_first_by_their_instances() -> None:
    members = [member("a", 0), member("z", 0, instance="1"), member("y", 0, instance="2")]
    assert numbers(range_assignor(members, {TOPICS[0]: 3})) == {
        "z": [(0, 0)],
        "y": [(0, 1)],
        "a": [(0, 2)],
    }


def test_range_among_the_subscribers_of_each_topic() -> None:
    members = [member("a", 0), member("b", 0, 1), member("c", 1)]
    assert numbers(range_assignor(members, {TOPICS[0]: 2, TOPICS[1]: 1})) == {
        "a": [(0, 0)],
        "b": [(0, 1), (1, 0)],
        "c": [],
    }


def test_nobody_and_nothing() -> None:
    for assign in (range_assignor, uniform_assignor):
        assert assign([], {TOPICS[0]: 2}) == {}
        assert assign([member("a")], {TOPICS[0]: 2}) == {"a": frozenset()}
        assert assign([member("a", 0)], {}) == {"a": frozenset()}


@pytest.mark.parametrize("is_same", [True, False], ids=["the same topics", "different topics"])
def test_uniform_is_even_and_moves_little(is_same: bool) -> None:
    chance = random.Random(SEED)
    for _ in range(HISTORIES // 2):
        _check_history(chance, is_same=is_same)


def _check_history(chance: random.Random, *, is_same: bool) -> None:
    """A group through a few changes: members come and go, topics grow, subscriptions change."""
    counts = {topic: chance.randint(1, 8) for topic in TOPICS[: chance.randint(1, 4)]}
    targets: Targets = {}
    subscriptions: dict[str, frozenset[bytes]] = {}
    for _ in range(5):
        for name in chance.sample([*subscriptions], min(len(subscriptions), chance.randint(0, 2))):
            del subscriptions[name]
        for _ in range(chance.randint(1, 3)):
            subscriptions[f"m{chance.randrange(100)}"] = frozenset(
                counts if is_same else chance.sample([*counts], chance.randint(1, len(counts)))
            )
        grown = chance.choice([*counts])
        counts[grown] += chance.randint(0, 2)
        members = [
            AssignedMember(name, None, topics, targets.get(name, frozenset()))
            for name, topics in subscriptions.items()
        ]
        after = uniform_assignor(members, counts)
        _check_assignment(members, counts, after)
        if is_same:
            _check_least_moves(members, counts, after)
        else:
            _check_no_better_move(members, after)
        again = [AssignedMember(m.member_id, None, m.topic_ids, after[m.member_id]) for m in members]
        assert uniform_assignor(again, counts) == after  # nothing has changed: nothing moves
        targets = after


def _check_assignment(members: list[AssignedMember], counts: dict[bytes, int], targets: Targets) -> None:
    owners = Counter(partition for partitions in targets.values() for partition in partitions)
    wanted = {topic for member in members for topic in member.topic_ids}
    assert owners == Counter((topic, number) for topic in wanted for number in range(counts[topic]))
    for one in members:
        assert {topic for topic, _ in targets[one.member_id]} <= one.topic_ids


def _check_least_moves(members: list[AssignedMember], counts: dict[bytes, int], targets: Targets) -> None:
    sizes = sorted(len(partitions) for partitions in targets.values())
    assert sizes[-1] - sizes[0] <= 1
    quota, extra = divmod(sum(counts.values()), len(members))
    had = sorted((len(one.before) for one in members), reverse=True)
    must_move = sum(max(0, size - quota - (place < extra)) for place, size in enumerate(had))
    moved = sum(len(one.before - targets[one.member_id]) for one in members)
    assert moved == must_move


def _check_no_better_move(members: list[AssignedMember], targets: Targets) -> None:
    """No partition can go to a subscriber that has two less."""
    for one in members:
        for topic, _ in targets[one.member_id]:
            least = min(len(targets[other.member_id]) for other in members if topic in other.topic_ids)
            assert len(targets[one.member_id]) - least <= 1
