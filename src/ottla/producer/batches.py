"""A batch: parts for one partition that go into one Produce request together, and come back together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ottla.model.errors import OttlaError
from ottla.producer.deliveries import NO_TIME, UNKNOWN_OFFSET, Settled
from ottla.producer.parts import Part
from ottla.producer.sequences import SEQUENCE_MASK, Identity

NO_SEQUENCE = -1


class Batch:
    """Owned by its partition's queue. `number` is that of its first record, of all that the partition had."""

    __slots__ = (
        "attempts",
        "base_sequence",
        "count",
        "created_ms",
        "identity",
        "is_given_up",
        "may_be_stored",
        "not_before_ms",
        "number",
        "partition",
        "parts",
        "size",
        "topic",
    )

    def __init__(self, topic: str, partition: int, number: int, parts: Sequence[Part]) -> None:
        self.topic = topic
        self.partition = partition
        self.number = number
        self.parts = parts
        self.count = sum(part.count for part in parts)
        self.size = sum(part.size for part in parts)
        self.created_ms = min(part.created_ms for part in parts)
        self.identity: Identity | None = None
        self.base_sequence = NO_SEQUENCE
        self.attempts = 0
        self.not_before_ms = 0.0  # when it may be sent again
        self.may_be_stored = False  # it was sent, and what came of it is not known
        self.is_given_up = False  # its records are settled, though it is still in flight

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}: {self.count:,} records"

    def halves(self) -> tuple[Batch, Batch]:
        """The same records as two batches, with the numbers that they have now."""
        if len(self.parts) > 1:
            middle = len(self.parts) // 2
            pieces = self.parts[:middle], self.parts[middle:]
        else:
            first_part, second_part = self.parts[0].halves()
            pieces = [first_part], [second_part]
        first = Batch(self.topic, self.partition, self.number, pieces[0])
        second = Batch(self.topic, self.partition, self.number + first.count, pieces[1])
        for half in (first, second):
            half.identity, half.attempts = self.identity, self.attempts
        if self.base_sequence != NO_SEQUENCE:
            first.base_sequence = self.base_sequence
            second.base_sequence = (self.base_sequence + first.count) & SEQUENCE_MASK
        return first, second


class Outcome(NamedTuple):
    """What became of parts of one partition; `base_offset` is the first part's."""

    parts: Sequence[Part]
    partition: int
    base_offset: int = UNKNOWN_OFFSET
    append_time_ms: int = NO_TIME
    error: OttlaError | None = None

    def runs(self) -> Iterator[tuple[Part, Settled]]:
        """Each part with what its submission is to be told."""
        offset = self.base_offset
        for part in self.parts:
            yield part, Settled(part.rows, self.partition, offset, self.append_time_ms, self.error)
            if offset != UNKNOWN_OFFSET:
                offset += part.count
