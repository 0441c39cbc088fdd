"""Acknowledgements of a member: ranges of offsets and their types, checked as Kafka checks them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import IntEnum
from itertools import groupby
from typing import NamedTuple

from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError
from ottla.wire.api.share_fetch import AcknowledgementBatch


class AcknowledgeType(IntEnum):
    """How a member acknowledges a record. A gap is an offset that the fetched data did not have."""

    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


class AcknowledgedRange(NamedTuple):
    """Offsets from `first` to `last`, both included, with the same type."""

    first: int
    last: int
    kind: AcknowledgeType


def acknowledged_ranges(
    batches: Iterable[AcknowledgementBatch], *, may_renew: bool = False
) -> list[AcknowledgedRange]:
    """Return the ranges of batches, in order. Raises KafkaError 42 for invalid batches.

    A batch has one type for all of its offsets, or one for each. Renewals need `may_renew`.
    """
    ranges: list[AcknowledgedRange] = []
    previous = -1
    for batch in batches:
        count, types = batch.last_offset - batch.first_offset + 1, batch.acknowledge_types
        text = f"acknowledged offsets {batch.first_offset} to {batch.last_offset}"
        if count < 1:
            raise KafkaError(Code.INVALID_REQUEST, f"{text}: the end is before the beginning")
        if batch.first_offset <= previous:
            raise KafkaError(Code.INVALID_REQUEST, f"{text}: they overlap or are out of order")
        if len(types) not in (1, count):
            raise KafkaError(Code.INVALID_REQUEST, f"{text}: {len(types)} types for {count} offsets")
        newest = AcknowledgeType.RENEW if may_renew else AcknowledgeType.REJECT
        if not all(AcknowledgeType.GAP <= kind <= newest for kind in types):
            raise KafkaError(
                Code.INVALID_REQUEST, f"{text}: types {sorted(set(types))}, known are 0 to {newest}"
            )
        ranges += _ranges(batch)
        previous = batch.last_offset
    return ranges


def _ranges(batch: AcknowledgementBatch) -> Iterator[AcknowledgedRange]:
    if len(batch.acknowledge_types) == 1:
        yield AcknowledgedRange(
            batch.first_offset, batch.last_offset, AcknowledgeType(batch.acknowledge_types[0])
        )
        return
    first = batch.first_offset
    for kind, group in groupby(batch.acknowledge_types):
        last = first + sum(1 for _ in group) - 1
        yield AcknowledgedRange(first, last, AcknowledgeType(kind))
        first = last + 1
