"""Record batches that are handed on as they are: no record is decoded, nothing is decompressed.

    offset      int64     of the first record
    records     int64     how many; their offsets have no gaps
    codec       int8      what the records are compressed by
    batch       binary    all bytes of the batch

A batch can stay whole if a broker would take it from a producer. Its base offset, producer and sequence
belong to another producer, so `stamped` writes new ones into its header. The checksum does not cover the base
offset; because of the other two it is computed again. Everything else is delivered as columns: batches that
begin before the reader's position, batches with gaps left by compaction, batches with log append time (only a
broker may write that), other formats, and small batches that follow each other: a Produce request carries one
batch per partition, so sending each alone would cost more than decoding and joining them.

Brokers of formats 0 and 1 take many messages at once, which have no producer and whose checksums cover no
offset. There a row is a set of messages that are not compressed, and is sent unchanged.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ottla.kernels import layout
from ottla.model.checksums import crc32c
from ottla.model.record_layout import (
    BATCH_ATTRIBUTES,
    BATCH_ATTRIBUTES_AT,
    BATCH_CRC_AT,
    BATCH_OVERHEAD,
    BATCH_PRODUCER,
    BATCH_PRODUCER_ID_AT,
    CODEC_MASK,
    CONTROL,
    CRC,
    LEADER_EPOCH,
    LEADER_EPOCH_AT,
    NO_LEADER_EPOCH,
    OFFSET,
    OFFSET_AT,
    TRANSACTIONAL,
)
from ottla.records.builder import Stamp
from ottla.records.compression import Codec
from ottla.records.entries import Entries, Table
from ottla.records.slabs import POOL, SlabPool
from ottla.records.transactions import AbortedRange, visible

SCHEMA = pa.schema(
    [
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("records", pa.int64(), nullable=False),
        pa.field("codec", pa.int8(), nullable=False),
        pa.field("batch", pa.binary(), nullable=False),
    ]
)
COMPRESSED_COUNTS = 4
MEMORY_SHARE_MIN = 4  # a quarter of what was received
SET_BYTES = 512 << 10  # with a message of the same size it is a request of the usual size


class Keeping(NamedTuple):
    """Which batches stay whole: of at least `bytes_min`, of this format, of this codec unless it is None.

    The bytes of compressed batches count four times: as columns they are larger, and it takes time.
    """

    bytes_min: int
    codec: Codec | None = None
    magic: int = 2


class EntryRun(NamedTuple):
    """Entries first to last of a table, all kept whole or all decoded; `next_offset` is after all of them."""

    first: int
    last: int
    is_whole: bool
    next_offset: int


def is_whole(columns: pa.RecordBatch) -> bool:
    """Whether these are batches, and not the columns of records."""
    return bool(columns.schema.names == SCHEMA.names)


def segments(
    entries: Entries, from_offset: int, aborted: Iterable[AbortedRange] | None, keeping: Keeping
) -> list[EntryRun]:
    """Runs of entries that stay whole or not, in order; entries that are not delivered are in no run."""
    table = entries.table
    keep = np.ones(len(table), np.bool_)
    if entries.summary.attributes & (CONTROL | TRANSACTIONAL):
        keep = visible(table, entries.data, aborted)
    keep &= (table[:, layout.LAST_OFFSET] >= from_offset) | (table[:, layout.MAGIC] != 2)
    kinds = np.where(keep, np.where(_can_stay(table, from_offset, keeping), 2, 1), 0)
    edges = [0, *(np.flatnonzero(np.diff(kinds)) + 1).tolist(), len(table)]
    return [
        EntryRun(first, last, kinds[first] == 2, int(table[first:last, layout.LAST_OFFSET].max()) + 1)
        for first, last in pairwise(edges)
        if first < last and kinds[first]
    ]


def _can_stay(table: Table, from_offset: int, keeping: Keeping) -> npt.NDArray[np.bool_]:
    attributes = table[:, layout.ATTRIBUTES]
    codecs = attributes & CODEC_MASK
    can_stay: npt.NDArray[np.bool_] = (table[:, layout.MAGIC] == keeping.magic) & (
        table[:, layout.BASE_OFFSET] >= from_offset
    )
    if keeping.magic < 2:
        can_stay &= (attributes == 0) & (not keeping.codec)
        return can_stay
    offsets = table[:, layout.LAST_OFFSET] - table[:, layout.BASE_OFFSET] + 1
    sizes = (table[:, layout.END] - table[:, layout.ENTRY]) * np.where(codecs, COMPRESSED_COUNTS, 1)
    can_stay &= (
        (attributes & ~(CODEC_MASK | TRANSACTIONAL) == 0)
        & (table[:, layout.COUNT] > 0)
        & (table[:, layout.COUNT] == offsets)
    )
    if keeping.codec is not None:
        can_stay &= codecs == keeping.codec
    return can_stay & _are_worth_it(can_stay, sizes, keeping.bytes_min)


def _are_worth_it(
    can_stay: npt.NDArray[np.bool_], sizes: npt.NDArray[np.int64], bytes_min: int
) -> npt.NDArray[np.bool_]:
    """Return the large batches, and small ones between them where joining would save few requests.

    A request costs about as much as decoding `bytes_min`. So a single small batch between others stays whole.
    """
    are_worth_it = sizes >= bytes_min
    small = np.concatenate(([False], can_stay & ~are_worth_it, [False]))
    edges = np.flatnonzero(np.diff(small)).tolist()
    for first, last in zip(edges[::2], edges[1::2], strict=True):
        are_worth_it[first:last] = (last - first - 1) * bytes_min <= sizes[first:last].sum()
    return are_worth_it


def span(entries: Entries, segment: EntryRun) -> tuple[int, int]:
    """Where the bytes of a segment begin and end in the record set."""
    first, last = entries.table[segment.first], entries.table[segment.last - 1]
    return int(first[layout.ENTRY]), int(last[layout.END])


def whole(
    entries: Entries, segment: EntryRun, memory_bytes: int = 0, pool: SlabPool = POOL
) -> pa.RecordBatch:
    """The batches of a segment that stays whole. They hold the memory that they were received into.

    That memory has `memory_bytes`. If it is far more than the batches need, they are copied, since they may
    be kept for long.
    """
    table = entries.table[segment.first : segment.last]
    start, end = span(entries, segment)
    if (end - start) * MEMORY_SHARE_MIN >= memory_bytes:
        buffer = pa.py_buffer(entries.data[start:end])
    else:
        lease = pool.lease(end - start)
        lease.slab.array[: end - start] = entries.data[start:end]
        buffer = lease.buffer(0, end - start)
    firsts = _firsts(table)
    ends = np.append(table[firsts, layout.ENTRY], end) - start
    data = [None, pa.py_buffer(ends.astype(np.int32)), buffer]
    arrays = [
        pa.array(table[firsts, layout.BASE_OFFSET]),
        pa.array(np.add.reduceat(table[:, layout.COUNT], firsts)),
        pa.array((table[firsts, layout.ATTRIBUTES] & CODEC_MASK).astype(np.int8)),
        pa.Array.from_buffers(pa.binary(), len(firsts), data, 0),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def _firsts(table: Table) -> npt.NDArray[np.int64]:
    """The entries that rows begin with: each batch, and messages after a full set or a gap of offsets."""
    if table[0, layout.MAGIC] == 2:
        return np.arange(len(table))
    sets = (table[:, layout.ENTRY] - table[0, layout.ENTRY]) // SET_BYTES
    breaks = (np.diff(sets) != 0) | (np.diff(table[:, layout.BASE_OFFSET]) != 1)
    return np.append(0, np.flatnonzero(breaks) + 1)


def stamped(batch: memoryview, stamp: Stamp, pool: SlabPool = POOL) -> memoryview:
    """A copy of a batch of format 2 as a producer sends it: numbered from 0, in the stamp's transaction."""
    lease = pool.lease(len(batch))
    lease.slab.array[: len(batch)] = np.frombuffer(batch, np.uint8)
    out = lease.view(0, len(batch))
    OFFSET.pack_into(out, OFFSET_AT, stamp.base_offset)
    LEADER_EPOCH.pack_into(out, LEADER_EPOCH_AT, NO_LEADER_EPOCH)
    (attributes,) = BATCH_ATTRIBUTES.unpack_from(out, BATCH_ATTRIBUTES_AT)
    attributes = attributes | TRANSACTIONAL if stamp.transactional else attributes & ~TRANSACTIONAL
    BATCH_ATTRIBUTES.pack_into(out, BATCH_ATTRIBUTES_AT, attributes)
    producer = (stamp.producer_id, stamp.producer_epoch, stamp.base_sequence)
    BATCH_PRODUCER.pack_into(out, BATCH_PRODUCER_ID_AT, *producer)
    if out[BATCH_ATTRIBUTES_AT:BATCH_OVERHEAD] != batch[BATCH_ATTRIBUTES_AT:BATCH_OVERHEAD]:
        CRC.pack_into(out, BATCH_CRC_AT, crc32c(out[BATCH_ATTRIBUTES_AT:]))
    return out.toreadonly()
