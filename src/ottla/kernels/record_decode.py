"""The decode: records of scanned entries into the buffers of Arrow columns, in one pass.

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

from ottla.kernels.kernel import inlined, kernel
from ottla.kernels.layout import (
    ATTRIBUTES,
    BAD_FIELD,
    BAD_RECORD,
    BASE_OFFSET,
    BASE_TIMESTAMP,
    COUNT,
    END,
    ENTRY_COLUMNS,
    FAILED_ROW,
    HEADERS,
    KEY_BYTES,
    KEY_ENDS_AT,
    KEY_NULLS,
    MAGIC,
    MAX_TIMESTAMP,
    OFFSETS_AT,
    OK,
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
from ottla.kernels.memory import (
    bytes_at,
    chars_at,
    copy_bytes,
    get_byte,
    get_int64,
    halves_at,
    pointer,
    put_byte,
    put_int32,
    put_int64,
    read_int32,
    row_of,
    words_at,
)
from ottla.kernels.varint import read_varint
from ottla.model.record_layout import (
    LENGTH_BYTES,
    LOG_APPEND_TIME,
    NO_TIMESTAMP,
    NO_TIMESTAMP_TYPE,
    RECORD_SIZE_MIN,
)


@inlined
def clear_bit(bitmap, index):
    put_byte(bitmap, index >> 3, get_byte(bitmap, index >> 3) & ~(1 << (index & 7)))


@inlined
def _fixed_columns(slab, parts):
    """Addresses of offsets, timestamps, timestamp types."""
    return (
        words_at(slab, parts[OFFSETS_AT]),
        words_at(slab, parts[TIMESTAMPS_AT]),
        chars_at(slab, parts[TIMESTAMP_TYPES_AT]),
    )


@inlined
def binary_column(slab, parts, first, rows):
    """Addresses of a variable column's ends, validity and data, and how long the data may get.

    A column without rows yet is made ready: the first end is 0, validity is all ones. `first` is a typed
    number: Numba would compile this for every literal.
    """
    ends = halves_at(slab, parts[first])
    valid = bytes_at(slab, parts[first + 1])
    if rows == 0:
        put_int32(ends, 0, 0)
        for i in range(parts[first + 2] - parts[first + 1]):
            put_byte(valid, i, 0xFF)
    return ends, valid, bytes_at(slab, parts[first + 2]), parts[first + 3] - parts[first + 2]


@inlined
def append_value(column, at, column_end, valid, row, data, start, data_end, size):
    """Append a value of a variable column, or a null (size -1); answers where the next one goes."""
    if size < 0:
        clear_bit(valid, row)
        return at
    copy_bytes(column, at, column_end, data, start, data_end, size)
    return at + size


@inlined
def put_totals(state, rows, key_bytes, value_bytes, key_nulls, value_nulls, timestamps_missing):
    """Write the running totals that both decodes have."""
    state[ROWS] = rows
    state[KEY_BYTES] = key_bytes
    state[VALUE_BYTES] = value_bytes
    state[KEY_NULLS] = key_nulls
    state[VALUE_NULLS] = value_nulls
    state[TIMESTAMPS_MISSING] = timestamps_missing


@kernel
def decode_batches(
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

    `header_at`, `header_stop`: None (Numba then leaves that code out), or get for each record where its
    headers begin and end in its source; the begin is inverted (~) for the arena.
    """
    offsets, timestamps, timestamp_types = _fixed_columns(slab, parts)
    key_ends, key_valid, key_data, key_end = binary_column(slab, parts, np.int64(KEY_ENDS_AT), state[ROWS])
    value_ends, value_valid, value_data, value_end = binary_column(
        slab, parts, np.int64(VALUE_ENDS_AT), state[ROWS]
    )
    rows_at = pointer(table)
    raw_at = pointer(raw)
    arena_at = pointer(arena)
    row = state[ROWS]
    key_at = state[KEY_BYTES]
    value_at = state[VALUE_BYTES]
    key_nulls = state[KEY_NULLS]
    value_nulls = state[VALUE_NULLS]
    missing = state[TIMESTAMPS_MISSING]
    headers = state[HEADERS]
    status = OK
    for index in range(first, last):
        entry = row_of(rows_at, index, ENTRY_COLUMNS)
        at = get_int64(entry, START)
        end = get_int64(entry, END)
        count = get_int64(entry, COUNT)
        base_offset = get_int64(entry, BASE_OFFSET)
        append_time = (get_int64(entry, ATTRIBUTES) & LOG_APPEND_TIME) != 0
        timestamp_type = 1 if append_time else 0
        base_timestamp = get_int64(entry, MAX_TIMESTAMP) if append_time else get_int64(entry, BASE_TIMESTAMP)
        source = get_int64(entry, SOURCE)
        data = raw_at
        data_end = raw.size
        if source == 1:
            data = arena_at
            data_end = arena.size
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
            if stop - at != 1 or get_byte(data, at) != 0:
                header_count, at = read_varint(data, at, stop)
                # A header takes two bytes at least.
                if header_count <= 0 or header_count > (stop - at) >> 1:
                    status = BAD_RECORD
                    break
            at = stop
            offset = base_offset + offset_delta
            if offset < from_offset:
                continue
            put_int64(offsets, row, offset)
            timestamp = base_timestamp if append_time else base_timestamp + timestamp_delta
            put_int64(timestamps, row, timestamp)
            missing += timestamp == NO_TIMESTAMP
            put_byte(timestamp_types, row, timestamp_type)
            key_nulls += key_size < 0
            key_at = append_value(
                key_data, key_at, key_end, key_valid, row, data, key_start, data_end, key_size
            )
            value_nulls += value_size < 0
            value_at = append_value(
                value_data, value_at, value_end, value_valid, row, data, value_start, data_end, value_size
            )
            if header_at is not None:
                put_int64(pointer(header_at), row, header_start if source == 0 else ~header_start)
                put_int64(pointer(header_stop), row, stop)
                headers += header_count
            row += 1
            put_int32(key_ends, row, key_at)
            put_int32(value_ends, row, value_at)
        if status == OK and at != end:
            status = BAD_RECORD
        if status != OK:
            state[FAILED_ROW] = index
            break
        # Totals move at the end of a sound entry, so that a damaged one leaves nothing behind.
        put_totals(state, row, key_at, value_at, key_nulls, value_nulls, missing)
        state[HEADERS] = headers
    return status


@kernel
def decode_messages(
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
    key_ends, key_valid, key_data, key_end = binary_column(slab, parts, np.int64(KEY_ENDS_AT), state[ROWS])
    value_ends, value_valid, value_data, value_end = binary_column(
        slab, parts, np.int64(VALUE_ENDS_AT), state[ROWS]
    )
    rows_at = pointer(table)
    raw_at = pointer(raw)
    arena_at = pointer(arena)
    row = state[ROWS]
    key_at = state[KEY_BYTES]
    value_at = state[VALUE_BYTES]
    key_nulls = state[KEY_NULLS]
    value_nulls = state[VALUE_NULLS]
    missing = state[TIMESTAMPS_MISSING]
    status = OK
    for index in range(first, last):
        entry = row_of(rows_at, index, ENTRY_COLUMNS)
        if get_int64(entry, COUNT) == 0:
            continue
        at = get_int64(entry, START)
        end = get_int64(entry, END)
        data = raw_at
        data_end = raw.size
        if get_int64(entry, SOURCE) == 1:
            data = arena_at
            data_end = arena.size
        # Both lengths are there: the scan refused anything smaller.
        key_size = read_int32(data, at)
        key_start = at + LENGTH_BYTES
        if key_size < -1 or key_size > end - key_start - 4:
            state[FAILED_ROW] = index
            status = BAD_RECORD
            break
        value_start = key_start + max(key_size, 0) + 4
        value_size = read_int32(data, value_start - 4)
        if value_size < -1 or max(value_size, 0) != end - value_start:
            state[FAILED_ROW] = index
            status = BAD_RECORD
            break
        if get_int64(entry, BASE_OFFSET) < from_offset:
            continue
        put_int64(offsets, row, get_int64(entry, BASE_OFFSET))
        timestamp = get_int64(entry, BASE_TIMESTAMP)
        put_int64(timestamps, row, timestamp)
        missing += timestamp == NO_TIMESTAMP
        put_byte(timestamp_types, row, NO_TIMESTAMP_TYPE)
        if get_int64(entry, MAGIC) == 1:
            put_byte(timestamp_types, row, 1 if get_int64(entry, ATTRIBUTES) & LOG_APPEND_TIME else 0)
        key_nulls += key_size < 0
        key_at = append_value(key_data, key_at, key_end, key_valid, row, data, key_start, data_end, key_size)
        value_nulls += value_size < 0
        value_at = append_value(
            value_data, value_at, value_end, value_valid, row, data, value_start, data_end, value_size
        )
        if header_at is not None:
            put_int64(pointer(header_at), row, 0)
            put_int64(pointer(header_stop), row, 0)
        row += 1
        put_int32(key_ends, row, key_at)
        put_int32(value_ends, row, value_at)
    put_totals(state, row, key_at, value_at, key_nulls, value_nulls, missing)
    return status
