"""The encode without Numba; see `record_encode` for what it promises.

Sizes come first: what a record takes depends on its batch only by two varints, its time and its place
after the first record's, so a batch is planned by one cumulative sum over the rows that might fit. Then all
records are written a chunk at a time, field by field, each to where it belongs.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ottla.kernels.layout import (
    BAD_FIELD,
    BATCH_OVERHEAD,
    ENCODED_END,
    ENCODED_START,
    ENCODED_TIMESTAMP_LIMIT,
    ENTRY_OVERHEAD,
    FULL,
    LEGACY_BODY_AT_V0,
    LEGACY_BODY_AT_V1,
    LEGACY_CRC_AT,
    MAGIC_AT,
    OK,
    RECORD_OVERHEAD_MAX,
    SIZE_MAX,
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
from ottla.kernels.numpy_inputs import BinaryInput, HeaderInput

# All 61 bytes in front of records, with 0 for the checksum.
_BATCH_HEADER = struct.Struct(">qiibIhiqqqhii")


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


def _first(wrong: np.ndarray[tuple[int], np.dtype[np.bool_]], count: int) -> int:
    """Where the first true one is, or `count`."""
    return int(wrong.argmax()) if wrong.any() else count


def _row_chunks(rows: int) -> Iterator[tuple[int, int]]:
    for first in range(0, rows, CHUNK_RECORDS):
        yield first, min(first + CHUNK_RECORDS, rows)


# ---- format 2


def encode_batches(
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
    out: U8Array,
    table: I64Array,
    progress: I64Array,
) -> int:
    """As `record_encode.encode_batches`, but checksums are always left to the caller."""
    key = BinaryInput.of(rows, key_ends, key_data, key_valid, key_valid_at)
    value = BinaryInput.of(rows, value_ends, value_data, value_valid, value_valid_at)
    headers = None
    # What does not depend on the batch: attributes, key, value, headers.
    fixed = 1 + key.varint_lengths + value.varint_lengths
    room = key.sizes + value.sizes + RECORD_OVERHEAD_MAX
    if header_ends is None:
        fixed += 1
    else:
        headers = HeaderInput.of(
            rows,
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
    times = timestamps[:rows]
    wrong = (times <= -ENCODED_TIMESTAMP_LIMIT) | (times >= ENCODED_TIMESTAMP_LIMIT) | (room > SIZE_MAX)
    sound = _first(wrong, rows)
    try:
        plan, batches = _planned(times[:sound], fixed[:sound], room[:sound], batch_bytes, out.size, table)
    except _Full as full:
        progress[1] = full.row
        return FULL
    if sound < rows:
        progress[1] = sound
        return BAD_FIELD
    _write_records(out, plan, key, value, headers)
    _write_batch_headers(out, table, batches, times, stamp)
    progress[0] = len(batches) - 1
    progress[1] = rows
    return OK


def _planned(
    timestamps: I64Array, fixed: I64Array, room: I64Array, batch_bytes: int, out_bytes: int, table: I64Array
) -> tuple[_Plan, list[int]]:
    """Place all records; fills `table`, and answers the first row of each batch, and the end of rows."""
    rows = timestamps.size
    plan = _Plan(*(np.empty(rows, np.int64) for _ in _Plan._fields))
    # No record takes less than with deltas of a byte each, so this tells which rows might share a batch.
    least = np.append(0, np.cumsum(fixed + 2 + varint_sizes(fixed + 2)))
    firsts = [0]
    row = start = 0
    while row < rows:
        if len(firsts) > table.shape[0]:
            raise _Full(row)
        last = int(np.searchsorted(least, least[row] + batch_bytes - BATCH_OVERHEAD, side="right")) - 1
        last = min(max(last, row + 1), rows)
        deltas = timestamps[row:last] - timestamps[row]
        places = np.arange(last - row)
        bodies = fixed[row:last] + varint_sizes(deltas) + varint_sizes(places)
        sizes = varint_sizes(bodies) + bodies
        ends = BATCH_OVERHEAD + np.cumsum(sizes)
        count = max(int(np.searchsorted(ends, batch_bytes, side="right")), 1)
        for column, values in zip(plan, (start + ends - sizes, bodies, deltas, places), strict=True):
            column[row : row + count] = values[:count]
        is_outside = plan.at[row : row + count] + room[row : row + count] > out_bytes
        if is_outside.any():
            raise _Full(row + int(is_outside.argmax()))
        table[len(firsts) - 1, ENCODED_START] = start
        start += int(ends[count - 1])
        table[len(firsts) - 1, ENCODED_END] = start
        row += count
        firsts.append(row)
    return plan, firsts


def _write_records(
    out: U8Array, plan: _Plan, key: BinaryInput, value: BinaryInput, headers: HeaderInput | None
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
    """Cut to so many bits, as a kernel's store does it."""
    half = 1 << (bits - 1)
    return (value + half) % (2 * half) - half


def _write_batch_headers(
    out: U8Array, table: I64Array, firsts: list[int], timestamps: I64Array, stamp: I64Array
) -> None:
    stamps = stamp.tolist()
    spans = table[: len(firsts) - 1].tolist()
    for first, end, span in zip(firsts, firsts[1:], spans, strict=False):
        sequence = stamps[STAMP_SEQUENCE]
        if sequence >= 0:
            sequence = (sequence + first) & 0x7FFFFFFF  # behind the largest comes 0
        _BATCH_HEADER.pack_into(
            out.data,
            span[ENCODED_START],
            _wrapped(stamps[STAMP_OFFSET] + first, 64),
            span[ENCODED_END] - span[ENCODED_START] - ENTRY_OVERHEAD,
            -1,
            2,
            0,
            _wrapped(stamps[STAMP_ATTRIBUTES], 16),
            end - first - 1,
            int(timestamps[first]),
            int(timestamps[first:end].max()),
            stamps[STAMP_PRODUCER_ID],
            _wrapped(stamps[STAMP_PRODUCER_EPOCH], 16),
            _wrapped(sequence, 32),
            end - first,
        )


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
    key = BinaryInput.of(rows, key_ends, key_data, key_valid, key_valid_at)
    value = BinaryInput.of(rows, value_ends, value_data, value_valid, value_valid_at)
    body_at = LEGACY_BODY_AT_V0 if magic == 0 else LEGACY_BODY_AT_V1
    sizes = body_at + 8 + key.lengths + value.lengths
    stops = np.cumsum(sizes)
    too_large, too_far = _first(sizes > SIZE_MAX, rows), _first(stops > out.size, rows)
    if min(too_large, too_far) < rows:
        progress[1] = min(too_large, too_far)
        return BAD_FIELD if too_large <= too_far else FULL
    for first, last in _row_chunks(rows):
        at = (stops - sizes)[first:last]
        write_numbers(out, at, ">i8", base_offset + np.arange(first, last))
        write_numbers(out, at + 8, ">i4", sizes[first:last] - ENTRY_OVERHEAD)
        out[at + MAGIC_AT] = magic
        out[at + MAGIC_AT + 1] = 0
        if magic == 1:
            write_numbers(out, at + LEGACY_BODY_AT_V0, ">i8", timestamps[first:last])
        write_numbers(out, at + body_at, ">i4", key.sizes[first:last])
        value_at = key.write_bytes(out, at + body_at + 4, first, last)
        write_numbers(out, value_at, ">i4", value.sizes[first:last])
        value.write_bytes(out, value_at + 4, first, last)
        _write_checksums(out, at, stops[first:last])
    progress[0] = stops[-1] if rows else 0
    progress[1] = rows
    return OK


def _write_checksums(out: U8Array, at: I64Array, stops: I64Array) -> None:
    view = out.data
    spans = zip((at + MAGIC_AT).tolist(), stops.tolist(), strict=True)
    crcs = [zlib.crc32(view[start:stop]) for start, stop in spans]
    write_numbers(out, at + LEGACY_CRC_AT, ">u4", np.array(crcs, np.int64))
