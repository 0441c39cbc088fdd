"""Assigns the replicas of new partitions to brokers, as AdminUtils of Kafka 0.9 does. Pure.

Leaders are assigned to the brokers in turn, from `start` on. The followers of a partition are `shift` brokers
behind its leader; the shift grows by one with every round, so that the load of a failed broker spreads:

    assign_replicas([0, 1, 2, 3, 4], partitions=10, replication_factor=3, start=0, shift=0)
    broker     0    1    2    3    4
    leader    p0   p1   p2   p3   p4       first round: the shift is 0
              p5   p6   p7   p8   p9       second round: it is 1
    follower  p4   p0   p1   p2   p3
              p8   p9   p5   p6   p7
    follower  p3   p4   p0   p1   p2
              p7   p8   p9   p5   p6
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError

Assignment = dict[int, tuple[int, ...]]


def assign_replicas(
    brokers: Sequence[int],
    *,
    partitions: int,
    replication_factor: int,
    start: int,
    shift: int,
    first_partition: int = 0,
) -> Assignment:
    """Return the replicas of `partitions` new partitions, numbered from `first_partition` on.

    Raises KafkaError if there are too few brokers.
    """
    if partitions < 1:
        raise KafkaError(Code.INVALID_PARTITIONS, f"{partitions} partitions")
    if not 1 <= replication_factor <= len(brokers):
        raise KafkaError(
            Code.INVALID_REPLICATION_FACTOR,
            f"replication factor {replication_factor}, and the brokers {sorted(brokers)} are up",
        )
    count = len(brokers)
    assignment: Assignment = {}
    for number in range(first_partition, first_partition + partitions):
        if number > 0 and number % count == 0:
            shift += 1
        leader = (number + start) % count
        followers = (
            (leader + 1 + (shift + index) % (count - 1)) % count for index in range(replication_factor - 1)
        )
        assignment[number] = tuple(brokers[index] for index in (leader, *followers))
    return assignment


def check_assignment(assignment: Mapping[int, Iterable[int]], brokers: Iterable[int]) -> Assignment:
    """Check an assignment that the user gives, and return it. Raises KafkaError."""
    known = set(brokers)
    checked = {number: tuple(replicas) for number, replicas in assignment.items()}
    for number, replicas in checked.items():
        if not replicas or len(set(replicas)) != len(replicas):
            raise KafkaError(
                Code.INVALID_REPLICA_ASSIGNMENT,
                f"partition {number} on {list(replicas)}: no broker, or one twice",
            )
        if missing := sorted(set(replicas) - known):
            raise KafkaError(
                Code.INVALID_REPLICA_ASSIGNMENT,
                f"partition {number}: brokers {missing} are not up; {sorted(known)} are",
            )
    if len({len(replicas) for replicas in checked.values()}) > 1:
        raise KafkaError(
            Code.INVALID_REPLICA_ASSIGNMENT, "all partitions of a topic must have the same number of replicas"
        )
    return checked
