"""Record batches that are handed on as they are: no record is decoded, nothing is decompressed.

    offset      int64     of the first record
    records     int64     how many; their offsets have no gaps
    codec       int8      what the records are compressed by
    batch       binary    all bytes of the batch

A batch can stay whole if a broker would take it from a producer. Its base offset, producer and sequence are
another's, so that `stamped` writes others into its header; the checksum does not cover the first, and is made
anew for the rest. All else goes as columns: what is below the reader's position in part, what compaction has
left gaps in, what has the time of the log (only a broker writes that), other formats, and small batches side
by side: a Produce request carries one batch, so that requests cost more than decoding and joining them.

Brokers of formats 0 and 1 take many messages at once, which have no producer and whose checksums cover no
offset. There a row is a set of messages that are not compressed, and goes as it is.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

import crc32c
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ottla.kernels import layout
from ottla.records.builder import Stamp
from ottla.records.compression import Codec
from ottla.records.entries import Entries, Table
from ottla.records.reader import POOL
from ottla.records.slabs import SlabPool
from ottla.records.transactions import AbortedTransaction, visible

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
# What is written into a header, see `kernels.layout`: no leader's epoch; attributes; producer and sequence.
_NO_EPOCH, _EPOCH_AT = -1, 12
_ATTRIBUTES = struct.Struct(">h")
_PRODUCER, _PRODUCER_AT = struct.Struct(">qhi"), 43


class Keeping(NamedTuple):
    """What stays whole: batches of so many bytes, of this format, and of this codec if there is one.

    Compressed ones count four times: they are larger as columns, and to decompress them takes its time.
    """

    bytes_min: int
    codec: Codec | None = None
    magic: int = 2


class Segment(NamedTuple):
    """Entries first to last of a table that go the same way; `next_offset` is behind all of them."""

    first: int
    last: int
    is_whole: bool
    next_offset: int


def is_whole(columns: pa.RecordBatch) -> bool:
    """Whether these are batches, and not the columns of records."""
    return bool(columns.schema.names == SCHEMA.names)


def segments(
    entries: Entries, from_offset: int, aborted: Iterable[AbortedTransaction] | None, keeping: Keeping
) -> list[Segment]:
    """Which entries stay whole and which do not, in order; what is not delivered is in none of them."""
    table = entries.table
    keep = np.ones(len(table), np.bool_)
    if entries.summary.attributes & (layout.CONTROL | layout.TRANSACTIONAL):
        keep = visible(table, entries.data, aborted)
    keep &= (table[:, layout.LAST_OFFSET] >= from_offset) | (table[:, layout.MAGIC] != 2)
    kinds = np.where(keep, np.where(_can_stay(table, from_offset, keeping), 2, 1), 0)
    edges = [0, *(np.flatnonzero(np.diff(kinds)) + 1).tolist(), len(table)]
    return [
        Segment(first, last, kinds[first] == 2, int(table[first:last, layout.LAST_OFFSET].max()) + 1)
        for first, last in pairwise(edges)
        if first < last and kinds[first]
    ]


def _can_stay(table: Table, from_offset: int, keeping: Keeping) -> npt.NDArray[np.bool_]:
    attributes = table[:, layout.ATTRIBUTES]
    codecs = attributes & layout.CODEC_MASK
    can_stay: npt.NDArray[np.bool_] = (table[:, layout.MAGIC] == keeping.magic) & (
        table[:, layout.BASE_OFFSET] >= from_offset
    )
    if keeping.magic < 2:
        can_stay &= (attributes == 0) & (not keeping.codec)
        return can_stay
    offsets = table[:, layout.LAST_OFFSET] - table[:, layout.BASE_OFFSET] + 1
    sizes = (table[:, layout.END] - table[:, layout.ENTRY]) * np.where(codecs, COMPRESSED_COUNTS, 1)
    can_stay &= (
        (attributes & ~(layout.CODEC_MASK | layout.TRANSACTIONAL) == 0)
        & (table[:, layout.COUNT] > 0)
        & (table[:, layout.COUNT] == offsets)
    )
    if keeping.codec is not None:
        can_stay &= codecs == keeping.codec
    return can_stay & _are_worth_it(can_stay, sizes, keeping.bytes_min)


def _are_worth_it(
    can_stay: npt.NDArray[np.bool_], sizes: npt.NDArray[np.int64], bytes_min: int
) -> npt.NDArray[np.bool_]:
    """Large ones; and small ones side by side if they would fill few requests less when they are joined.

    A request more costs as much as decoding `bytes_min`. So a small one alone between others stays as it is.
    """
    are_worth_it = sizes >= bytes_min
    small = np.concatenate(([False], can_stay & ~are_worth_it, [False]))
    edges = np.flatnonzero(np.diff(small)).tolist()
    for first, last in zip(edges[::2], edges[1::2], strict=True):
        are_worth_it[first:last] = (last - first - 1) * bytes_min <= sizes[first:last].sum()
    return are_worth_it


def span(entries: Entries, segment: Segment) -> tuple[int, int]:
    """Where the bytes of a segment begin and end in the record set."""
    first, last = entries.table[segment.first], entries.table[segment.last - 1]
    return int(first[layout.ENTRY]), int(last[layout.END])


def whole(entries: Entries, segment: Segment, memory_bytes: int = 0, pool: SlabPool = POOL) -> pa.RecordBatch:
    """The batches of a segment that stays whole. They hold the memory that they were received into.

    That has `memory_bytes`. They are copied if it is far more than they need: they may wait for long.
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
        pa.array((table[firsts, layout.ATTRIBUTES] & layout.CODEC_MASK).astype(np.int8)),
        pa.Array.from_buffers(pa.binary(), len(firsts), data, 0),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def _firsts(table: Table) -> npt.NDArray[np.int64]:
    """The entries that rows begin with: each batch, and messages behind a full set or a gap of offsets."""
    if table[0, layout.MAGIC] == 2:
        return np.arange(len(table))
    sets = (table[:, layout.ENTRY] - table[0, layout.ENTRY]) // SET_BYTES
    breaks = (np.diff(sets) != 0) | (np.diff(table[:, layout.BASE_OFFSET]) != 1)
    return np.append(0, np.flatnonzero(breaks) + 1)


def stamped(batch: memoryview, stamp: Stamp, pool: SlabPool = POOL) -> memoryview:
    """A copy of a batch of format 2 as a producer sends it: numbered from 0, and in no transaction."""
    lease = pool.lease(len(batch))
    lease.slab.array[: len(batch)] = np.frombuffer(batch, np.uint8)
    out = lease.view(0, len(batch))
    struct.pack_into(">q", out, 0, stamp.base_offset)
    struct.pack_into(">i", out, _EPOCH_AT, _NO_EPOCH)
    (attributes,) = _ATTRIBUTES.unpack_from(out, layout.BATCH_ATTRIBUTES_AT)
    _ATTRIBUTES.pack_into(out, layout.BATCH_ATTRIBUTES_AT, attributes & ~layout.TRANSACTIONAL)
    _PRODUCER.pack_into(out, _PRODUCER_AT, stamp.producer_id, stamp.producer_epoch, stamp.base_sequence)
    covered = out[layout.BATCH_ATTRIBUTES_AT : layout.BATCH_OVERHEAD]
    if covered != batch[layout.BATCH_ATTRIBUTES_AT : layout.BATCH_OVERHEAD]:
        struct.pack_into(">I", out, layout.BATCH_CRC_AT, crc32c.crc32c(out[layout.BATCH_ATTRIBUTES_AT :]))
    return out.toreadonly()
