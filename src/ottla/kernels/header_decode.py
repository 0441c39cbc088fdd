"""The second pass: record headers into the buffers of Arrow's list<struct<key, value>>, if wanted."""

from __future__ import annotations

import numpy as np

from ottla.kernels.kernel import kernel
from ottla.kernels.layout import (
    BAD_HEADER,
    FAILED_ROW,
    HEADER_KEY_ENDS_AT,
    HEADER_VALUE_ENDS_AT,
    KEY_BYTES,
    OK,
    ROWS,
    VALUE_BYTES,
    VALUE_NULLS,
)
from ottla.kernels.memory import copy_bytes, get_int64, halves_at, pointer, put_int32
from ottla.kernels.record_decode import append_value, binary_column
from ottla.kernels.varint import read_varint


@kernel
def decode_headers(
    raw,
    arena,
    header_at,
    header_stop,
    rows,
    capacity,
    slab,
    parts,
    state,
):
    """Fill the slab's parts with the headers of `rows` records (positions from `decode_batches`).

    Room is the caller's promise: `capacity` headers (counted by the decode), data for the sum of stop - at.
    """
    list_ends = halves_at(slab, parts[0])
    key_ends, _, key_data, key_end = binary_column(slab, parts, np.int64(HEADER_KEY_ENDS_AT), np.int64(0))
    value_ends, value_valid, value_data, value_end = binary_column(
        slab, parts, np.int64(HEADER_VALUE_ENDS_AT), np.int64(0)
    )
    raw_at = pointer(raw)
    arena_at = pointer(arena)
    spans_start = pointer(header_at)
    spans_stop = pointer(header_stop)
    put_int32(list_ends, 0, 0)
    # Typed zeros: Numba would compile the parts for a literal 0 as well.
    header, nulls, key_at, value_at = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    for row in range(rows):
        at = get_int64(spans_start, row)
        stop = get_int64(spans_stop, row)
        data = raw_at
        data_end = raw.size
        if at < 0:
            at = ~at
            data = arena_at
            data_end = arena.size
        count = 0
        if stop > 0:
            count, at = read_varint(data, at, stop)
        for _ in range(count):
            key_size, at = read_varint(data, at, stop)
            if at > stop or key_size < 0 or key_size > stop - at or header >= capacity:
                state[FAILED_ROW] = row
                return BAD_HEADER
            copy_bytes(key_data, key_at, key_end, data, at, data_end, key_size)
            key_at += key_size
            at += key_size
            value_size, at = read_varint(data, at, stop)
            if at > stop or value_size < -1 or value_size > stop - at:
                state[FAILED_ROW] = row
                return BAD_HEADER
            nulls += value_size < 0
            value_at = append_value(
                value_data, value_at, value_end, value_valid, header, data, at, data_end, value_size
            )
            at += max(value_size, 0)
            header += 1
            put_int32(key_ends, header, key_at)
            put_int32(value_ends, header, value_at)
        if stop > 0 and at != stop:
            state[FAILED_ROW] = row
            return BAD_HEADER
        put_int32(list_ends, row + 1, header)
        # Totals move at the end of a sound record, so that a damaged one leaves nothing behind.
        state[ROWS] = header
        state[KEY_BYTES] = key_at
        state[VALUE_BYTES] = value_at
        state[VALUE_NULLS] = nulls
    return OK
