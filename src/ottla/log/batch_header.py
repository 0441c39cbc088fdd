"""The fixed part of a stored entry, read without its records.

An entry is a batch (format 2) or a message (formats 0 and 1, where a compressed message stands for several).
Positions are told in `ottla.kernels.layout`; they are repeated here as two structs because that package loads
Numba, and a broker must append and serve before it has.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

ENTRY_OVERHEAD = 12
MAGIC_AT = 16
BATCH_OVERHEAD = 61
BATCH_CRC_AT = 17
BATCH_ATTRIBUTES_AT = 21
BATCH_BASE_TIMESTAMP_AT = 27
BATCH_MAX_TIMESTAMP_AT = 35
LEGACY_CRC_AT = 12
LEGACY_ATTRIBUTES_AT = 17
LEGACY_TIMESTAMP_AT = 18
BATCH_LAST_OFFSET_DELTA_AT = 23
SIZE_MIN = {0: 14, 1: 22, 2: BATCH_OVERHEAD - ENTRY_OVERHEAD}
# The most that `header_at` looks at, and enough for any entry but the shortest messages.
HEADER_BYTES = BATCH_OVERHEAD

CODEC_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40  # the base timestamp tells when tombstones may go
NO_TIMESTAMP = -1

BATCH = struct.Struct(">qiibIhiqqqhii")
OFFSET_AND_SIZE = struct.Struct(">qi")
OFFSET_SIZE_EPOCH = struct.Struct(">qii")
OFFSET = struct.Struct(">q")
SIZE = struct.Struct(">i")
CRC = struct.Struct(">I")
TIMESTAMP = struct.Struct(">q")
LEADER_EPOCH = struct.Struct(">i")
LEADER_EPOCH_AT = 12


# Makes a NamedTuple of a tuple of all its fields in half the time that its own constructor takes.
named = tuple.__new__


class BatchHeader(NamedTuple):
    """What an entry says of itself. For formats 0 and 1 the producer's fields are -1.

    A compressed message only tells the last of its offsets: `base_offset` is then that too, and
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
    """The header at data[at:], which is byte `position` of its file; None where the data end too early."""
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
        if room < LEGACY_TIMESTAMP_AT + 8:
            return None
        (timestamp,) = TIMESTAMP.unpack_from(data, at + LEGACY_TIMESTAMP_AT)
    attributes = data[at + LEGACY_ATTRIBUTES_AT]
    return BatchHeader(
        position, size + ENTRY_OVERHEAD, offset, offset, magic, attributes, timestamp, timestamp, 1
    )


def whole_entries(view: memoryview) -> Iterator[BatchHeader]:
    """Headers of the entries that are there to their last byte."""
    at = 0
    while (header := header_at(view, at, at)) is not None and at + header.size <= len(view):
        if header.size <= ENTRY_OVERHEAD:
            return
        yield header
        at += header.size
