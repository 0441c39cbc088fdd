"""The decode: records of the entries that the scan found, in one pass, into the buffers of Arrow columns.

Variable columns get their bytes appended to one data buffer and their ends to an offsets buffer, as
Arrow's `binary` lays them out. Validity bitmaps come in all ones; a null clears its bit. The running
totals live in `state`, so that several calls (say, a run of format 2 and a run of format 1) fill the
same columns.

All columns lie in one slab; `parts` says where each begins (see `layout`), a column ending where the
next one begins.

Room is the caller's promise: rows for the sum of `COUNT`, data for the sum of `END - START`. A record is
checked against its entry, an entry's records against its count, so the promise holds for any bytes.
"""

from __future__ import annotations

import numpy as np

from ottla.kernels.byte_copy import copy_bytes
from ottla.kernels.integers import byte_at, put, read_int32, read_varint
from ottla.kernels.kernel import inlined, kernel
from ottla.kernels.layout import (
    ATTRIBUTES,
    BAD_FIELD,
    BAD_RECORD,
    BASE_OFFSET,
    BASE_TIMESTAMP,
    COUNT,
    END,
    FAILED_ROW,
    HEADERS,
    KEY_BYTES,
    KEY_ENDS_AT,
    KEY_NULLS,
    LOG_APPEND_TIME,
    MAGIC,
    MAX_TIMESTAMP,
    NO_TIMESTAMP,
    NO_TIMESTAMP_TYPE,
    OFFSETS_AT,
    OK,
    RECORD_SIZE_MIN,
    ROWS,
    SOURCE,
    START,
    TIMESTAMP_TYPES_AT,
    TIMESTAMPS_AT,
    TIMESTAMPS_MISSING,
    VALUE_BYTES,
    VALUE_ENDS_AT,
    VALUE_NULLS,
)


@inlined
def clear_bit(bitmap, index):  # type: ignore[no-untyped-def]
    bitmap[index >> 3] = byte_at(bitmap, index >> 3) & ~(1 << (index & 7))


@inlined
def _fixed_columns(slab, parts):  # type: ignore[no-untyped-def]
    offsets = slab[parts[OFFSETS_AT] : parts[OFFSETS_AT + 1]].view(np.int64)
    timestamps = slab[parts[TIMESTAMPS_AT] : parts[TIMESTAMPS_AT + 1]].view(np.int64)
    return offsets, timestamps, slab[parts[TIMESTAMP_TYPES_AT] : parts[TIMESTAMP_TYPES_AT + 1]].view(np.int8)


@inlined
def binary_column(slab, parts, first):  # type: ignore[no-untyped-def]
    """Ends, validity and data of a variable column."""
    ends = slab[parts[first] : parts[first + 1]].view(np.int32)
    return ends, slab[parts[first + 1] : parts[first + 2]], slab[parts[first + 2] : parts[first + 3]]


@inlined
def begin_column(ends, valid):  # type: ignore[no-untyped-def]
    """The first end is 0; validity starts all ones, and a null clears its bit."""
    ends[0] = 0
    for i in range(valid.size):
        valid[i] = 0xFF


@kernel
def decode_batches(  # type: ignore[no-untyped-def]
    raw,
    arena,
    table,
    first,
    last,
    from_offset,
    slab,
    parts,
    header_at,
    header_stop,
    state,
):
    """Append the records of format 2 entries table[first:last] whose offset is from_offset or more.

    `header_at`, `header_stop`: empty, or get for each record where its headers begin and end in its
    source; the begin is inverted (~) for the arena.
    """
    offsets, timestamps, timestamp_types = _fixed_columns(slab, parts)
    key_ends, key_valid, key_data = binary_column(slab, parts, KEY_ENDS_AT)
    value_ends, value_valid, value_data = binary_column(slab, parts, VALUE_ENDS_AT)
    row = state[ROWS]
    if row == 0:
        begin_column(key_ends, key_valid)
        begin_column(value_ends, value_valid)
    key_at = state[KEY_BYTES]
    value_at = state[VALUE_BYTES]
    key_nulls = state[KEY_NULLS]
    value_nulls = state[VALUE_NULLS]
    missing = state[TIMESTAMPS_MISSING]
    headers = state[HEADERS]
    status = OK
    for index in range(first, last):
        entry = table[index]
        at = entry[START]
        end = entry[END]
        count = entry[COUNT]
        base_offset = entry[BASE_OFFSET]
        append_time = (entry[ATTRIBUTES] & LOG_APPEND_TIME) != 0
        timestamp_type = 1 if append_time else 0
        base_timestamp = entry[MAX_TIMESTAMP] if append_time else entry[BASE_TIMESTAMP]
        data = arena if entry[SOURCE] == 1 else raw
        if count > (end - at) // RECORD_SIZE_MIN:
            state[FAILED_ROW] = index
            status = BAD_FIELD
            break
        for _ in range(count):
            # A failed read answers (0, past the end), so the comparison with what is left fails as well.
            size, at = read_varint(data, at, end)
            if size < 0 or size > end - at:
                status = BAD_RECORD
                break
            stop = at + size
            timestamp_delta, at = read_varint(data, at + 1, stop)
            offset_delta, at = read_varint(data, at, stop)
            key_size, at = read_varint(data, at, stop)
            if key_size < -1 or key_size > stop - at or offset_delta >> 31 != 0:
                status = BAD_RECORD
                break
            key_start = at
            at += max(key_size, 0)
            value_size, at = read_varint(data, at, stop)
            if value_size < -1 or value_size > stop - at:
                status = BAD_RECORD
                break
            value_start = at
            at += max(value_size, 0)
            header_start = at
            header_count = 0
            if stop - at != 1 or byte_at(data, at) != 0:
                header_count, at = read_varint(data, at, stop)
                # A header takes two bytes at least.
                if header_count <= 0 or header_count > (stop - at) >> 1:
                    status = BAD_RECORD
                    break
            at = stop
            offset = base_offset + offset_delta
            if offset < from_offset:
                continue
            put(offsets, row, offset)
            timestamp = base_timestamp if append_time else base_timestamp + timestamp_delta
            put(timestamps, row, timestamp)
            if timestamp == NO_TIMESTAMP:
                missing += 1
            put(timestamp_types, row, timestamp_type)
            if key_size < 0:
                key_nulls += 1
                clear_bit(key_valid, row)
            else:
                copy_bytes(key_data, key_at, data, key_start, key_size)
                key_at += key_size
            if value_size < 0:
                value_nulls += 1
                clear_bit(value_valid, row)
            else:
                copy_bytes(value_data, value_at, data, value_start, value_size)
                value_at += value_size
            if header_at.size > 0:
                header_at[row] = header_start if entry[SOURCE] == 0 else ~header_start
                header_stop[row] = stop
                headers += header_count
            row += 1
            put(key_ends, row, key_at)
            put(value_ends, row, value_at)
        if status == OK and at != end:
            status = BAD_RECORD
        if status != OK:
            state[FAILED_ROW] = index
            break
        # Totals move at the end of a sound entry, so that a damaged one leaves nothing behind.
        state[ROWS] = row
        state[KEY_BYTES] = key_at
        state[VALUE_BYTES] = value_at
        state[KEY_NULLS] = key_nulls
        state[VALUE_NULLS] = value_nulls
        state[TIMESTAMPS_MISSING] = missing
        state[HEADERS] = headers
    return status


@kernel
def decode_messages(  # type: ignore[no-untyped-def]
    raw,
    arena,
    table,
    first,
    last,
    from_offset,
    slab,
    parts,
    header_at,
    header_stop,
    state,
):
    """Append the messages of uncompressed format 0 and 1 entries table[first:last]; as `decode_batches`."""
    offsets, timestamps, timestamp_types = _fixed_columns(slab, parts)
    key_ends, key_valid, key_data = binary_column(slab, parts, KEY_ENDS_AT)
    value_ends, value_valid, value_data = binary_column(slab, parts, VALUE_ENDS_AT)
    row = state[ROWS]
    if row == 0:
        begin_column(key_ends, key_valid)
        begin_column(value_ends, value_valid)
    key_at = state[KEY_BYTES]
    value_at = state[VALUE_BYTES]
    for index in range(first, last):
        entry = table[index]
        at = entry[START]
        end = entry[END]
        data = arena if entry[SOURCE] == 1 else raw
        # Both lengths are there: the scan refused anything smaller.
        key_size = read_int32(data, at)
        key_start = at + 4
        if key_size < -1 or key_size > end - key_start - 4:
            state[FAILED_ROW] = index
            return BAD_RECORD
        value_start = key_start + 4
        if key_size > 0:
            value_start += key_size
        value_size = read_int32(data, value_start - 4)
        if value_size < -1 or max(value_size, 0) != end - value_start:
            state[FAILED_ROW] = index
            return BAD_RECORD
        if entry[BASE_OFFSET] < from_offset:
            continue
        put(offsets, row, entry[BASE_OFFSET])
        timestamp = entry[BASE_TIMESTAMP]
        put(timestamps, row, timestamp)
        if timestamp == NO_TIMESTAMP:
            state[TIMESTAMPS_MISSING] += 1
        put(timestamp_types, row, NO_TIMESTAMP_TYPE)
        if entry[MAGIC] == 1:
            put(timestamp_types, row, 1 if entry[ATTRIBUTES] & LOG_APPEND_TIME else 0)
        if key_size < 0:
            state[KEY_NULLS] += 1
            clear_bit(key_valid, row)
        else:
            copy_bytes(key_data, key_at, data, key_start, key_size)
            key_at += key_size
        if value_size < 0:
            state[VALUE_NULLS] += 1
            clear_bit(value_valid, row)
        else:
            copy_bytes(value_data, value_at, data, value_start, value_size)
            value_at += value_size
        if header_at.size > 0:
            header_at[row] = 0
            header_stop[row] = 0
        row += 1
        put(key_ends, row, key_at)
        put(value_ends, row, value_at)
        state[ROWS] = row
        state[KEY_BYTES] = key_at
        state[VALUE_BYTES] = value_at
    return OK
