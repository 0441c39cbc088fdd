"""A batch: parts for one partition that are sent, answered and sent again together. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ottla.model.errors import KafkaError, OttlaError
from ottla.producer.parts import Part
from ottla.producer.sequences import SEQUENCE_MASK, Identity
from ottla.producer.settled_rows import NO_TIME, UNKNOWN_OFFSET, SettledRows

NO_SEQUENCE = -1


class ProducerBatch:
    """Owned by its partition's queue. `number` counts the partition's records before this batch."""

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
        self.may_be_stored = False  # it was sent, and it is not known whether it is stored
        self.is_given_up = False  # its records have failed, but it is still in flight

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}: {self.count:,} records"

    def halves(self) -> tuple[ProducerBatch, ProducerBatch]:
        """Return the same records as two batches with the same sequence numbers."""
        if len(self.parts) > 1:
            middle = len(self.parts) // 2
            pieces = self.parts[:middle], self.parts[middle:]
        else:
            first_part, second_part = self.parts[0].halves()
            pieces = [first_part], [second_part]
        first = ProducerBatch(self.topic, self.partition, self.number, pieces[0])
        second = ProducerBatch(self.topic, self.partition, self.number + first.count, pieces[1])
        for half in (first, second):
            half.identity, half.attempts = self.identity, self.attempts
        if self.base_sequence != NO_SEQUENCE:
            first.base_sequence = self.base_sequence
            second.base_sequence = (self.base_sequence + first.count) & SEQUENCE_MASK
        return first, second


class BatchOutcome(NamedTuple):
    """The outcome of some parts of one partition; `base_offset` is that of the first part."""

    parts: Sequence[Part]
    partition: int
    base_offset: int = UNKNOWN_OFFSET
    append_time_ms: int = NO_TIME
    error: OttlaError | None = None

    def runs(self) -> Iterator[tuple[Part, SettledRows]]:
        """Yield each part, and what to report to its submission."""
        offset = self.base_offset
        if isinstance(self.error, KafkaError) and self.error.record_errors:
            yield from self._runs_by_record(self.error)
            return
        for part in self.parts:
            yield part, SettledRows(part.rows, self.partition, offset, self.append_time_ms, self.error)
            if offset != UNKNOWN_OFFSET:
                offset += part.count

    def _runs_by_record(self, error: KafkaError) -> Iterator[tuple[Part, SettledRows]]:
        """Yield the reason of each record that the broker names as bad; the other records get an error that
        says so.
        """
        others = KafkaError(error.code, "not stored, because other records of its batch were refused")
        refused = sorted(error.record_errors)
        first = 0
        for part in self.parts:
            partition_name = f"{part.submission.topic}-{self.partition}"
            own = [index - first for index in refused if first <= index < first + part.count]
            for index in own:
                why = KafkaError(error.code, f"{partition_name}: {error.record_errors[first + index]}")
                yield part, SettledRows(part.rows[index : index + 1], self.partition, error=why)
            if len(own) < part.count:
                rows = np.delete(np.asarray(part.rows, np.int64), own)
                yield part, SettledRows(rows, self.partition, error=others)
            first += part.count
