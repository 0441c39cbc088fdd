"""The encode without Numba; see `record_encode` for what it promises.

Sizes come first: what a record takes depends on its batch only by two varints, its time and its place
after the first record's, so a batch is planned by one cumulative sum over the rows that might fit. Then all
records are written a chunk at a time, field by field, each to where it belongs.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import astuple, dataclass
from typing import Any, NamedTuple

import numpy as np

from ottla.kernels.layout import (
    BAD_FIELD,
    ENCODED_BATCHES,
    ENCODED_BEFORE,
    ENCODED_END,
    ENCODED_ROW,
    ENCODED_START,
    ENCODED_TIMESTAMP_LIMIT,
    FULL,
    OK,
    OPEN_BASE_TIMESTAMP,
    OPEN_COUNT,
    OPEN_END,
    OPEN_MAX_TIMESTAMP,
    OPEN_START,
    STAMP_ATTRIBUTES,
    STAMP_OFFSET,
    STAMP_PRODUCER_EPOCH,
    STAMP_PRODUCER_ID,
    STAMP_SEQUENCE,
)
from ottla.kernels.numpy_bytes import (
    CHUNK_RECORDS,
    I32Array,
    I64Array,
    U8Array,
    varint_sizes,
    write_numbers,
    write_varints,
)
from ottla.kernels.numpy_inputs import NO_PICKS, BinarySource, HeaderSource
from ottla.model.record_layout import (
    BATCH,
    BATCH_OVERHEAD,
    ENTRY_OVERHEAD,
    LEGACY_BODY_AT_V0,
    LEGACY_BODY_AT_V1,
    LEGACY_CRC_AT,
    LENGTH_BYTES,
    MAGIC_AT,
    NO_LEADER_EPOCH,
    RECORD_OVERHEAD_MAX,
    SIZE_AT,
    SIZE_MAX,
)


class _Plan(NamedTuple):
    """Where each record goes, and what is written before its key."""

    at: I64Array
    body_size: I64Array
    timestamp_delta: I64Array
    offset_delta: I64Array


class _Full(Exception):
    """There is no room for record `row`."""

    def __init__(self, row: int) -> None:
        self.row = row


@dataclass
class _Open:
    """The batch that records go into, and what came before it. Its numbers are those of `layout`'s state."""

    batches: int
    before: int
    start: int
    end: int
    count: int
    base_timestamp: int
    max_timestamp: int

    @classmethod
    def of(cls, state: I64Array) -> _Open:
        return cls(*(int(state[index]) for index in _STATE_INDEXES))

    def save(self, state: I64Array) -> None:
        state[list(_STATE_INDEXES)] = astuple(self)


_STATE_INDEXES = (
    ENCODED_BATCHES,
    ENCODED_BEFORE,
    OPEN_START,
    OPEN_END,
    OPEN_COUNT,
    OPEN_BASE_TIMESTAMP,
    OPEN_MAX_TIMESTAMP,
)


def _first(wrong: np.ndarray[tuple[int], np.dtype[np.bool_]], count: int) -> int:
    """Where the first true one is, or `count`."""
    return int(wrong.argmax()) if wrong.any() else count


def _row_chunks(rows: int) -> Iterator[tuple[int, int]]:
    for first in range(0, rows, CHUNK_RECORDS):
        yield first, min(first + CHUNK_RECORDS, rows)


# ---- format 2


def encode_batches(
    rows: int,
    picks: I64Array,
    key_ends: I32Array,
    key_data: U8Array,
    key_valid: U8Array,
    key_valid_at: int,
    value_ends: I32Array,
    value_data: U8Array,
    value_valid: U8Array,
    value_valid_at: int,
    timestamps: I64Array,
    timestamp_ms: int,
    header_ends: Any,  # these seven are all None if no record has headers
    header_key_ends: Any,
    header_key_data: Any,
    header_value_ends: Any,
    header_value_data: Any,
    header_value_valid: Any,
    header_value_valid_at: Any,
    batch_bytes: int,
    stamp: I64Array,
    verify: int,  # noqa: ARG001 - checksums are left to the caller in any case
    is_last: bool,  # noqa: FBT001 - as the kernel has it
    out: U8Array,
    table: I64Array,
    state: I64Array,
) -> int:
    """As `record_encode.encode_batches`, but checksums are always left to the caller."""
    picks = picks[:rows]
    key = BinarySource.of(rows, picks, key_ends, key_data, key_valid, key_valid_at)
    value = BinarySource.of(rows, picks, value_ends, value_data, value_valid, value_valid_at)
    headers = None
    # What does not depend on the batch: attributes, key, value, headers.
    fixed = 1 + key.varint_lengths + value.varint_lengths
    room = key.sizes + value.sizes + RECORD_OVERHEAD_MAX
    if header_ends is None:
        fixed += 1
    else:
        headers = HeaderSource.of(
            rows,
            picks,
            header_ends,
            header_key_ends,
            header_key_data,
            header_value_ends,
            header_value_data,
            header_value_valid,
            header_value_valid_at,
        )
        fixed += varint_sizes(headers.counts) + headers.bytes_of_rows
        room += headers.room
    times = np.full(rows, timestamp_ms, np.int64)
    if timestamps.size:
        times = timestamps[picks] if picks.size else timestamps[:rows]
    wrong = (times <= -ENCODED_TIMESTAMP_LIMIT) | (times >= ENCODED_TIMESTAMP_LIMIT) | (room > SIZE_MAX)
    sound = _first(wrong, rows)
    batch = _Open.of(state)
    planner = _Planner(batch, stamp.tolist(), batch_bytes, out, table)
    try:
        plan = planner.placed(times[:sound], fixed[:sound], room[:sound], is_last=is_last)
    except _Full as full:
        state[ENCODED_ROW] = full.row
        return FULL
    state[ENCODED_ROW] = sound
    if sound < rows:
        return BAD_FIELD
    _write_records(out, plan, key, value, headers)
    batch.before += rows
    batch.save(state)
    return OK


class _Planner:
    """Places records, and writes the headers of the batches that they fill."""

    def __init__(
        self, batch: _Open, stamps: list[int], batch_bytes: int, out: U8Array, table: I64Array
    ) -> None:
        self._batch = batch
        self._stamps = stamps
        self._batch_bytes = batch_bytes
        self._out = out
        self._table = table

    def placed(self, timestamps: I64Array, fixed: I64Array, room: I64Array, *, is_last: bool) -> _Plan:
        """Where each goes. Raises _Full."""
        rows, batch = timestamps.size, self._batch
        plan = _Plan(*(np.empty(rows, np.int64) for _ in _Plan._fields))
        # No record takes less than with deltas of a byte each, so this shows which rows might share a batch.
        least = np.append(0, np.cumsum(fixed + 2 + varint_sizes(fixed + 2)))
        row = 0
        while row < rows:
            if not batch.count:
                self._begin(row, int(timestamps[row]))
            left = batch.start + self._batch_bytes - batch.end
            last = int(np.searchsorted(least, least[row] + left, side="right")) - 1
            last = min(max(last, row + 1), rows)
            deltas = timestamps[row:last] - batch.base_timestamp
            offset_deltas = batch.count + np.arange(last - row)
            bodies = fixed[row:last] + varint_sizes(deltas) + varint_sizes(offset_deltas)
            sizes = varint_sizes(bodies) + bodies
            ends = np.cumsum(sizes)
            at = batch.end + ends - sizes
            count = int(np.searchsorted(ends, left, side="right"))
            if not batch.count:
                count = max(count, 1)
            is_outside = at[:count] + room[row : row + count] > self._out.size
            if is_outside.any():
                raise _Full(row + int(is_outside.argmax()))
            for column, values in zip(plan, (at, bodies, deltas, offset_deltas), strict=True):
                column[row : row + count] = values[:count]
            if count:
                batch.end += int(ends[count - 1])
                batch.max_timestamp = max(batch.max_timestamp, int(timestamps[row : row + count].max()))
                batch.count += count
                row += count
            if row < rows or is_last:
                self._close(row)
        return plan

    def _begin(self, row: int, timestamp: int) -> None:
        batch = self._batch
        if batch.batches == self._table.shape[0]:
            raise _Full(row)
        batch.start = batch.end
        batch.end += BATCH_OVERHEAD
        batch.base_timestamp = batch.max_timestamp = timestamp

    def _close(self, row: int) -> None:
        batch, stamps = self._batch, self._stamps
        first = batch.before + row - batch.count
        sequence = stamps[STAMP_SEQUENCE]
        if sequence >= 0:
            sequence = (sequence + first) & 0x7FFFFFFF  # after the largest comes 0
        BATCH.pack_into(
            self._out.data,
            batch.start,
            _wrapped(stamps[STAMP_OFFSET] + first, 64),
            batch.end - batch.start - ENTRY_OVERHEAD,
            NO_LEADER_EPOCH,
            2,
            0,  # the checksum
            _wrapped(stamps[STAMP_ATTRIBUTES], 16),
            batch.count - 1,
            batch.base_timestamp,
            batch.max_timestamp,
            stamps[STAMP_PRODUCER_ID],
            _wrapped(stamps[STAMP_PRODUCER_EPOCH], 16),
            _wrapped(sequence, 32),
            batch.count,
        )
        self._table[batch.batches, ENCODED_START] = batch.start
        self._table[batch.batches, ENCODED_END] = batch.end
        batch.batches += 1
        batch.count = 0


def _write_records(
    out: U8Array, plan: _Plan, key: BinarySource, value: BinarySource, headers: HeaderSource | None
) -> None:
    for first, last in _row_chunks(plan.at.size):
        at = write_varints(out, plan.at[first:last], plan.body_size[first:last])
        out[at] = 0  # attributes
        at = write_varints(out, at + 1, plan.timestamp_delta[first:last])
        at = write_varints(out, at, plan.offset_delta[first:last])
        at = key.write(out, at, first, last)
        at = value.write(out, at, first, last)
        if headers is None:
            out[at] = 0
        else:
            at = write_varints(out, at, headers.counts[first:last])
            headers.write(out, at, first, last)


def _wrapped(value: int, bits: int) -> int:
    """Cut to `bits` bits, as the store of a kernel does."""
    half = 1 << (bits - 1)
    return (value + half) % (2 * half) - half


# ---- formats 0 and 1


def encode_messages(
    rows: int,
    key_ends: I32Array,
    key_data: U8Array,
    key_valid: U8Array,
    key_valid_at: int,
    value_ends: I32Array,
    value_data: U8Array,
    value_valid: U8Array,
    value_valid_at: int,
    timestamps: I64Array,
    magic: int,
    base_offset: int,
    out: U8Array,
    progress: I64Array,
) -> int:
    """As `record_encode.encode_messages`."""
    key = BinarySource.of(rows, NO_PICKS, key_ends, key_data, key_valid, key_valid_at)
    value = BinarySource.of(rows, NO_PICKS, value_ends, value_data, value_valid, value_valid_at)
    body_at = LEGACY_BODY_AT_V0 if magic == 0 else LEGACY_BODY_AT_V1
    sizes = body_at + 2 * LENGTH_BYTES + key.lengths + value.lengths
    stops = np.cumsum(sizes)
    too_large, too_far = _first(sizes > SIZE_MAX, rows), _first(stops > out.size, rows)
    if min(too_large, too_far) < rows:
        progress[1] = min(too_large, too_far)
        return BAD_FIELD if too_large <= too_far else FULL
    for first, last in _row_chunks(rows):
        at = (stops - sizes)[first:last]
        write_numbers(out, at, ">i8", base_offset + np.arange(first, last))
        write_numbers(out, at + SIZE_AT, ">i4", sizes[first:last] - ENTRY_OVERHEAD)
        out[at + MAGIC_AT] = magic
        out[at + MAGIC_AT + 1] = 0
        if magic == 1:
            write_numbers(out, at + LEGACY_BODY_AT_V0, ">i8", timestamps[first:last])
        write_numbers(out, at + body_at, ">i4", key.sizes[first:last])
        value_at = key.write_bytes(out, at + body_at + LENGTH_BYTES, first, last)
        write_numbers(out, value_at, ">i4", value.sizes[first:last])
        value.write_bytes(out, value_at + LENGTH_BYTES, first, last)
        _write_checksums(out, at, stops[first:last])
    progress[0] = stops[-1] if rows else 0
    progress[1] = rows
    return OK


def _write_checksums(out: U8Array, at: I64Array, stops: I64Array) -> None:
    view = out.data
    spans = zip((at + MAGIC_AT).tolist(), stops.tolist(), strict=True)
    crcs = [zlib.crc32(view[start:stop]) for start, stop in spans]
    write_numbers(out, at + LEGACY_CRC_AT, ">u4", np.array(crcs, np.int64))
