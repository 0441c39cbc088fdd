"""Record sets into Arrow: any mixture of formats 0, 1 and 2, compressed or not.

    bytes ── scan ──▶ entries ── decompress ──▶ entries ── decode kernels ──▶ columns of one slab ──▶ Arrow

Nothing is lost by damage: what stands before it is returned together with it, `next_offset` stays in
front of it, and the next call from there raises. A partial last entry is not damage: brokers cut.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from ottla import kernels
from ottla.kernels import layout
from ottla.model import record_layout
from ottla.model.errors import ConfigError, CorruptRecord
from ottla.records.columns import (
    SCHEMA,
    SCHEMA_WITH_HEADERS,
    HeaderColumns,
    HeaderSpans,
    RecordColumns,
)
from ottla.records.entries import (
    Entries,
    U8Array,
    hidden,
    read_only,
    scan,
    verified,
)
from ottla.records.expansion import FORMAT_2_ONLY, decompressed, give_back_arena
from ottla.records.slabs import POOL, SlabPool
from ottla.records.transactions import AbortedRange, visible

# Arrow's binary has 32-bit offsets, and a fetch response is at most 2 GiB; compressed data can be a bomb.
DECOMPRESSED_BYTES_MAX = 256 << 20
DECOMPRESSED_BYTES_LIMIT = COLUMN_BYTES_MAX = (1 << 31) - 1
_NOT_PLAIN = record_layout.CONTROL | record_layout.TRANSACTIONAL | record_layout.CODEC_MASK


class Decoded(NamedTuple):
    """Records in order, and where to continue.

    `next_offset`: the offset to fetch next. It passes over what is not delivered (control batches,
    aborted transactions, records compacted away), so it is not the last record's offset + 1.
    `valid_bytes`: how much of the record set is covered. 0 of a set that is not empty means that its first
    entry is cut: ask the broker for more bytes. Less than the set without damage means that a limit was
    reached: decode the remaining bytes next, as `MessageSet` does.
    `nbytes`: the memory of the batch, without what its slab has beside it.
    `damage`: what is wrong right after them, if the record set is damaged there.
    """

    batch: pa.RecordBatch
    next_offset: int
    valid_bytes: int
    nbytes: int
    damage: CorruptRecord | None = None


def decode(
    data: bytes | bytearray | memoryview | U8Array,
    *,
    from_offset: int = 0,
    verify_crc: bool = True,
    headers: bool = False,
    aborted: Iterable[AbortedRange] | None = None,
    decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX,
    pool: SlabPool = POOL,
    scanned: Entries | None = None,
) -> Decoded:
    """Decode a record set as a fetch response or a log segment holds it.

    Records below `from_offset` are skipped: brokers send whole batches. `aborted` hides the transactions
    that a fetch response lists as aborted. Raises CorruptRecord if nothing can be delivered before the
    damage, so that a caller that continues from `next_offset` always gets it. Thread-safe. `scanned` is what
    `scan` has found in the data, if the caller has called it.
    """
    if not (isinstance(from_offset, int) and -(1 << 63) <= from_offset < 1 << 63):
        raise ConfigError(f"from_offset is {from_offset!r}, not a 64-bit integer")
    if not 0 < decompressed_bytes_max <= DECOMPRESSED_BYTES_LIMIT:
        raise ConfigError(f"decompressed_bytes_max is {decompressed_bytes_max}, not within 1 to 2**31 - 1")
    entries = scanned if scanned is not None else scan(read_only(data), verify_crc=verify_crc)
    entries = _deliverable(entries, aborted, verify_crc=verify_crc, limit=decompressed_bytes_max)
    columns = RecordColumns(pool, entries.summary.records, entries.summary.data_bytes)
    spans = HeaderSpans.of(entries.summary.records) if headers else None
    entries = _decode_records(entries, from_offset, columns, spans)
    next_offset = max(from_offset, entries.summary.next_offset)
    damage, valid_bytes = entries.damage, entries.valid_bytes
    arrays = columns.arrays()
    if spans is not None:
        header_array, header_damage = _decode_headers(entries, columns, spans, pool)
        rows = len(header_array)
        arrays = [*(array[:rows] for array in arrays), header_array]
        if header_damage is not None:
            damage, next_offset = header_damage, columns.offset(rows)
            valid_bytes = entries.position_of(*spans.source_position(rows))
    give_back_arena(entries)
    batch = pa.RecordBatch.from_arrays(arrays, schema=SCHEMA_WITH_HEADERS if headers else SCHEMA)
    if damage is not None and next_offset <= from_offset:
        raise copy(damage)  # itself it would be a cycle with this frame, which holds what was decompressed
    return Decoded(batch, next_offset, valid_bytes, batch.get_total_buffer_size(), damage)


def is_plain(entries: Entries) -> bool:
    """Whether `decode_together` takes these entries: sound, verified, uncompressed, of no transaction."""
    summary = entries.summary
    return entries.damage is None and not summary.unverified and not summary.attributes & _NOT_PLAIN


def decode_together(sets: Sequence[tuple[Entries, int]], pool: SlabPool = POOL) -> list[Decoded]:
    """Decode small sets of plain entries, each from its offset on, into one slab.

    The batches are slices of one batch, since making a batch costs more than decoding a few records. Stops
    before a set whose records are damaged; `decode` says what is wrong with it.
    """
    rows = sum(entries.summary.records for entries, _ in sets)
    columns = RecordColumns(pool, rows, sum(entries.summary.data_bytes for entries, _ in sets))
    totals = [columns.totals()]
    for entries, from_offset in sets:
        if _decode_records(entries, from_offset, columns, None) is not entries:
            break
        totals.append(columns.totals())
    whole = pa.RecordBatch.from_arrays(columns.arrays(), schema=SCHEMA)
    return [
        Decoded(
            whole.slice(start, end - start),
            max(from_offset, entries.summary.next_offset),
            entries.valid_bytes,
            end_bytes - start_bytes,
        )
        for (entries, from_offset), ((start, start_bytes), (end, end_bytes)) in zip(
            sets, pairwise(totals), strict=False
        )
    ]


def _deliverable(
    entries: Entries, aborted: Iterable[AbortedRange] | None, *, verify_crc: bool, limit: int
) -> Entries:
    """Entries that are sound, uncompressed, and whose hidden ones are empty."""
    if entries.summary.unverified:
        entries = verified(entries)
    if entries.summary.attributes & (record_layout.CONTROL | record_layout.TRANSACTIONAL):
        hides = ~visible(entries.table, entries.data, aborted)
        entries = hidden(entries, hides) if hides.any() else entries
    if entries.summary.attributes & record_layout.CODEC_MASK:
        entries = decompressed(entries, verify_crc=verify_crc, limit=limit)
    if entries.summary.data_bytes > COLUMN_BYTES_MAX:
        ends = np.cumsum(entries.table[:, layout.END] - entries.table[:, layout.START])
        entries = entries.cut(int(np.searchsorted(ends, COLUMN_BYTES_MAX, side="right")), None)
    return entries


def _decode_records(
    entries: Entries, from_offset: int, columns: RecordColumns, spans: HeaderSpans | None
) -> Entries:
    """Run the kernel of each format over its runs of entries; usually that is one call."""
    path = kernels.path()
    for first, last in _runs(entries):
        is_batches = entries.table[first, layout.MAGIC] == 2
        status = (path.decode_batches if is_batches else path.decode_messages)(
            entries.data,
            entries.arena,
            entries.table,
            first,
            last,
            from_offset,
            columns.slab,
            columns.part_array,
            None if spans is None else spans.start,
            None if spans is None else spans.stop,
            columns.state,
        )
        if status != layout.OK:
            return entries.damaged(int(columns.state[layout.FAILED_ROW]), layout.REASONS[status])
    return entries


def _runs(entries: Entries) -> Iterable[tuple[int, int]]:
    """Where the kernel changes: batches (format 2) and messages (formats 0, 1) have one each."""
    count = len(entries.table)
    if entries.summary.formats == FORMAT_2_ONLY or not count:
        return [(0, count)] if count else []
    batches = entries.table[:, layout.MAGIC] == 2
    changes = (np.flatnonzero(batches[1:] != batches[:-1]) + 1).tolist()
    return pairwise([0, *changes, count])


def _decode_headers(
    entries: Entries, columns: RecordColumns, spans: HeaderSpans, pool: SlabPool
) -> tuple[pa.Array, CorruptRecord | None]:
    """The header column, shorter than the others if a record's headers are damaged."""
    rows = columns.rows
    capacity = int(columns.state[layout.HEADERS])
    headers = HeaderColumns(pool, rows, capacity, spans.total_bytes(rows))
    status = kernels.path().decode_headers(
        entries.data,
        entries.arena,
        spans.start,
        spans.stop,
        rows,
        capacity,
        headers.slab,
        headers.part_array,
        headers.state,
    )
    if status == layout.OK:
        return headers.array(rows), None
    row = int(headers.state[layout.FAILED_ROW])
    offset = columns.offset(row)
    damage = CorruptRecord(
        f"damaged record at offset {offset}: {layout.REASONS[status]}", offset=offset, next_offset=offset + 1
    )
    return headers.array(row), damage
