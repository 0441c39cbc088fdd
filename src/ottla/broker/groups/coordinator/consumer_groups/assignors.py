"""The assignors of the broker: which member should have which partition.

`range` gives each member a run of every topic's partitions; with topics of the same size, a member gets the
same partition numbers of each. `uniform` gives all members the same number of partitions and moves as few as
possible. Where members subscribe to different topics, `uniform` fills the least loaded members first and then
moves partitions from the most to the least loaded subscriber of each topic. The results are those of Kafka's
assignors of the same names, except for the order of members: in Kafka that of a hash table, here by id.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from heapq import heapreplace
from itertools import islice
from types import MappingProxyType

from ottla.broker.groups.coordinator.consumer_groups.records import TopicIdPartition

Targets = dict[str, frozenset[TopicIdPartition]]
BALANCE_ROUNDS_MAX = 16


@dataclass(frozen=True, slots=True)
class AssignedMember:
    """A member as the assignors see it: the topics that it subscribes to, and its last target."""

    member_id: str
    instance_id: str | None
    topic_ids: frozenset[bytes]
    before: frozenset[TopicIdPartition]


Assignor = Callable[[list[AssignedMember], Mapping[bytes, int]], Targets]
"""Takes the members and the partition count of every topic; returns the partitions of each member."""


def range_assignor(members: list[AssignedMember], partition_counts: Mapping[bytes, int]) -> Targets:
    """Give each subscriber of a topic a run of its partitions; static members first, by their instances."""
    ordered = sorted(members, key=lambda item: (item.instance_id is None, item.instance_id or item.member_id))
    targets: dict[str, set[TopicIdPartition]] = {member.member_id: set() for member in ordered}
    for topic_id, count in partition_counts.items():
        subscribers = [member for member in ordered if topic_id in member.topic_ids]
        start = 0
        for index, member in enumerate(subscribers):
            size = count // len(subscribers) + (index < count % len(subscribers))
            targets[member.member_id].update((topic_id, number) for number in range(start, start + size))
            start += size
    return _frozen(targets)


def uniform_assignor(members: list[AssignedMember], partition_counts: Mapping[bytes, int]) -> Targets:
    """Give all members the same number of partitions, and move as few as possible."""
    ordered = sorted(members, key=lambda member: member.member_id)
    existing = frozenset(partition_counts)
    if len({member.topic_ids & existing for member in ordered}) <= 1:
        return _uniform_over_same_topics(ordered, partition_counts)
    return _Balancer(ordered, partition_counts).targets()


def _uniform_over_same_topics(
    members: list[AssignedMember], partition_counts: Mapping[bytes, int]
) -> Targets:
    """Let members with most partitions keep theirs first: then the fewest partitions move."""
    topics = members[0].topic_ids if members else frozenset()
    left = set(_partitions(tuple(item for item in partition_counts.items() if item[0] in topics)))
    quota, extra = divmod(len(left), max(len(members), 1))
    kept = {member.member_id: sorted(member.before & left) for member in members}
    targets: dict[str, set[TopicIdPartition]] = {}
    quotas: dict[str, int] = {}
    for member in sorted(members, key=lambda item: (-len(kept[item.member_id]), item.member_id)):
        quotas[member.member_id] = quota + (extra > 0)
        extra -= 1
        chosen = [partition for partition in kept[member.member_id] if partition in left]
        targets[member.member_id] = set(chosen[: quotas[member.member_id]])
        left -= targets[member.member_id]
    unassigned = iter(sorted(left))
    for member in members:
        mine = targets[member.member_id]
        mine.update(islice(unassigned, quotas[member.member_id] - len(mine)))
    return _frozen(targets)


@lru_cache(maxsize=8)
def _partitions(partition_counts: tuple[tuple[bytes, int], ...]) -> frozenset[TopicIdPartition]:
    """Return all partitions of these topics. Cached: in a large group many joins need the same set."""
    return frozenset((topic_id, number) for topic_id, count in partition_counts for number in range(count))


class _Balancer:
    """The uniform assignor where members subscribe to different topics."""

    def __init__(self, members: list[AssignedMember], partition_counts: Mapping[bytes, int]) -> None:
        self._counts = partition_counts
        self._subscribers = {
            topic_id: [member.member_id for member in members if topic_id in member.topic_ids]
            for topic_id in partition_counts
        }
        self._targets: dict[str, set[TopicIdPartition]] = {member.member_id: set() for member in members}
        taken: set[TopicIdPartition] = set()
        for member in members:
            mine = {item for item in member.before if item[0] in member.topic_ids and self._exists(item)}
            self._targets[member.member_id] = mine - taken
            taken |= mine
        self._unassigned = {
            topic_id: [number for number in range(count) if (topic_id, number) not in taken]
            for topic_id, count in partition_counts.items()
        }

    def _exists(self, partition: TopicIdPartition) -> bool:
        return 0 <= partition[1] < self._counts.get(partition[0], 0)

    def targets(self) -> Targets:
        """Return the balanced assignment."""
        topics = sorted((item for item in self._subscribers if self._subscribers[item]), key=self._order)
        for topic_id in topics:
            loads = sorted(map(self._load, self._subscribers[topic_id]))  # a sorted list is a heap
            for number in self._unassigned[topic_id]:
                load, least = loads[0]
                self._targets[least].add((topic_id, number))
                heapreplace(loads, (load + 1, least))
        for _ in range(BALANCE_ROUNDS_MAX):
            # Each round goes over all topics: a move in one topic may make a move in another possible.
            if not sum(self._balance(topic_id) for topic_id in topics):
                break
        return _frozen(self._targets)

    def _order(self, topic_id: bytes) -> tuple[float, int, bytes]:
        """Topics with most partitions per subscriber come first, then those with fewest subscribers."""
        subscribers = len(self._subscribers[topic_id])
        return -self._counts[topic_id] / subscribers, subscribers, topic_id

    def _load(self, member_id: str) -> tuple[int, str]:
        return len(self._targets[member_id]), member_id

    def _balance(self, topic_id: bytes) -> int:
        """Move partitions of a topic from the most to the least loaded subscriber; return how many."""
        owned: dict[str, list[int]] = {
            member_id: sorted(number for topic, number in self._targets[member_id] if topic == topic_id)
            for member_id in self._subscribers[topic_id]
        }
        moves = 0
        while givers := [member_id for member_id, numbers in owned.items() if numbers]:
            giver = max(givers, key=self._load)
            taker = min(owned, key=self._load)
            if len(self._targets[giver]) - len(self._targets[taker]) <= 1:
                break
            number = owned[giver].pop()
            self._targets[giver].discard((topic_id, number))
            self._targets[taker].add((topic_id, number))
            owned[taker].append(number)
            moves += 1
        return moves


def _frozen(targets: Mapping[str, set[TopicIdPartition]]) -> Targets:
    return {member_id: frozenset(partitions) for member_id, partitions in targets.items()}


ASSIGNORS: Mapping[str, Assignor] = MappingProxyType({"uniform": uniform_assignor, "range": range_assignor})
