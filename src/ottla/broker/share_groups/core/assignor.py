"""The server-side assignor of share groups, Kafka's "simple" one: nobody is left out.

A partition may have several members: as many as there are members for each partition, rounded up. Members
get the same number of partitions, give or take one, and keep what they have as far as that allows. If all
members subscribe to the same topics, their partitions are dealt together; otherwise topic by topic.
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
    """Return the partitions of each member, if each of them may have all."""
    dealt: dict[str, set[TopicIdPartition]] = {member: set() for member in members}
    if not partitions or not members:
        return dealt
    sharing = ceil(len(members) / len(partitions))
    vacancies = dict.fromkeys(partitions, sharing)
    least, rest = divmod(sharing * len(partitions), len(members))
    kept = {member: sorted(vacancies.keys() & before.get(member, frozenset())) for member in members}
    by_number_kept = sorted(members, key=lambda member: -len(kept[member]))
    room = {member: least + (place < rest) for place, member in enumerate(by_number_kept)}

    def give(member: str, partition: TopicIdPartition) -> None:
        dealt[member].add(partition)
        vacancies[partition] -= 1
        room[member] -= 1

    for member in members:
        for partition in kept[member]:
            if vacancies[partition] and room[member]:
                give(member, partition)
    # Those with most room first, then by name. Each of the few that are passed over has the partition.
    queue = [(-room[member], place) for place, member in enumerate(members)]
    heapify(queue)
    for partition in partitions:
        taken: list[int] = []
        while vacancies[partition] and queue:
            place = heappop(queue)[1]
            taken.append(place)
            if partition not in dealt[members[place]]:
                give(members[place], partition)
        for place in taken:
            heappush(queue, (-room[members[place]], place))
    return dealt
