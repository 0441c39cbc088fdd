"""Assignments: the specification's vectors, and the naive transcription on random groups."""

from __future__ import annotations

import random

import pytest

from ottla.consumer.classic.assignors import (
    AssignmentInput,
    AssignmentRefused,
    RoundRobinVersion,
    assign_ranges,
    deal_round_robin,
)
from ottla.consumer.classic.identity import ConsumerThreadId, thread_ids
from tests.consumer.classic import naive_assignors

Threads = dict[str, set[tuple[str, int]]]
Partitions = dict[str, set[int]]
FORMS = {
    RoundRobinVersion.V0_8_2: "[{},{}]",
    RoundRobinVersion.V0_10_2: "[{},{}]",
    RoundRobinVersion.V1_0: "{}-{}",
}


def given(threads: Threads, partitions: Partitions) -> AssignmentInput:
    return AssignmentInput(
        {topic: sorted(ConsumerThreadId(*one) for one in some) for topic, some in threads.items()},
        {topic: sorted(some) for topic, some in partitions.items()},
    )


def random_group(chance: random.Random, *, uniform: bool) -> tuple[Threads, Partitions]:
    """Up to 5 members with up to 14 streams each, so that the order of texts and of numbers differ."""
    topics = [f"t{number}" for number in range(chance.randint(1, 4))]
    threads: Threads = {}
    for member in range(chance.randint(1, 5)):
        consumer = f"g_host-{chance.randint(1, 99)}-{member}"
        streams = chance.choice([1, 2, 3, 11, 14])
        chosen = topics if uniform else chance.sample(topics, chance.randint(1, len(topics)))
        for topic in chosen:
            count = streams if uniform else chance.choice([1, 2, 12])
            threads.setdefault(topic, set()).update(thread_ids(consumer, count))
    known = topics if uniform else [topic for topic in topics if topic in threads]
    return threads, {topic: set(range(chance.choice([0, 1, 3, 12, 40]))) for topic in known}


@pytest.mark.parametrize("seed", range(300))
def test_ranges_equal_the_naive_transcription(seed: int) -> None:
    threads, partitions = random_group(random.Random(seed), uniform=seed % 2 == 0)
    assert assign_ranges(given(threads, partitions)) == naive_assignors.range_assignment(threads, partitions)


@pytest.mark.parametrize("version", RoundRobinVersion)
@pytest.mark.parametrize("seed", range(150))
def test_round_robin_equals_the_naive_transcription(seed: int, version: RoundRobinVersion) -> None:
    threads, partitions = random_group(random.Random(seed), uniform=seed % 2 == 0)
    if version is RoundRobinVersion.V0_8_2 and not naive_assignors.is_uniform(threads):
        with pytest.raises(AssignmentRefused, match="needs the same streams"):
            deal_round_robin(given(threads, partitions), version)
        return
    found = deal_round_robin(given(threads, partitions), version)
    assert found == naive_assignors.round_robin_assignment(threads, partitions, FORMS[version])


def test_the_specifications_range() -> None:
    threads = {"t": {*thread_ids("g_a", 2), *thread_ids("g_b", 2)}}
    found = assign_ranges(given(threads, {"t": set(range(10))}))  # type: ignore[arg-type]
    assert [str(found["t", number]) for number in range(10)] == [  # type: ignore[index]
        *["g_a-0"] * 3,
        *["g_a-1"] * 3,
        *["g_b-0"] * 2,
        *["g_b-1"] * 2,
    ]


@pytest.mark.parametrize(
    ("version", "order"),
    [
        (RoundRobinVersion.V0_8_2, "t10 t11 a0 a1 a2 b0 b1 b2 t0 t1 t2 t3 t4 t5 t6 t7 t8 t9"),
        (RoundRobinVersion.V1_0, "a0 a1 a2 b0 b1 b2 t0 t1 t2 t3 t4 t5 t6 t7 t8 t9 t10 t11"),
    ],
)
def test_the_specifications_orders_of_round_robin(version: RoundRobinVersion, order: str) -> None:
    """With a single digit's worth of streams, each partition's stream tells its place in the order."""
    everybody = set(thread_ids("g_a", 18))
    partitions = {"a": set(range(3)), "b": set(range(3)), "t": set(range(12))}
    found = deal_round_robin(given(dict.fromkeys("abt", everybody), partitions), version)  # type: ignore[arg-type]
    ring = sorted(everybody)
    by_place = sorted(found, key=lambda place: ring.index(found[place]))
    assert [f"{place.topic}{place.partition}" for place in by_place] == order.split()


def test_nobody_and_nothing() -> None:
    assert assign_ranges(AssignmentInput({}, {})) == {}
    assert assign_ranges(AssignmentInput({}, {"t": [0]})) == {}
    assert deal_round_robin(AssignmentInput({}, {})) == {}
    assert deal_round_robin(AssignmentInput({}, {"t": [0]}), RoundRobinVersion.V1_0) == {}
