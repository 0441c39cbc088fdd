"""A stored entry with some of its records taken out: what compaction leaves of it. Pure.

The records that stay keep their bytes, and the entry its offsets and producer; length, count, largest
timestamp and checksum change. Offsets have gaps then, which every reader must expect.

    batch 100-104, kept 101 and 103  →  base offset 100, last offset delta 4, two records with deltas 1 and 3

A batch of format 2 with tombstones gets a *delete horizon*, the time from which they may go (KIP-534): bit 6
of the attributes, and the horizon in the place of the base timestamp. Timestamps of records are relative to
the base, whatever it is, so readers need not know; but the records have to be written again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import compress as chosen

from ottla.log import legacy_sets
from ottla.log.batch_header import BatchHeader
from ottla.model.checksums import crc32c
from ottla.model.errors import CorruptRecord
from ottla.model.record_layout import (
    BATCH,
    BATCH_ATTRIBUTES_AT,
    BATCH_CRC_AT,
    BATCH_OVERHEAD,
    CODEC_MASK,
    CRC,
    DELETE_HORIZON,
    ENTRY_OVERHEAD,
    LOG_APPEND_TIME,
)
from ottla.records.compression import Codec, compress, decompress
from ottla.records.reader import DECOMPRESSED_BYTES_MAX
from ottla.records.record_bytes import append_varint, read_varint


def with_records(
    entry: memoryview, header: BatchHeader, kept: Sequence[bool], newest: int, horizon_ms: int | None = None
) -> bytes:
    """The entry with only the records that are `kept`; at least one is.

    `newest` is the largest of their timestamps. `horizon_ms` is for a batch of format 2 that has none yet.
    """
    timestamp = header.max_timestamp if header.attributes & LOG_APPEND_TIME else newest
    if header.magic < 2:
        return _wrapper(entry, header, kept, timestamp)
    codec = Codec.of_attributes(header.attributes)
    area = decompress(codec, entry[BATCH_OVERHEAD:], limit=DECOMPRESSED_BYTES_MAX).tobytes()
    records = [area[start:end] for start, end in chosen(_records(area), kept)]
    if horizon_ms is not None:
        records = [_moved(record, header.base_timestamp - horizon_ms) for record in records]
        bits = header.attributes | DELETE_HORIZON
        header = header._replace(attributes=bits, base_timestamp=horizon_ms)
    data = b"".join(records)
    count = len(records)
    return _batch(header._replace(max_timestamp=timestamp, record_count=count), compress(codec, data))


def without_records(header: BatchHeader) -> bytes:
    """An empty batch that keeps the offsets and the producer's last sequence of an entry.

    An entry of formats 0 and 1 becomes one of format 2 too: those formats have no empty batches.
    """
    attributes = header.attributes & ~(CODEC_MASK | DELETE_HORIZON) if header.magic == 2 else 0
    base_time = header.max_timestamp
    return _batch(header._replace(attributes=attributes, base_timestamp=base_time, record_count=0), b"")


def _batch(header: BatchHeader, records: bytes | memoryview) -> bytes:
    batch = bytearray(
        BATCH.pack(
            header.base_offset,
            BATCH_OVERHEAD - ENTRY_OVERHEAD + len(records),
            header.leader_epoch,
            2,
            0,
            header.attributes,
            header.last_offset - header.base_offset,
            header.base_timestamp,
            header.max_timestamp,
            header.producer_id,
            header.producer_epoch,
            header.base_sequence,
            header.record_count,
        )
    )
    batch += records
    CRC.pack_into(batch, BATCH_CRC_AT, crc32c(memoryview(batch)[BATCH_ATTRIBUTES_AT:]))
    return bytes(batch)


def _records(area: bytes) -> Iterator[tuple[int, int]]:
    """(start, end) of every record."""
    at = 0
    while at < len(area):
        start = at
        size, at = read_varint(area, at)
        at += size
        if size < 1 or at > len(area):
            raise CorruptRecord("a record's length does not fit its batch")
        yield start, at


def _moved(record: bytes, added_ms: int) -> bytes:
    """A record whose timestamp delta is larger by `added_ms`."""
    _, at = read_varint(record, 0)
    timestamp, behind = read_varint(record, at + 1)
    body = bytearray(record[at : at + 1])
    append_varint(body, timestamp + added_ms)
    body += record[behind:]
    moved = bytearray()
    append_varint(moved, len(body))
    return bytes(moved + body)


def _wrapper(entry: memoryview, header: BatchHeader, kept: Sequence[bool], timestamp: int) -> bytes:
    inner = memoryview(legacy_sets.unwrapped(entry, header))
    messages = list(legacy_sets.messages(inner))
    # Format 1 counts relative to the wrapper, whose offset is that of its last message.
    base = header.last_offset - messages[-1][0].base_offset if header.magic == 1 else 0
    rest = list(chosen(messages, kept))
    data = b"".join(raw for _, raw in rest)
    return bytes(legacy_sets.rewrapped(data, header, rest[-1][0].base_offset + base, timestamp))
