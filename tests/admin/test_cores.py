"""The pure parts: placement of replicas, settings of 0.9."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.admin.old_topic_configs import CHECKS, check_configs
from ottla.admin.replica_assignment import assign_replicas, check_assignment
from ottla.model.errors import KafkaError


def test_replicas_are_placed_as_in_kafkas_own_test() -> None:
    """The table of AdminTest.testReplicaAssignment: five brokers, ten partitions, three replicas."""
    expected = {
        0: (0, 1, 2),
        1: (1, 2, 3),
        2: (2, 3, 4),
        3: (3, 4, 0),
        4: (4, 0, 1),
        5: (0, 2, 3),
        6: (1, 3, 4),
        7: (2, 4, 0),
        8: (3, 0, 1),
        9: (4, 1, 2),
    }
    placed = assign_replicas(range(5), partitions=10, replication_factor=3, start=0, shift=0)
    assert placed == expected
    grown = assign_replicas(range(5), partitions=4, replication_factor=3, start=0, shift=1, first_partition=6)
    assert grown == {number: expected[number] for number in range(6, 10)}


@given(
    brokers=st.lists(st.integers(0, 1000), min_size=1, max_size=8, unique=True).map(sorted),
    partitions=st.integers(1, 40),
    start=st.integers(0, 1000),
    shift=st.integers(0, 1000),
    data=st.data(),
)
def test_placements_are_even_and_without_repetition(
    brokers: list[int], partitions: int, start: int, shift: int, data: st.DataObject
) -> None:
    factor = data.draw(st.integers(1, len(brokers)))
    placed = assign_replicas(
        brokers, partitions=partitions, replication_factor=factor, start=start, shift=shift
    )
    assert check_assignment(placed, brokers) == placed
    leaders = [replicas[0] for replicas in placed.values()]
    counts = [leaders.count(number) for number in brokers]
    assert max(counts) - min(counts) <= 1


def test_impossible_placements() -> None:
    for partitions, factor in ((0, 1), (1, 0), (1, 3)):
        with pytest.raises(KafkaError):
            assign_replicas([1, 2], partitions=partitions, replication_factor=factor, start=0, shift=0)
    lists: list[dict[int, list[int]]] = [{0: []}, {0: [1, 1]}]
    for wrong in lists:
        with pytest.raises(KafkaError, match="no broker, or one twice"):
            check_assignment(wrong, [1, 2])


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("cleanup.policy", ["compact", "delete"], ["compact,delete", ""]),
        ("compression.type", ["producer", "uncompressed", "lz4"], ["zstd", "none"]),
        ("min.cleanable.dirty.ratio", ["0", "0.5", "1"], ["1.1", "half", "nan"]),
        ("preallocate", ["true", "FALSE"], ["yes"]),
        ("retention.ms", ["-1", "9223372036854775807"], ["9223372036854775808", "1.5", "", "--1"]),
        ("segment.bytes", ["14", "2147483647"], ["13", "2147483648"]),
        ("min.insync.replicas", ["1"], ["0", "-1"]),
    ],
)
def test_settings_of_0_9(name: str, good: list[str], bad: list[str]) -> None:
    for value in good:
        check_configs({name: value})
    for value in bad:
        with pytest.raises(KafkaError, match="INVALID_CONFIG"):
            check_configs({name: value})


def test_settings_that_0_9_does_not_know() -> None:
    assert len(CHECKS) == 18
    with pytest.raises(KafkaError, match=r"message\.format\.version is not a topic setting"):
        check_configs({"message.format.version": "0.9"})
