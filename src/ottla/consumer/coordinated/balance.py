"""The balance of the sticky assignors: as even as the subscriptions allow, with as few moves as possible.

    keep     members keep the partitions that they own
    fill     a free partition goes to the member with the fewest partitions that wants its topic
    level    while a member has two partitions more than another one that it can pass partitions to, directly
             or through other members, one partition moves:  A(5) ──t──▶ B(4) ──u──▶ C(3)

The result is the most even assignment that exists (a semi-matching without a cost-reducing path is optimal).
If all members want the same topics, no partition moves that could stay.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence

from ottla.model.topic_partition import TopicAndPartition

WantedTopics = Mapping[str, frozenset[str]]
"""The topics that each member wants, by member id; members in order of precedence."""

OwnedPartitions = Mapping[str, Sequence[TopicAndPartition]]


def balanced(
    wanted: WantedTopics, partitions: Iterable[TopicAndPartition], owned: OwnedPartitions
) -> dict[str, list[TopicAndPartition]]:
    """Return the partitions of each member.

    `owned` must have each partition at most once, and only partitions that are in `partitions` and of topics
    that its member wants.
    """
    scales = _Scales(wanted, owned)
    kept = {topic_partition for member_partitions in owned.values() for topic_partition in member_partitions}
    scales.fill(sorted(topic_partition for topic_partition in partitions if topic_partition not in kept))
    scales.level()
    return {member: sorted(assigned) for member, assigned in scales.assigned.items()}


class _Scales:
    def __init__(self, wanted: WantedTopics, owned: OwnedPartitions) -> None:
        self._order = {member: number for number, member in enumerate(wanted)}
        self._owned = {member: frozenset(owned.get(member, ())) for member in wanted}
        self.assigned: dict[str, set[TopicAndPartition]] = {
            member: set(self._owned[member]) for member in wanted
        }
        self._topics: dict[str, dict[str, int]] = {member: {} for member in wanted}  # member → topic → count
        self._subscribers: dict[str, list[str]] = {}
        for member, topics in wanted.items():
            for topic in topics:
                self._subscribers.setdefault(topic, []).append(member)
            for topic_partition in self.assigned[member]:
                self._count(member, topic_partition.topic, 1)

    def _count(self, member: str, topic: str, change: int) -> None:
        counts = self._topics[member]
        counts[topic] = counts.get(topic, 0) + change
        if not counts[topic]:
            del counts[topic]

    def _load(self, member: str) -> int:
        return len(self.assigned[member])

    def fill(self, free: Sequence[TopicAndPartition]) -> None:
        """Give each free partition to the subscriber with the lowest load.

        Loads only grow here, so a heap entry that is too low is corrected when it comes to the top.
        """
        heaps: dict[tuple[str, ...], list[tuple[int, int, str]]] = {}
        for topic_partition in free:
            subscribers = tuple(self._subscribers.get(topic_partition.topic, ()))
            if not subscribers:
                continue
            heap = heaps.get(subscribers)
            if heap is None:
                heap = [(self._load(member), self._order[member], member) for member in subscribers]
                heapq.heapify(heap)
                heaps[subscribers] = heap
            while (load := self._load(heap[0][2])) != heap[0][0]:
                heapq.heapreplace(heap, (load, *heap[0][1:]))
            load, order, member = heap[0]
            self.assigned[member].add(topic_partition)
            self._count(member, topic_partition.topic, 1)
            heapq.heapreplace(heap, (load + 1, order, member))

    def level(self) -> None:
        """Move partitions from high to low loads, starting with the highest.

        A member that cannot pass a partition on now cannot do so later either, unless it gets more. The rest
        of the queue has nobody to pass partitions to once the highest load is at most one above the lowest.
        """
        queue = [(-self._load(member), self._order[member], member) for member in self.assigned]
        heapq.heapify(queue)
        lowest = min(map(len, self.assigned.values()), default=0)
        while queue:
            minus_load, order, member = heapq.heappop(queue)
            load = self._load(member)
            if -minus_load != load:
                heapq.heappush(queue, (-load, order, member))
                continue
            if load <= lowest + 1:
                return
            path = self._path_down(member)
            if path:
                self._shift(path)
                heapq.heappush(queue, (-self._load(member), order, member))
                lowest = min(map(len, self.assigned.values()))

    def _path_down(self, start: str) -> list[tuple[str, str, str]]:
        """The shortest path to a member with two partitions fewer, as steps (giver, topic, taker).

        Empty if there is no such member.
        """
        came_from: dict[str, tuple[str, str]] = {}
        seen_topics: set[str] = set()
        level = [start]
        while level:
            reached: list[str] = []
            for member in level:
                for topic in sorted(self._topics[member].keys() - seen_topics):
                    seen_topics.add(topic)
                    for subscriber in self._subscribers[topic]:
                        if subscriber != start and subscriber not in came_from:
                            came_from[subscriber] = (member, topic)
                            reached.append(subscriber)
            ends = [member for member in reached if self._load(member) <= self._load(start) - 2]
            if ends:
                end = min(ends, key=lambda member: (self._load(member), self._order[member]))
                return self._steps(came_from, start, end)
            level = reached
        return []

    @staticmethod
    def _steps(came_from: Mapping[str, tuple[str, str]], start: str, end: str) -> list[tuple[str, str, str]]:
        steps = []
        while end != start:
            giver, topic = came_from[end]
            steps.append((giver, topic, end))
            end = giver
        return steps[::-1]

    def _shift(self, path: list[tuple[str, str, str]]) -> None:
        """Move one partition per step: preferably one that the taker owned or that the giver did not own."""
        for giver, topic, taker in path:
            moved = min(
                (partition for partition in self.assigned[giver] if partition.topic == topic),
                key=lambda partition: (
                    partition not in self._owned[taker],
                    partition in self._owned[giver],
                    -partition.partition,
                ),
            )
            self.assigned[giver].remove(moved)
            self.assigned[taker].add(moved)
            self._count(giver, topic, -1)
            self._count(taker, topic, 1)
