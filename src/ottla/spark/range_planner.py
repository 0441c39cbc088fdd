"""Offset ranges → the tasks of a job. Pure.

Large ranges are split as the options say and as Spark's connector does: first into pieces of
maxRecordsPerPartition or maxBytesPerTask, then further until there are minPartitions. Small ranges share a
task, which Spark's connector cannot do: a task costs tens of milliseconds, and a topic with 100 quiet
partitions would need 100 of them. A task never gets two ranges of one partition.

Bytes are counted as on disk, compressed or not. A range's bytes are estimated from the log's average.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from ottla.model.topic_partition import TopicAndPartition

RECORDS_PER_TASK = 100_000
ROUNDING = 1e-6


class TaskRange(NamedTuple):
    """Offsets `start` to before `end` of a partition.

    Reading begins at `look_from`, to recognise repeated rows.
    """

    topic_partition: TopicAndPartition
    start: int
    end: int
    look_from: int | None = None

    @property
    def size(self) -> int:
        """The number of offsets; there may be fewer records."""
        return self.end - self.start

    @property
    def first(self) -> int:
        """The offset where reading begins."""
        return self.start if self.look_from is None else self.look_from


Task = tuple[TaskRange, ...]


@dataclass(frozen=True, slots=True)
class TaskSizes:
    """The options about task sizes. Ranges with fewer than `min_records` share a task; 0 turns that off."""

    min_partitions: int | None = None
    max_records: int | None = None
    min_records: int = RECORDS_PER_TASK
    max_bytes: int | None = None

    def most_records(self, bytes_per_offset: float) -> int | None:
        """The most offsets that a task may have, if each takes `bytes_per_offset` bytes; None without a
        limit."""
        limits = [] if self.max_records is None else [self.max_records]
        if self.max_bytes is not None and bytes_per_offset > 0:
            limits.append(max(1, int(self.max_bytes / bytes_per_offset)))
        return min(limits, default=None)


Densities = Mapping[TopicAndPartition, float]
"""Average bytes of an offset, by partition; partitions whose size is not known are missing."""


def plan(ranges: Sequence[TaskRange], sizes: TaskSizes, densities: Densities | None = None) -> list[Task]:
    """Assign every range with records, whole or in pieces, to exactly one task each."""
    known = densities or {}
    pieces = [
        piece
        for offset_range in ranges
        if offset_range.size > 0
        for piece in _by_most(offset_range, sizes.most_records(known.get(offset_range.topic_partition, 0)))
    ]
    wanted = sizes.min_partitions or 0
    if len(pieces) < wanted:
        return [(piece,) for piece in _by_count(pieces, wanted)]
    return _merged(pieces, sizes, wanted, known)


def _by_most(offset_range: TaskRange, most: int | None) -> list[TaskRange]:
    return _cut(offset_range, -(-offset_range.size // most)) if most is not None else [offset_range]


def _by_count(pieces: list[TaskRange], wanted: int) -> list[TaskRange]:
    """Split the largest piece again and again until there are `wanted` pieces."""
    # (minus the size of a part, index in the list, parts)
    heap = [(-float(piece.size), number, 1) for number, piece in enumerate(pieces)]
    heapq.heapify(heap)
    for _ in range(wanted - len(pieces)):
        if not heap or heap[0][0] >= -1:
            break  # single records cannot be split
        _, number, parts = heap[0]
        heapq.heapreplace(heap, (-pieces[number].size / (parts + 1), number, parts + 1))
    parts_of = {number: parts for _, number, parts in heap}
    return [part for number, piece in enumerate(pieces) for part in _cut(piece, parts_of[number])]


def _cut(offset_range: TaskRange, parts: int) -> list[TaskRange]:
    """Cut into parts whose sizes differ by at most one."""
    if parts <= 1:
        return [offset_range]
    parts = min(parts, offset_range.size)
    bounds = [offset_range.start + offset_range.size * number // parts for number in range(parts + 1)]
    return [TaskRange(offset_range.topic_partition, *pair) for pair in pairwise(bounds)]


def _merged(pieces: list[TaskRange], sizes: TaskSizes, wanted: int, densities: Densities) -> list[Task]:
    """Put small pieces into common tasks: the largest first, each into the task with the least so far."""

    def part(piece: TaskRange) -> float:
        """The piece's share of a task; from 1 on it gets a task of its own."""
        by_records = piece.size / sizes.min_records if sizes.min_records else 1.0
        if sizes.max_bytes is None:
            return by_records
        return max(by_records, piece.size * densities.get(piece.topic_partition, 0) / sizes.max_bytes)

    most = sizes.max_records or sum(piece.size for piece in pieces)
    large = [(piece,) for piece in pieces if part(piece) >= 1]
    small = sorted((piece for piece in pieces if part(piece) < 1), key=part, reverse=True)
    needed = math.ceil(sum(map(part, small)) - ROUNDING)
    count = max(needed, wanted - len(large), _pieces_of_one_partition(small))
    heap: list[tuple[float, int]] = [(0, number) for number in range(count)]
    tasks: list[list[TaskRange]] = [[] for _ in range(count)]
    for piece in small:
        passed: list[tuple[float, int]] = []
        while heap and _has_partition(tasks[heap[0][1]], piece):
            passed.append(heapq.heappop(heap))
        if not heap or sum(other.size for other in tasks[heap[0][1]]) + piece.size > most:
            heapq.heappush(heap, (0, len(tasks)))
            tasks.append([])
        size, number = heap[0]
        tasks[number].append(piece)
        heapq.heapreplace(heap, (size + part(piece), number))
        for other in passed:
            heapq.heappush(heap, other)
    return large + [tuple(sorted(task)) for task in tasks if task]


def _has_partition(task: list[TaskRange], offset_range: TaskRange) -> bool:
    return any(other.topic_partition == offset_range.topic_partition for other in task)


def _pieces_of_one_partition(pieces: list[TaskRange]) -> int:
    """Return the largest number of pieces of one partition: so many tasks keep them apart."""
    return max(Counter(piece.topic_partition for piece in pieces).values(), default=0)
