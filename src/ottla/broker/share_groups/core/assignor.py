"""The server-side assignor of share groups, Kafka's "simple" one: every member gets partitions.

A partition may have several members: the number of members divided by the number of partitions, rounded up.
Members get the same number of partitions, give or take one, and keep their partitions as far as possible. If
all members subscribe to the same topics, all partitions are dealt together; otherwise topic by topic.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from heapq import heapify, heappop, heappush
from math import ceil

NAME = "simple"

TopicIdPartition = tuple[bytes, int]
Assignments = dict[str, frozenset[TopicIdPartition]]


def assign(
    subscriptions: Mapping[str, frozenset[bytes]],
    partition_counts: Mapping[bytes, int],
    before: Mapping[str, frozenset[TopicIdPartition]],
) -> Assignments:
    """Return the partitions of each member. `subscriptions` are topic ids by member."""
    topics = sorted(partition_counts)
    are_equal = len(set(subscriptions.values())) <= 1
    assigned: dict[str, set[TopicIdPartition]] = {member: set() for member in subscriptions}
    for dealt in [topics] if are_equal else [[topic_id] for topic_id in topics]:
        partitions = [(topic_id, index) for topic_id in dealt for index in range(partition_counts[topic_id])]
        members = [member for member, wanted in sorted(subscriptions.items()) if wanted.issuperset(dealt)]
        for member, got in _deal(partitions, members, before).items():
            assigned[member] |= got
    return {member: frozenset(got) for member, got in assigned.items()}


def _deal(
    partitions: Sequence[TopicIdPartition],
    members: Sequence[str],
    before: Mapping[str, frozenset[TopicIdPartition]],
) -> dict[str, set[TopicIdPartition]]:
    """Return the partitions of each member, if each member may have all of them."""
    dealt: dict[str, set[TopicIdPartition]] = {member: set() for member in members}
    if not partitions or not members:
        return dealt
    sharing = ceil(len(members) / len(partitions))
    vacancies = dict.fromkeys(partitions, sharing)
    least, rest = divmod(sharing * len(partitions), len(members))
    kept = {member: sorted(vacancies.keys() & before.get(member, frozenset())) for member in members}
    by_number_kept = sorted(members, key=lambda member: -len(kept[member]))
    room = {member: least + (rank < rest) for rank, member in enumerate(by_number_kept)}

    def give(member: str, partition: TopicIdPartition) -> None:
        dealt[member].add(partition)
        vacancies[partition] -= 1
        room[member] -= 1

    for member in members:
        for partition in kept[member]:
            if vacancies[partition] and room[member]:
                give(member, partition)
    # Members with most room first, then by name. A member that already has the partition is passed over.
    queue = [(-room[member], index) for index, member in enumerate(members)]
    heapify(queue)
    for partition in partitions:
        taken: list[int] = []
        while vacancies[partition] and queue:
            index = heappop(queue)[1]
            taken.append(index)
            if partition not in dealt[members[index]]:
                give(members[index], partition)
        for index in taken:
            heappush(queue, (-room[members[index]], index))
    return dealt
