"""Arrow columns into uncompressed messages of formats 0 and 1. Columns come as in `record_encode`."""

from __future__ import annotations

import numpy as np

from ottla.kernels.crc32 import crc32
from ottla.kernels.kernel import inlined, kernel
from ottla.kernels.layout import BAD_FIELD, FULL, OK
from ottla.kernels.memory import copy_bytes, get_int32, get_int64, pointer, put_byte, write_int32, write_int64
from ottla.kernels.record_encode import size_of
from ottla.model.record_layout import (
    ENTRY_OVERHEAD,
    LEGACY_ATTRIBUTES_AT,
    LEGACY_BODY_AT_V0,
    LEGACY_BODY_AT_V1,
    LEGACY_CRC_AT,
    LEGACY_TIMESTAMP_AT,
    LENGTH_BYTES,
    MAGIC_AT,
    SIZE_AT,
    SIZE_MAX,
)


@inlined
def _write_sized(out, at, out_end, ends, data, data_end, index, size):
    write_int32(out, at, size)
    if size > 0:
        copy_bytes(out, at + LENGTH_BYTES, out_end, data, get_int32(ends, index), data_end, size)
    return at + LENGTH_BYTES + max(size, 0)


@kernel
def encode_messages(
    rows,
    key_ends,
    key_data,
    key_valid,
    key_valid_at,
    value_ends,
    value_data,
    value_valid,
    value_valid_at,
    timestamps,
    magic,
    base_offset,
    out,
    progress,
):
    """Write `rows` uncompressed messages of format 0 or 1 with offsets from `base_offset`.

    `progress` gets (bytes written, row reached).
    """
    keys, key_bytes, key_bits = pointer(key_ends), pointer(key_data), pointer(key_valid)
    values, value_bytes, value_bits = pointer(value_ends), pointer(value_data), pointer(value_valid)
    times, target = pointer(timestamps), pointer(out)
    overhead = LEGACY_BODY_AT_V0 if magic == 0 else LEGACY_BODY_AT_V1
    at = np.int64(0)
    for row in range(rows):
        progress[1] = row
        key_size = size_of(keys, key_ends.size > 0, key_bits, key_valid.size > 0, key_valid_at, row)
        value_size = size_of(
            values, value_ends.size > 0, value_bits, value_valid.size > 0, value_valid_at, row
        )
        stop = at + overhead + 2 * LENGTH_BYTES + max(key_size, 0) + max(value_size, 0)
        if stop - at > SIZE_MAX:
            return BAD_FIELD
        if stop > out.size:
            return FULL
        write_int64(target, at, base_offset + row)
        write_int32(target, at + SIZE_AT, stop - at - ENTRY_OVERHEAD)
        put_byte(target, at + MAGIC_AT, magic)
        put_byte(target, at + LEGACY_ATTRIBUTES_AT, 0)
        if magic == 1:
            write_int64(target, at + LEGACY_TIMESTAMP_AT, get_int64(times, row))
        body = _write_sized(target, at + overhead, out.size, keys, key_bytes, key_data.size, row, key_size)
        _write_sized(target, body, out.size, values, value_bytes, value_data.size, row, value_size)
        write_int32(target, at + LEGACY_CRC_AT, crc32(target, at + MAGIC_AT, stop))
        at = stop
    progress[0] = at
    progress[1] = rows
    return OK
