"""Offset ranges → the tasks of a job. Pure.

Large ranges are split where the options ask for it, as Spark's connector does: first into pieces of
maxRecordsPerPartition, or of maxBytesPerTask, then further until there are minPartitions. Small ranges are
put together, which Spark's connector cannot: a task costs tens of milliseconds, and a topic with 100 quiet
partitions would pay for 100. A task never gets two ranges of one partition.

Bytes are those of the log, so compressed ones where it is compressed, and those of a range are what its
offsets have on average.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from ottla.model.topic_partition import TopicAndPartition

RECORDS_PER_TASK = 50_000
ROUNDING = 1e-6


class OffsetRange(NamedTuple):
    """Records of a partition from `start` to before `end`; `look_from` there may be something to learn."""

    topic_partition: TopicAndPartition
    start: int
    end: int
    look_from: int | None = None

    @property
    def size(self) -> int:
        """Offsets in it; records may be fewer."""
        return self.end - self.start

    @property
    def first(self) -> int:
        """Where reading begins."""
        return self.start if self.look_from is None else self.look_from


Task = tuple[OffsetRange, ...]


@dataclass(frozen=True, slots=True)
class TaskSizes:
    """What the options say. Tasks of fewer than `min_records` are put together; 0 keeps each range alone."""

    min_partitions: int | None = None
    max_records: int | None = None
    min_records: int = RECORDS_PER_TASK
    max_bytes: int | None = None

    def most_records(self, bytes_per_offset: float) -> int | None:
        """How many offsets of that size a task has at most."""
        limits = [] if self.max_records is None else [self.max_records]
        if self.max_bytes is not None and bytes_per_offset > 0:
            limits.append(max(1, int(self.max_bytes / bytes_per_offset)))
        return min(limits, default=None)


Densities = Mapping[TopicAndPartition, float]
"""Bytes that an offset of a partition has on average; partitions whose size nobody tells are missing."""


def plan(ranges: Sequence[OffsetRange], sizes: TaskSizes, densities: Densities | None = None) -> list[Task]:
    """Every range with records, whole or in pieces, in exactly one task."""
    known = densities or {}
    pieces = [
        piece
        for one in ranges
        if one.size > 0
        for piece in _by_most(one, sizes.most_records(known.get(one.topic_partition, 0)))
    ]
    wanted = sizes.min_partitions or 0
    if len(pieces) < wanted:
        return [(piece,) for piece in _by_count(pieces, wanted)]
    return _merged(pieces, sizes, wanted, known)


def _by_most(one: OffsetRange, most: int | None) -> list[OffsetRange]:
    return _cut(one, -(-one.size // most)) if most is not None else [one]


def _by_count(pieces: list[OffsetRange], wanted: int) -> list[OffsetRange]:
    """Split until there are `wanted`, always the piece that is the largest by then."""
    # (minus the size of a part, place in the list, parts)
    heap = [(-float(piece.size), place, 1) for place, piece in enumerate(pieces)]
    heapq.heapify(heap)
    for _ in range(wanted - len(pieces)):
        if not heap or heap[0][0] >= -1:
            break  # single records cannot be split
        _, place, parts = heap[0]
        heapq.heapreplace(heap, (-pieces[place].size / (parts + 1), place, parts + 1))
    parts_of = {place: parts for _, place, parts in heap}
    return [part for place, piece in enumerate(pieces) for part in _cut(piece, parts_of[place])]


def _cut(one: OffsetRange, parts: int) -> list[OffsetRange]:
    """Parts of the same size, or one record more."""
    if parts <= 1:
        return [one]
    parts = min(parts, one.size)
    bounds = [one.start + one.size * number // parts for number in range(parts + 1)]
    return [OffsetRange(one.topic_partition, *pair) for pair in pairwise(bounds)]


def _merged(pieces: list[OffsetRange], sizes: TaskSizes, wanted: int, densities: Densities) -> list[Task]:
    """Small pieces together, the largest first and each into the task that has the least so far."""

    def part(one: OffsetRange) -> float:
        """How much of a task it is: 1 and more is one of its own."""
        by_records = one.size / sizes.min_records if sizes.min_records else 1.0
        if sizes.max_bytes is None:
            return by_records
        return max(by_records, one.size * densities.get(one.topic_partition, 0) / sizes.max_bytes)

    small = sorted((one for one in pieces if part(one) < 1), key=lambda one: -part(one))
    large = [(one,) for one in pieces if part(one) >= 1]
    count = max(
        math.ceil(sum(map(part, small)) - ROUNDING), wanted - len(large), _pieces_of_one_partition(small)
    )
    heap: list[tuple[float, int]] = [(0, number) for number in range(count)]
    tasks: list[list[OffsetRange]] = [[] for _ in range(count)]
    for one in small:
        passed: list[tuple[float, int]] = []
        while _has_partition(tasks[heap[0][1]], one):
            passed.append(heapq.heappop(heap))
        size, number = heap[0]
        tasks[number].append(one)
        heapq.heapreplace(heap, (size + part(one), number))
        for other in passed:
            heapq.heappush(heap, other)
    return large + [tuple(sorted(task)) for task in tasks if task]


def _has_partition(task: list[OffsetRange], one: OffsetRange) -> bool:
    return any(other.topic_partition == one.topic_partition for other in task)


def _pieces_of_one_partition(pieces: list[OffsetRange]) -> int:
    """The most pieces that any partition has: as many tasks are needed to keep them apart."""
    counts: dict[TopicAndPartition, int] = {}
    for one in pieces:
        counts[one.topic_partition] = counts.get(one.topic_partition, 0) + 1
    return max(counts.values(), default=0)
