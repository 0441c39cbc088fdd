"""The fixed part of a stored entry, read without its records.

An entry is a batch (format 2) or a message (formats 0 and 1, where a compressed message stands for several).
Its bytes are described in `ottla.model.record_layout`. Needs neither NumPy nor Numba: a broker appends and
serves before it has loaded them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ottla.model.record_layout import (
    BATCH,
    BATCH_OVERHEAD,
    CODEC_MASK,
    CONTROL,
    ENTRY_OVERHEAD,
    LEGACY_ATTRIBUTES_AT,
    LEGACY_BODY_AT_V1,
    LEGACY_TIMESTAMP_AT,
    MAGIC_AT,
    NO_TIMESTAMP,
    OFFSET_AND_SIZE,
    TIMESTAMP,
    TRANSACTIONAL,
)

# The most that `header_at` looks at, and enough for any entry but the shortest messages.
HEADER_BYTES = BATCH_OVERHEAD
# Makes a NamedTuple of a tuple of all its fields in half the time that its own constructor takes.
named = tuple.__new__
_ATTRIBUTES_AT = 22  # the lower byte of a batch's attributes


def is_transactional(records: bytes | bytearray | memoryview) -> bool:
    """Whether the first batch of a record set belongs to a transaction."""
    return (
        len(records) > _ATTRIBUTES_AT
        and records[MAGIC_AT] == 2
        and bool(records[_ATTRIBUTES_AT] & TRANSACTIONAL)
    )


class BatchHeader(NamedTuple):
    """The header of an entry. For formats 0 and 1 the producer's fields are -1.

    A compressed message only has the last of its offsets: `base_offset` is the same then, and
    `record_count` is 1 until `validation` has looked into it.
    """

    position: int  # in its file or record set
    size: int  # with the 12 bytes of offset and size
    base_offset: int
    last_offset: int
    magic: int
    attributes: int
    base_timestamp: int
    max_timestamp: int
    record_count: int
    leader_epoch: int = -1
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1

    @property
    def codec(self) -> int:
        """Number of the compression codec."""
        return self.attributes & CODEC_MASK

    @property
    def is_control(self) -> bool:
        """Whether it holds a transaction marker and no record."""
        return self.magic == 2 and bool(self.attributes & CONTROL)


def header_at(data: bytes | bytearray | memoryview, at: int, position: int) -> BatchHeader | None:
    """The header at data[at:]; None where the data end too early. `position`: where that is in the file."""
    room = len(data) - at
    if room <= LEGACY_TIMESTAMP_AT:
        return None
    magic = data[at + MAGIC_AT]
    if magic == 2:
        if room < BATCH_OVERHEAD:
            return None
        (
            offset,
            size,
            epoch,
            _,
            _,
            attributes,
            last,
            base_time,
            max_time,
            producer,
            producer_epoch,
            seq,
            n,
        ) = BATCH.unpack_from(data, at)
        return BatchHeader(
            position,
            size + ENTRY_OVERHEAD,
            offset,
            offset + last,
            2,
            attributes,
            base_time,
            max_time,
            n,
            epoch,
            producer,
            producer_epoch,
            seq,
        )
    offset, size = OFFSET_AND_SIZE.unpack_from(data, at)
    timestamp = NO_TIMESTAMP
    if magic == 1:
        if room < LEGACY_BODY_AT_V1:
            return None
        (timestamp,) = TIMESTAMP.unpack_from(data, at + LEGACY_TIMESTAMP_AT)
    attributes = data[at + LEGACY_ATTRIBUTES_AT]
    return BatchHeader(
        position, size + ENTRY_OVERHEAD, offset, offset, magic, attributes, timestamp, timestamp, 1
    )


def whole_entries(view: memoryview) -> Iterator[BatchHeader]:
    """The headers of all complete entries."""
    at = 0
    while (header := header_at(view, at, at)) is not None and at + header.size <= len(view):
        if header.size <= ENTRY_OVERHEAD:
            return
        yield header
        at += header.size
