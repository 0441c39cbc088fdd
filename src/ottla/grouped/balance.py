"""The balance of the sticky assignors: as even as subscriptions allow, with as little moved as that needs.

    keep     what members own stays with them
    fill     what nobody owns goes to the member with the fewest, among those who want the topic
    level    while some member has two more than another that it can hand down to, one partition moves; on
             the way it may push others on:  A(5) ──t──▶ B(4) ──u──▶ C(3)

The last step ends in the most even assignment that there is (a semi-matching without a cost-reducing path is
optimal), and where all members want the same, no partition moves that need not.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable, Mapping, Sequence

from ottla.fetching.places import TopicAndPartition

Wants = Mapping[str, frozenset[str]]
"""Which topics each member wants; members in order of precedence."""

Holdings = Mapping[str, Sequence[TopicAndPartition]]


def balanced(
    wants: Wants, partitions: Iterable[TopicAndPartition], owned: Holdings
) -> dict[str, list[TopicAndPartition]]:
    """The partitions of each member. `owned` has each partition once, and none that its member does not want
    or that is not among `partitions`."""
    scales = _Scales(wants, owned)
    held = {place for places in owned.values() for place in places}
    scales.fill(sorted(place for place in partitions if place not in held))
    scales.level()
    return {member: sorted(places) for member, places in scales.holdings.items()}


class _Scales:
    def __init__(self, wants: Wants, owned: Holdings) -> None:
        self._order = {member: number for number, member in enumerate(wants)}
        self._owned = {member: frozenset(owned.get(member, ())) for member in wants}
        self.holdings: dict[str, set[TopicAndPartition]] = {
            member: set(self._owned[member]) for member in wants
        }
        self._topics: dict[str, dict[str, int]] = {member: {} for member in wants}  # member → topic → count
        self._takers: dict[str, list[str]] = {}
        for member, topics in wants.items():
            for topic in topics:
                self._takers.setdefault(topic, []).append(member)
            for place in self.holdings[member]:
                self._count(member, place.topic, 1)

    def _count(self, member: str, topic: str, change: int) -> None:
        counts = self._topics[member]
        counts[topic] = counts.get(topic, 0) + change
        if not counts[topic]:
            del counts[topic]

    def _load(self, member: str) -> int:
        return len(self.holdings[member])

    def fill(self, free: Sequence[TopicAndPartition]) -> None:
        """Loads only grow here, so an entry of a heap that is too low is put right when it comes up."""
        heaps: dict[tuple[str, ...], list[tuple[int, int, str]]] = {}
        for place in free:
            takers = tuple(self._takers.get(place.topic, ()))
            if not takers:
                continue
            heap = heaps.get(takers)
            if heap is None:
                heap = heaps[takers] = [(self._load(one), self._order[one], one) for one in takers]
                heapq.heapify(heap)
            while (load := self._load(heap[0][2])) != heap[0][0]:
                heapq.heapreplace(heap, (load, *heap[0][1:]))
            load, order, member = heap[0]
            self.holdings[member].add(place)
            self._count(member, place.topic, 1)
            heapq.heapreplace(heap, (load + 1, order, member))

    def level(self) -> None:
        """From the fullest down: who cannot hand down now cannot later either, unless it gets more."""
        pending = sorted(self.holdings, key=lambda one: (-self._load(one), self._order[one]))
        queue = [(-self._load(one), self._order[one], one) for one in pending]
        heapq.heapify(queue)
        while queue:
            minus_load, order, member = heapq.heappop(queue)
            if -minus_load != self._load(member):
                heapq.heappush(queue, (-self._load(member), order, member))
                continue
            path = self._path_down(member)
            if path:
                self._shift(path)
                heapq.heappush(queue, (-self._load(member), order, member))

    def _path_down(self, start: str) -> list[tuple[str, str, str]]:
        """The shortest way to somebody with two fewer, as steps (from, topic, to); empty if there is none."""
        came: dict[str, tuple[str, str]] = {}
        seen_topics: set[str] = set()
        level = deque([start])
        while level:
            found: list[str] = []
            reached: list[str] = []
            for member in level:
                for topic in sorted(self._topics[member].keys() - seen_topics):
                    seen_topics.add(topic)
                    for taker in self._takers[topic]:
                        if taker != start and taker not in came:
                            came[taker] = (member, topic)
                            reached.append(taker)
            found = [one for one in reached if self._load(one) <= self._load(start) - 2]
            if found:
                return self._steps(
                    came, start, min(found, key=lambda one: (self._load(one), self._order[one]))
                )
            level = deque(reached)
        return []

    @staticmethod
    def _steps(came: Mapping[str, tuple[str, str]], start: str, end: str) -> list[tuple[str, str, str]]:
        steps = []
        while end != start:
            giver, topic = came[end]
            steps.append((giver, topic, end))
            end = giver
        return steps[::-1]

    def _shift(self, path: list[tuple[str, str, str]]) -> None:
        """One partition a step. First choice is what the taker owned before, then what the giver did not."""
        for giver, topic, taker in path:
            place = min(
                (one for one in self.holdings[giver] if one.topic == topic),
                key=lambda one: (one not in self._owned[taker], one in self._owned[giver], -one.partition),
            )
            self.holdings[giver].remove(place)
            self.holdings[taker].add(place)
            self._count(giver, topic, -1)
            self._count(taker, topic, 1)
