"""The encode: Arrow columns into record batches (format 2) or messages (formats 0 and 1), in one pass.

A binary column comes as (ends, data, valid, valid_at): Arrow's offsets and data, its validity bitmap
(empty: no nulls) and the first bit of it that counts. `ends` empty means that every value is null.
Compression is the caller's, who does it once a batch with a library, and so is CRC-32C where the CPU has
no instruction for it.
"""

from __future__ import annotations

from ottla.kernels.crc32 import crc32
from ottla.kernels.crc32c import crc32c
from ottla.kernels.integers import varint_size, write_int16, write_int32, write_int64, write_varint
from ottla.kernels.kernel import inlined, kernel
from ottla.kernels.layout import (
    BAD_FIELD,
    BATCH_ATTRIBUTES_AT,
    BATCH_CRC_AT,
    BATCH_OVERHEAD,
    ENCODED_COLUMNS,
    ENCODED_END,
    ENCODED_START,
    ENCODED_TIMESTAMP_LIMIT,
    ENTRY_OVERHEAD,
    FULL,
    LEGACY_BODY_AT_V0,
    LEGACY_BODY_AT_V1,
    MAGIC_AT,
    OK,
    STAMP_ATTRIBUTES,
    STAMP_OFFSET,
    STAMP_PRODUCER_EPOCH,
    STAMP_PRODUCER_ID,
    STAMP_SEQUENCE,
    VERIFY_HERE,
)
from ottla.kernels.memory import (
    copy_bytes,
    get_byte,
    get_half,
    get_word,
    pointer,
    put_byte,
    put_word,
    row_of,
)


@inlined
def _size_of(ends, has_ends, valid, has_nulls, valid_at, index):  # type: ignore[no-untyped-def]
    """Length of value `index`, -1 for null."""
    if not has_ends:
        return -1
    if has_nulls:
        bit = valid_at + index
        if not (get_byte(valid, bit >> 3) >> (bit & 7)) & 1:
            return -1
    return get_half(ends, index + 1) - get_half(ends, index)


@inlined
def _write_value(out, at, out_end, ends, data, data_end, index, size):  # type: ignore[no-untyped-def]
    at = write_varint(out, at, size)
    if size > 0:
        copy_bytes(out, at, out_end, data, get_half(ends, index), data_end, size)
        at += size
    return at


@inlined
def _close_batch(  # type: ignore[no-untyped-def]
    out, start, at, count, row, base_timestamp, max_timestamp, stamp, verify, table, batch
):
    """Write the 61 bytes in front of a batch, and its row of the table. `row` is behind its last record."""
    first = row - count
    write_int64(out, start, get_word(stamp, STAMP_OFFSET) + first)
    write_int32(out, start + 8, at - start - ENTRY_OVERHEAD)
    write_int32(out, start + 12, -1)
    put_byte(out, start + MAGIC_AT, 2)
    write_int16(out, start + BATCH_ATTRIBUTES_AT, get_word(stamp, STAMP_ATTRIBUTES))
    write_int32(out, start + 23, count - 1)
    write_int64(out, start + 27, base_timestamp)
    write_int64(out, start + 35, max_timestamp)
    write_int64(out, start + 43, get_word(stamp, STAMP_PRODUCER_ID))
    write_int16(out, start + 51, get_word(stamp, STAMP_PRODUCER_EPOCH))
    sequence = get_word(stamp, STAMP_SEQUENCE)
    if sequence >= 0:
        sequence = (sequence + first) & 0x7FFFFFFF  # sequences wrap to 0
    write_int32(out, start + 53, sequence)
    write_int32(out, start + 57, count)
    crc = 0
    if verify == VERIFY_HERE:
        crc = crc32c(out, start + BATCH_ATTRIBUTES_AT, at)
    write_int32(out, start + BATCH_CRC_AT, crc)
    row = row_of(table, batch, ENCODED_COLUMNS)
    put_word(row, ENCODED_START, start)
    put_word(row, ENCODED_END, at)


@kernel
def encode_batches(  # type: ignore[no-untyped-def]
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
    header_ends,
    header_key_ends,
    header_key_data,
    header_value_ends,
    header_value_data,
    header_value_valid,
    header_value_valid_at,
    batch_bytes,
    stamp,
    verify,
    out,
    table,
    progress,
):
    """Write `rows` records as batches of at most `batch_bytes` (a larger record gets its own batch).

    `stamp`: what goes into the batch headers (see `layout`); offset and sequence are the first record's.
    `verify`: whether checksums are made here or left to the caller, as for the scan.
    `table` gets (start, end) of each batch, `progress` (batches written, row reached).
    """
    keys, key_bytes, key_bits = pointer(key_ends), pointer(key_data), pointer(key_valid)
    values, value_bytes, value_bits = pointer(value_ends), pointer(value_data), pointer(value_valid)
    header_keys, header_key_bytes = pointer(header_key_ends), pointer(header_key_data)
    header_values, header_value_bytes = pointer(header_value_ends), pointer(header_value_data)
    header_value_bits = pointer(header_value_valid)
    lists, times, target = pointer(header_ends), pointer(timestamps), pointer(out)
    stamp_at, table_at = pointer(stamp), pointer(table)
    has_headers = header_ends.size > 0
    at = 0
    batches = 0
    start = 0
    count = 0
    base_timestamp = 0
    max_timestamp = 0
    for row in range(rows):
        timestamp = get_word(times, row)
        progress[1] = row
        if not -ENCODED_TIMESTAMP_LIMIT < timestamp < ENCODED_TIMESTAMP_LIMIT:
            return BAD_FIELD
        key_size = _size_of(keys, key_ends.size > 0, key_bits, key_valid.size > 0, key_valid_at, row)
        value_size = _size_of(
            values, value_ends.size > 0, value_bits, value_valid.size > 0, value_valid_at, row
        )
        fixed = 1 + varint_size(key_size) + varint_size(value_size) + max(key_size, 0) + max(value_size, 0)
        first_header = 0
        last_header = 0
        if has_headers:
            first_header = get_half(lists, row)
            last_header = get_half(lists, row + 1)
            for header in range(first_header, last_header):
                size = get_half(header_keys, header + 1) - get_half(header_keys, header)
                fixed += varint_size(size) + size
                size = _size_of(
                    header_values,
                    header_value_ends.size > 0,
                    header_value_bits,
                    header_value_valid.size > 0,
                    header_value_valid_at,
                    header,
                )
                fixed += varint_size(size) + max(size, 0)
        fixed += varint_size(last_header - first_header)
        size = fixed + varint_size(timestamp - base_timestamp) + varint_size(count)
        if count > 0 and at + varint_size(size) + size - start > batch_bytes:
            _close_batch(
                target,
                start,
                at,
                count,
                row,
                base_timestamp,
                max_timestamp,
                stamp_at,
                verify,
                table_at,
                batches,
            )
            batches += 1
            count = 0
        if count == 0:
            start = at
            at += BATCH_OVERHEAD
            base_timestamp = timestamp
            max_timestamp = timestamp
            size = fixed + 2
            if batches == table.shape[0]:
                return FULL
        if size > 0x7FFFFFFF - BATCH_OVERHEAD:
            return BAD_FIELD
        if at + size + 5 > out.size:
            return FULL
        at = write_varint(target, at, size)
        put_byte(target, at, 0)
        at = write_varint(target, at + 1, timestamp - base_timestamp)
        at = write_varint(target, at, count)
        at = _write_value(target, at, out.size, keys, key_bytes, key_data.size, row, key_size)
        at = _write_value(target, at, out.size, values, value_bytes, value_data.size, row, value_size)
        at = write_varint(target, at, last_header - first_header)
        for header in range(first_header, last_header):
            size = get_half(header_keys, header + 1) - get_half(header_keys, header)
            at = _write_value(
                target, at, out.size, header_keys, header_key_bytes, header_key_data.size, header, size
            )
            size = _size_of(
                header_values,
                header_value_ends.size > 0,
                header_value_bits,
                header_value_valid.size > 0,
                header_value_valid_at,
                header,
            )
            at = _write_value(
                target, at, out.size, header_values, header_value_bytes, header_value_data.size, header, size
            )
        max_timestamp = max(max_timestamp, timestamp)
        count += 1
    if count > 0:
        _close_batch(
            target, start, at, count, rows, base_timestamp, max_timestamp, stamp_at, verify, table_at, batches
        )
        batches += 1
    progress[0] = batches
    progress[1] = rows
    return OK


@inlined
def _write_sized(out, at, out_end, ends, data, data_end, index, size):  # type: ignore[no-untyped-def]
    write_int32(out, at, size)
    if size > 0:
        copy_bytes(out, at + 4, out_end, data, get_half(ends, index), data_end, size)
    return at + 4 + max(size, 0)


@kernel
def encode_messages(  # type: ignore[no-untyped-def]
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
    at = 0
    for row in range(rows):
        progress[1] = row
        key_size = _size_of(keys, key_ends.size > 0, key_bits, key_valid.size > 0, key_valid_at, row)
        value_size = _size_of(
            values, value_ends.size > 0, value_bits, value_valid.size > 0, value_valid_at, row
        )
        stop = at + overhead + 8 + max(key_size, 0) + max(value_size, 0)
        if stop - at > 0x7FFFFFFF:
            return BAD_FIELD
        if stop > out.size:
            return FULL
        write_int64(target, at, base_offset + row)
        write_int32(target, at + 8, stop - at - ENTRY_OVERHEAD)
        put_byte(target, at + MAGIC_AT, magic)
        put_byte(target, at + MAGIC_AT + 1, 0)
        if magic == 1:
            write_int64(target, at + LEGACY_BODY_AT_V0, get_word(times, row))
        body = _write_sized(target, at + overhead, out.size, keys, key_bytes, key_data.size, row, key_size)
        _write_sized(target, body, out.size, values, value_bytes, value_data.size, row, value_size)
        write_int32(target, at + ENTRY_OVERHEAD, crc32(target, at + MAGIC_AT, stop))
        at = stop
    progress[0] = at
    progress[1] = rows
    return OK
