"""Record sets into Arrow: any mixture of formats 0, 1 and 2, compressed or not.

    bytes ── scan ──▶ entries ── decompress ──▶ entries ── decode kernels ──▶ columns of one slab ──▶ Arrow

Nothing is lost by damage: what stands before it is returned together with it, `next_offset` stays in
front of it, and the next call from there raises. A partial last entry is not damage: brokers cut.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

from ottla import kernels
from ottla.kernels import layout
from ottla.model.errors import CorruptRecord
from ottla.records.columns import EMPTY_INT64, SCHEMA, SCHEMA_WITH_HEADERS, HeaderColumns, RecordColumns
from ottla.records.entries import Entries, U8Array, damaged, decompressed, hide, read_only, scan
from ottla.records.slabs import SlabPool
from ottla.records.transactions import AbortedTransaction, visible

# Arrow's binary has 32-bit offsets, and a fetch response is at most 2 GiB; compressed data can be a bomb.
DECOMPRESSED_BYTES_MAX = 256 << 20
COLUMN_BYTES_MAX = (1 << 31) - 1
POOL = SlabPool(reserve_bytes=64 << 20)


@dataclass(frozen=True, slots=True)
class Decoded:
    """Records in order, and where to go on.

    `next_offset`: the offset to fetch next. It passes over what is not delivered (control batches,
    aborted transactions, records compacted away), so it is not the last record's offset + 1.
    `valid_bytes`: how much of the record set is covered.
    `damage`: what stands right behind, if the record set is damaged there.
    """

    batch: pa.RecordBatch
    next_offset: int
    valid_bytes: int
    damage: CorruptRecord | None = None


def decode(
    data: bytes | bytearray | memoryview | U8Array,
    *,
    from_offset: int = 0,
    verify_crc: bool = True,
    headers: bool = False,
    aborted: Iterable[AbortedTransaction] = (),
    decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX,
    pool: SlabPool = POOL,
) -> Decoded:
    """Decode a record set as a fetch response or a log segment holds it.

    Records below `from_offset` are skipped: brokers send whole batches. `aborted` hides the transactions
    that a fetch response lists as aborted. Raises CorruptRecord if the first entry is damaged. Thread-safe.
    """
    entries = scan(read_only(data), verify_crc=verify_crc)
    hide(entries.table, ~visible(entries.table, entries.data, aborted))
    entries = decompressed(entries, verify_crc=verify_crc, limit=decompressed_bytes_max)
    entries = _within_int32(entries)
    columns, spans, entries = _decode_columns(entries, from_offset, pool, headers=headers)
    arrays, damage = columns.arrays(), entries.damage
    next_offset = max(from_offset, entries.next_offset)
    if spans is None:
        batch = pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)
    else:
        header_array, header_damage = _decode_headers(entries, columns, spans, pool)
        rows = len(header_array)
        batch = pa.RecordBatch.from_arrays(
            [*(array[:rows] for array in arrays), header_array], schema=SCHEMA_WITH_HEADERS
        )
        if header_damage is not None:
            damage, next_offset = header_damage, int(columns.offsets[rows])
    if damage is not None and batch.num_rows == 0 and (not entries.valid_bytes or next_offset <= from_offset):
        raise damage
    return Decoded(batch, next_offset, entries.valid_bytes, damage)


def _within_int32(entries: Entries) -> Entries:
    """Leave to another call what would make a column's data exceed 32-bit offsets."""
    ends = np.cumsum(entries.table[:, layout.END] - entries.table[:, layout.START])
    if not ends.size or ends[-1] <= COLUMN_BYTES_MAX:
        return entries
    return entries.cut(int(np.searchsorted(ends, COLUMN_BYTES_MAX, side="right")), None)


def _decode_columns(
    entries: Entries, from_offset: int, pool: SlabPool, *, headers: bool
) -> tuple[RecordColumns, HeaderSpans | None, Entries]:
    table = entries.table
    sizes = table[:, layout.END] - table[:, layout.START]
    batches = table[:, layout.MAGIC] == 2
    # A count is only believed as far as the bytes can hold so many records.
    rows = int(np.minimum(table[:, layout.COUNT], np.where(batches, sizes // layout.RECORD_SIZE_MIN, 1)).sum())
    columns = RecordColumns(pool, rows, int(sizes.sum()))
    spans = HeaderSpans(rows) if headers else None
    starts = [0, *(np.flatnonzero(batches[1:] != batches[:-1]) + 1).tolist(), len(table)]
    for first, last in pairwise(starts):
        if first == last:
            continue
        decode_run = kernels.decode_batches if batches[first] else kernels.decode_messages
        status = decode_run(
            entries.data,
            entries.arena,
            table,
            first,
            last,
            from_offset,
            *columns.outputs(),
            spans.start if spans else EMPTY_INT64,
            spans.stop if spans else EMPTY_INT64,
            columns.state,
        )
        if status != layout.OK:
            return columns, spans, damaged(entries, int(columns.state[layout.FAILED_ROW]), layout.REASONS[status])
    return columns, spans, entries


class HeaderSpans:
    """Where each record's headers begin and end."""

    def __init__(self, rows: int) -> None:
        # One more than needed: kernels take an empty array for "not asked for".
        self.start = np.empty(rows + 1, np.int64)
        self.stop = np.empty(rows + 1, np.int64)


def _decode_headers(
    entries: Entries, columns: RecordColumns, spans: HeaderSpans, pool: SlabPool
) -> tuple[pa.Array, CorruptRecord | None]:
    rows = columns.rows
    start = spans.start[:rows]
    data_bytes = int((spans.stop[:rows] - np.where(start < 0, ~start, start)).sum())
    headers = HeaderColumns(pool, rows, int(columns.state[layout.HEADERS]), data_bytes)
    status = kernels.decode_headers(
        entries.data, entries.arena, spans.start, spans.stop, rows, *headers.outputs(), headers.state
    )
    if status == layout.OK:
        return headers.array(rows), None
    row = int(headers.state[layout.FAILED_ROW])
    offset = int(columns.offsets[row])
    damage = CorruptRecord(
        f"damaged record at offset {offset}: {layout.REASONS[status]}", offset=offset, next_offset=offset + 1
    )
    return headers.array(row), damage
