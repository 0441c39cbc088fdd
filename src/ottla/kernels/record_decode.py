"""The decode: records of the entries that the scan found, in one pass, into the buffers of Arrow columns.

Variable columns get their bytes appended to one data buffer and their ends to an offsets buffer, as
Arrow's `binary` lays them out. Validity bitmaps come in all ones; a null clears its bit. The running
totals live in `state`, so that several calls (say, a run of format 2 and a run of format 1) fill the
same columns.

Room is the caller's promise: rows for the sum of `COUNT`, data for the sum of `END - START`. A record is
checked against its entry, an entry's records against its count, so the promise holds for any bytes.
"""

from __future__ import annotations

from ottla.kernels.integers import byte_at, read_int32, read_varint
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
    KEY_NULLS,
    LOG_APPEND_TIME,
    MAGIC,
    MAX_TIMESTAMP,
    NO_TIMESTAMP,
    NO_TIMESTAMP_TYPE,
    OK,
    RECORD_SIZE_MIN,
    ROWS,
    SOURCE,
    START,
    TIMESTAMP_LIMIT,
    TIMESTAMPS_MISSING,
    VALUE_BYTES,
    VALUE_NULLS,
)


@inlined
def copy_bytes(out, at, data, start, size):  # type: ignore[no-untyped-def]
    for i in range(size):
        out[at + i] = data[start + i]


@inlined
def clear_bit(bitmap, index):  # type: ignore[no-untyped-def]
    bitmap[index >> 3] = byte_at(bitmap, index >> 3) & ~(1 << (index & 7))


@kernel
def decode_batches(  # type: ignore[no-untyped-def]
    raw,
    arena,
    table,
    first,
    last,
    from_offset,
    offsets,
    timestamps,
    timestamp_types,
    key_ends,
    key_data,
    key_valid,
    value_ends,
    value_data,
    value_valid,
    header_at,
    header_stop,
    state,
):
    """Append the records of format 2 entries table[first:last] whose offset is from_offset or more.

    `header_at`, `header_stop`: empty, or get for each record where its headers begin and end in its
    source; the begin is inverted (~) for the arena.
    """
    row = state[ROWS]
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
            size, at = read_varint(data, at, end)
            if at > end or size < RECORD_SIZE_MIN - 1 or size > end - at:
                status = BAD_RECORD
                break
            stop = at + size
            timestamp_delta, at = read_varint(data, at + 1, stop)
            offset_delta, at = read_varint(data, at, stop)
            key_size, at = read_varint(data, at, stop)
            if at > stop or key_size > stop - at or key_size < -1:
                status = BAD_RECORD
                break
            key_start = at
            if key_size > 0:
                at += key_size
            value_size, at = read_varint(data, at, stop)
            if at > stop or value_size > stop - at or value_size < -1:
                status = BAD_RECORD
                break
            value_start = at
            if value_size > 0:
                at += value_size
            header_start = at
            header_count, at = read_varint(data, at, stop)
            # A header takes two bytes at least; without headers nothing may be left over.
            if at > stop or header_count < 0 or header_count > (stop - at) >> 1:
                status = BAD_RECORD
                break
            if header_count == 0 and at != stop:
                status = BAD_RECORD
                break
            if not (
                -TIMESTAMP_LIMIT < timestamp_delta < TIMESTAMP_LIMIT
                and -0x80000000 <= offset_delta <= 0x7FFFFFFF
            ):
                status = BAD_RECORD
                break
            at = stop
            offset = base_offset + offset_delta
            if offset < from_offset:
                continue
            offsets[row] = offset
            timestamp = base_timestamp if append_time else base_timestamp + timestamp_delta
            timestamps[row] = timestamp
            if timestamp == NO_TIMESTAMP:
                missing += 1
            timestamp_types[row] = timestamp_type
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
            key_ends[row] = key_at
            value_ends[row] = value_at
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
    offsets,
    timestamps,
    timestamp_types,
    key_ends,
    key_data,
    key_valid,
    value_ends,
    value_data,
    value_valid,
    header_at,
    header_stop,
    state,
):
    """Append the messages of uncompressed format 0 and 1 entries table[first:last]; as `decode_batches`."""
    row = state[ROWS]
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
        offsets[row] = entry[BASE_OFFSET]
        timestamp = entry[BASE_TIMESTAMP]
        timestamps[row] = timestamp
        if timestamp == NO_TIMESTAMP:
            state[TIMESTAMPS_MISSING] += 1
        timestamp_types[row] = NO_TIMESTAMP_TYPE
        if entry[MAGIC] == 1:
            timestamp_types[row] = 1 if entry[ATTRIBUTES] & LOG_APPEND_TIME else 0
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
        key_ends[row] = key_at
        value_ends[row] = value_at
        state[ROWS] = row
        state[KEY_BYTES] = key_at
        state[VALUE_BYTES] = value_at
    return OK
