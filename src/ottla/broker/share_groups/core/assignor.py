"""The server-side assignor of share groups, Kafka's "simple" one: every partition has enough members.

A partition may have several members. Each partition gets as many as there are members for each of them; the
rest goes to those with the fewest partitions. What a member has, it keeps as far as that allows.
"""

from __future__ import annotations

from collections.abc import Mapping
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
    partitions = [
        (topic_id, index)
        for topic_id in sorted(partition_counts)
        for index in range(partition_counts[topic_id])
    ]
    wanting = {
        partition: [member for member, topics in sorted(subscriptions.items()) if partition[0] in topics]
        for partition in partitions
    }
    sharing = {topic_id: _sharing(topic_id, subscriptions, partition_counts) for topic_id in partition_counts}
    slots = sum(min(sharing[topic_id], len(wanting[topic_id, index])) for topic_id, index in partitions)
    most = ceil(slots / len(subscriptions)) if subscriptions else 0
    assigned: dict[str, set[TopicIdPartition]] = {member: set() for member in subscriptions}
    holders: dict[TopicIdPartition, int] = dict.fromkeys(partitions, 0)

    def give(member: str, partition: TopicIdPartition) -> None:
        assigned[member].add(partition)
        holders[partition] += 1

    for member, kept in sorted(before.items()):
        for partition in sorted(kept):
            is_wanted = partition in holders and member in wanting[partition]
            if is_wanted and holders[partition] < sharing[partition[0]] and len(assigned[member]) < most:
                give(member, partition)
    for partition in partitions:
        free = [member for member in wanting[partition] if partition not in assigned[member]]
        free.sort(key=lambda member: len(assigned[member]))
        for member in free[: sharing[partition[0]] - holders[partition]]:
            give(member, partition)
    return {member: frozenset(partitions) for member, partitions in assigned.items()}


def _sharing(
    topic_id: bytes, subscriptions: Mapping[str, frozenset[bytes]], partition_counts: Mapping[bytes, int]
) -> int:
    """Return how many members share a partition of a topic: those who want it, over all they could have."""
    members = [topics for topics in subscriptions.values() if topic_id in topics]
    reachable = {item for topics in members for item in topics}
    return ceil(len(members) / max(1, sum(partition_counts.get(item, 0) for item in reachable)))
