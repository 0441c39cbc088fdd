"""A stored entry with some of its records taken out: what compaction leaves of it. Pure.

The records that stay keep their bytes, and the entry its offsets, timestamps and producer; only length, count
and checksum change. Offsets have gaps then, which every reader must expect.

    batch 100-104, kept 101 and 103  →  base offset 100, last offset delta 4, two records with deltas 1 and 3
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import crc32c

from ottla.log import legacy_sets
from ottla.log.batch_header import (
    BATCH,
    BATCH_ATTRIBUTES_AT,
    BATCH_CRC_AT,
    BATCH_OVERHEAD,
    CODEC_MASK,
    CRC,
    ENTRY_OVERHEAD,
    SIZE,
    BatchHeader,
)
from ottla.model.errors import CorruptRecord
from ottla.records.compression import Codec, compress, decompress
from ottla.records.reader import DECOMPRESSED_BYTES_MAX

RECORD_COUNT_AT = 57


def with_records(entry: memoryview, header: BatchHeader, kept: set[int]) -> bytes:
    """The entry with only the records at the offsets `kept`, which is neither empty nor all of them."""
    return (_batch if header.magic == 2 else _wrapper)(entry, header, kept)


def without_records(header: BatchHeader) -> bytes:
    """An empty batch that keeps the offsets and the producer's last sequence of an entry.

    An entry of formats 0 and 1 becomes one of format 2 too: those formats have no empty batches.
    """
    attributes = header.attributes & ~CODEC_MASK if header.magic == 2 else 0
    delta = header.last_offset - header.base_offset
    batch = bytearray(
        BATCH.pack(
            header.base_offset,
            BATCH_OVERHEAD - ENTRY_OVERHEAD,
            header.leader_epoch,
            2,
            0,
            attributes,
            delta,
            header.max_timestamp,
            header.max_timestamp,
            header.producer_id,
            header.producer_epoch,
            header.base_sequence,
            0,
        )
    )
    return _with_checksum(batch)


def _batch(entry: memoryview, header: BatchHeader, kept: set[int]) -> bytes:
    codec = Codec.of_attributes(header.attributes)
    area = decompress(codec, entry[BATCH_OVERHEAD:], limit=DECOMPRESSED_BYTES_MAX).tobytes()
    records = [area[start:end] for start, end, delta in _records(area) if header.base_offset + delta in kept]
    data = compress(codec, b"".join(records)) if codec else b"".join(records)
    batch = bytearray(entry[:BATCH_OVERHEAD]) + data
    SIZE.pack_into(batch, 8, len(batch) - ENTRY_OVERHEAD)
    struct.pack_into(">i", batch, RECORD_COUNT_AT, len(records))
    return _with_checksum(batch)


def _with_checksum(batch: bytearray) -> bytes:
    CRC.pack_into(batch, BATCH_CRC_AT, crc32c.crc32c(memoryview(batch)[BATCH_ATTRIBUTES_AT:]))
    return bytes(batch)


def _records(area: bytes) -> Iterator[tuple[int, int, int]]:
    """(start, end, offset delta) of every record."""
    at = 0
    while at < len(area):
        start = at
        size, at = _varint(area, at)
        end = at + size
        if size < 1 or end > len(area):
            raise CorruptRecord("a record's length does not fit its batch")
        _, after = _varint(area, at + 1)
        delta, _ = _varint(area, after)
        yield start, end, delta
        at = end


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A zig-zag number and the position behind it."""
    number = shift = 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), at
        shift += 7


def _wrapper(entry: memoryview, header: BatchHeader, kept: set[int]) -> bytes:
    inner = memoryview(legacy_sets.unwrapped(entry, header))
    found = list(legacy_sets.messages(inner))
    # Format 1 counts relative to the wrapper, whose offset is that of its last message.
    base = header.last_offset - found[-1][0].base_offset if header.magic == 1 else 0
    rest = [(item.base_offset + base, item, raw) for item, raw in found if item.base_offset + base in kept]
    data = b"".join(raw for _, _, raw in rest)
    newest = max(item.max_timestamp for _, item, _ in rest)
    timestamp = header.max_timestamp if header.attributes & 0x08 else newest
    return bytes(legacy_sets.rewrapped(data, header, rest[-1][0], timestamp))
