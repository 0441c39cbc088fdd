"""Assignors against slow, obvious ones, and by what is to hold: even, sticky, nothing with two members."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import pytest

from ottla.consumer.coordinated.assignors import ASSIGNORS, LastAssignment, Participant, Plan
from ottla.model.topic_partition import TopicAndPartition
from ottla.wire.consumer_protocol import Subscription

Cases = Iterator[tuple[list[Participant], dict[str, int]]]


def member(name: str, *topics: str, instance: str | None = None) -> Participant:
    return Participant(name, Subscription(topics), instance)


def random_cases(count: int, *, uniform: bool = False, members: int = 4, partitions: int = 4) -> Cases:
    """Groups of all kinds; the number of a failing one is its seed."""
    for seed in range(count):
        chance = random.Random(seed)
        names = ["a", "b", "c"][: chance.randint(1, 3)]
        counts = {name: chance.randint(0, partitions) for name in names if chance.random() < 0.9}
        group = [
            member(
                f"m{number}-{seed}",
                *(names if uniform else [one for one in names if chance.random() < 0.7]),
                instance=f"i{chance.randrange(100)}-{number}" if chance.random() < 0.3 else None,
            )
            for number in range(chance.randint(1, members))
        ]
        chance.shuffle(group)
        yield group, counts


def ordered(members: Sequence[Participant]) -> list[Participant]:
    static = sorted((one for one in members if one.instance_id), key=lambda one: one.instance_id or "")
    return static + sorted((one for one in members if not one.instance_id), key=lambda one: one.member_id)


def wanted(members: Sequence[Participant], counts: Mapping[str, int]) -> list[TopicAndPartition]:
    topics = {topic for one in members for topic in one.subscription.topics}
    return [TopicAndPartition(topic, n) for topic in sorted(topics) for n in range(counts.get(topic, 0))]


def check_whole(plan: Plan, members: Sequence[Participant], counts: Mapping[str, int]) -> None:
    """Everything wanted is given once, to somebody who wants it."""
    given = [place for places in plan.values() for place in places]
    assert sorted(given) == wanted(members, counts)
    topics = {one.member_id: one.subscription.topics for one in members}
    assert plan.keys() == topics.keys()
    assert all(place.topic in topics[name] for name, places in plan.items() for place in places)


def test_range_is_the_naive_one() -> None:
    for members, counts in random_cases(300):
        expected: Plan = {one.member_id: [] for one in members}
        for topic, count in sorted(counts.items()):
            takers = [one for one in ordered(members) if topic in one.subscription.topics]
            for number in range(count if takers else 0):
                each, more = divmod(count, len(takers))
                sizes = [each + 1] * more + [each] * (len(takers) - more)
                taker = next(i for i in range(len(takers)) if number < sum(sizes[: i + 1]))
                expected[takers[taker].member_id].append(TopicAndPartition(topic, number))
        plan = ASSIGNORS["range"].assign(members, counts)
        assert {name: sorted(places) for name, places in plan.items()} == expected
        check_whole(plan, members, counts)


def test_round_robin_is_the_naive_one() -> None:
    for members, counts in random_cases(300):
        expected: Plan = {one.member_id: [] for one in members}
        turn = 0
        for place in wanted(members, counts):
            while place.topic not in ordered(members)[turn % len(members)].subscription.topics:
                turn += 1
            expected[ordered(members)[turn % len(members)].member_id].append(place)
            turn += 1
        assert ASSIGNORS["roundrobin"].assign(members, counts) == expected


def loads(plan: Plan) -> list[int]:
    return sorted(len(places) for places in plan.values())


def most_even(members: Sequence[Participant], counts: Mapping[str, int]) -> list[int]:
    """Of all assignments that there are."""
    places = wanted(members, counts)
    takers = [
        [number for number, one in enumerate(members) if place.topic in one.subscription.topics]
        for place in places
    ]
    best = None
    for choice in itertools.product(*takers):
        count = Counter(choice)
        found = sorted(count.get(number, 0) for number in range(len(members)))
        if best is None or sum(one * one for one in found) < sum(one * one for one in best):
            best = found
    assert best is not None
    return best


@pytest.mark.parametrize("name", ["sticky", "cooperative-sticky"])
def test_no_assignment_is_more_even(name: str) -> None:
    for members, counts in random_cases(150, members=3, partitions=3):
        plan = ASSIGNORS[name].assign(members, counts)
        check_whole(plan, members, counts)
        assert loads(plan) == most_even(members, counts)


def rejoined(members: Sequence[Participant], plan: Plan, generation: int, name: str) -> list[Participant]:
    """The members, joining again with what they have."""
    again = []
    for one in members:
        has = LastAssignment(tuple(plan.get(one.member_id, ())), generation)
        owned = has.partitions if ASSIGNORS[name].is_cooperative else ()
        told = replace(
            one.subscription, user_data=ASSIGNORS[name].user_data(has), owned=owned, generation=generation
        )
        again.append(replace(one, subscription=told))
    return again


def moved(before: Plan, after: Plan) -> int:
    return sum(place not in before.get(name, ()) for name, places in after.items() for place in places)


@pytest.mark.parametrize("name", ["sticky", "cooperative-sticky"])
def test_nothing_moves_that_need_not_when_all_want_the_same(name: str) -> None:
    """Somebody comes or goes: what moves is what was freed and what the newcomer has to get."""
    for seed, (members, counts) in enumerate(random_cases(200, uniform=True, members=6, partitions=12)):
        topics = members[0].subscription.topics
        before = settled(name, members, counts)[0]
        stayed = rejoined(members[1:], before, 3, name)
        if stayed:
            after = settled(name, stayed, counts)[0]
            assert moved(before, after) == len(before[members[0].member_id]), f"seed {seed}: one left"
        joined = [*rejoined(members, before, 3, name), member("newcomer", *topics)]
        after = settled(name, joined, counts)[0]
        assert moved(before, after) == len(after["newcomer"]), f"seed {seed}: one came"
        assert max(loads(after)) - min(loads(after)) <= 1


def settled(name: str, members: Sequence[Participant], counts: Mapping[str, int]) -> tuple[Plan, int]:
    """Generations until nobody has to give anything up; how many it took."""
    held = {one.member_id: list(one.subscription.owned) for one in members}
    for generation in range(4, 10):
        plan = ASSIGNORS[name].assign(members, counts)
        owners = Counter(place for places in plan.values() for place in places)
        assert not owners or max(owners.values()) == 1
        for one, places in plan.items():
            for other, kept in held.items():
                if one != other:
                    assert not set(places) & set(kept), "given to one while another still has it"
        revoked = any(set(held[one]) - set(places) for one, places in plan.items())
        held = {one: list(places) for one, places in plan.items()}
        if not revoked or not ASSIGNORS[name].is_cooperative:
            check_whole(plan, members, counts)
            return plan, generation - 3
        members = rejoined(members, held, generation, name)
    raise AssertionError("members are told to give up for ever")


def test_a_cooperative_move_takes_two_generations_and_the_rest_is_not_touched() -> None:
    first = member("m1", "t")
    alone = {"m1": [TopicAndPartition("t", n) for n in range(4)]}
    members = [*rejoined([first], alone, 1, "cooperative-sticky"), member("m2", "t")]
    plan = ASSIGNORS["cooperative-sticky"].assign(members, {"t": 4})
    assert len(plan["m1"]) == 2
    assert plan["m2"] == []
    after, generations = settled("cooperative-sticky", members, {"t": 4})
    assert generations == 2
    assert after["m1"] == plan["m1"]
    assert loads(after) == [2, 2]
    for seed, (group, counts) in enumerate(random_cases(200)):
        before = settled("cooperative-sticky", group, counts)[0]
        changed = [*rejoined(group[1:], before, 3, "cooperative-sticky"), member("newcomer", "a", "b")]
        assert settled("cooperative-sticky", changed, counts)[1] <= 2, f"seed {seed}"


@pytest.mark.parametrize("name", ["sticky", "cooperative-sticky"])
def test_of_two_claims_the_later_generation_counts(name: str) -> None:
    place = TopicAndPartition("t", 0)
    old = rejoined([member("a", "t")], {"a": [place]}, 3, name)
    new = rejoined([member("b", "t")], {"b": [place]}, 4, name)
    assert ASSIGNORS[name].assign([*old, *new], {"t": 1}) == {"a": [], "b": [place]}


def test_user_data_of_strangers_is_no_claim() -> None:
    strange = Participant("a", Subscription(("t",), b"\1\2"))
    for name in ("sticky", "cooperative-sticky"):
        assert ASSIGNORS[name].assign([strange], {"t": 2}) == {"a": [("t", 0), ("t", 1)]}


def test_a_large_group_is_assigned_quickly() -> None:
    """1,000 members and 10,000 partitions; slow enough to notice if a step were quadratic."""
    members = [member(f"m{number:04}", "t") for number in range(1000)]
    before = ASSIGNORS["sticky"].assign(members, {"t": 10_000})
    assert set(loads(before)) == {10}
    after = ASSIGNORS["sticky"].assign(rejoined(members[:500], before, 3, "sticky"), {"t": 10_000})
    assert set(loads(after)) == {20}
    assert moved(before, after) == 5000
