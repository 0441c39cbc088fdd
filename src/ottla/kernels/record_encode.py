"""The encode: Arrow columns into record batches (format 2), in one pass; for other formats `message_encode`.

A binary column comes as (ends, data, valid, valid_at): Arrow's offsets and data, its validity bitmap
(empty: no nulls) and the first bit of it that counts. `ends` empty means that every value is null.
Format 2 can be written from some rows only, by their numbers, and a batch from several sets of columns.
The caller compresses, with a library, and computes CRC-32C where the CPU has no instruction for it.
"""

from __future__ import annotations

import numpy as np

from ottla.kernels.crc32c import CACHE_LINE, crc32c
from ottla.kernels.kernel import inlined, kernel
from ottla.kernels.layout import (
    BAD_FIELD,
    ENCODED_BATCHES,
    ENCODED_BEFORE,
    ENCODED_COLUMNS,
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
    VERIFY_HERE,
)
from ottla.kernels.memory import (
    copy_bytes,
    get_byte,
    get_int32,
    get_int64,
    pointer,
    prefetch,
    put_byte,
    put_int64,
    row_of,
    write_int16,
    write_int32,
    write_int64,
)
from ottla.kernels.varint import varint_size, write_varint
from ottla.model.record_layout import (
    BATCH_ATTRIBUTES_AT,
    BATCH_BASE_TIMESTAMP_AT,
    BATCH_COUNT_AT,
    BATCH_CRC_AT,
    BATCH_LAST_OFFSET_DELTA_AT,
    BATCH_MAX_TIMESTAMP_AT,
    BATCH_OVERHEAD,
    BATCH_PRODUCER_EPOCH_AT,
    BATCH_PRODUCER_ID_AT,
    BATCH_SEQUENCE_AT,
    ENTRY_OVERHEAD,
    LEADER_EPOCH_AT,
    MAGIC_AT,
    NO_LEADER_EPOCH,
    RECORD_OVERHEAD_MAX,
    SIZE_AT,
    SIZE_MAX,
)

PICKS_AHEAD = 2
PREFETCH_BYTES = 1024


@inlined
def size_of(ends, has_ends, valid, has_nulls, valid_at, index):
    """Length of value `index`, -1 for null."""
    if not has_ends:
        return -1
    if has_nulls:
        bit = valid_at + index
        if not (get_byte(valid, bit >> 3) >> (bit & 7)) & 1:
            return -1
    return get_int32(ends, index + 1) - get_int32(ends, index)


@inlined
def _prefetch_value(ends, data, index):
    """Rows that are picked lie apart, where the CPU does not look ahead by itself."""
    start = get_int32(ends, index)
    for line in range(start, min(get_int32(ends, index + 1), start + PREFETCH_BYTES), CACHE_LINE):
        prefetch(data, line)


@inlined
def _write_value(out, at, out_end, ends, data, data_end, index, size):
    at = write_varint(out, at, size)
    if size > 0:
        copy_bytes(out, at, out_end, data, get_int32(ends, index), data_end, size)
        at += size
    return at


@inlined
def _write_headers(
    out,
    at,
    out_end,
    first,
    last,
    key_ends,
    key_data,
    key_end,
    value_ends,
    value_data,
    value_end,
    value_valid,
    has_nulls,
    value_valid_at,
):
    at = write_varint(out, at, last - first)
    for header in range(first, last):
        size = get_int32(key_ends, header + 1) - get_int32(key_ends, header)
        at = _write_value(out, at, out_end, key_ends, key_data, key_end, header, size)
        size = size_of(value_ends, last > first, value_valid, has_nulls, value_valid_at, header)
        at = _write_value(out, at, out_end, value_ends, value_data, value_end, header, size)
    return at


@inlined
def _close_batch(out, start, end, first, count, base_timestamp, max_timestamp, stamp, verify, entry):
    """Write the 61 bytes in front of a batch of records `first` and on, and its row of the table."""
    write_int64(out, start, get_int64(stamp, STAMP_OFFSET) + first)
    write_int32(out, start + SIZE_AT, end - start - ENTRY_OVERHEAD)
    write_int32(out, start + LEADER_EPOCH_AT, NO_LEADER_EPOCH)
    put_byte(out, start + MAGIC_AT, 2)
    write_int16(out, start + BATCH_ATTRIBUTES_AT, get_int64(stamp, STAMP_ATTRIBUTES))
    write_int32(out, start + BATCH_LAST_OFFSET_DELTA_AT, count - 1)
    write_int64(out, start + BATCH_BASE_TIMESTAMP_AT, base_timestamp)
    write_int64(out, start + BATCH_MAX_TIMESTAMP_AT, max_timestamp)
    write_int64(out, start + BATCH_PRODUCER_ID_AT, get_int64(stamp, STAMP_PRODUCER_ID))
    write_int16(out, start + BATCH_PRODUCER_EPOCH_AT, get_int64(stamp, STAMP_PRODUCER_EPOCH))
    sequence = get_int64(stamp, STAMP_SEQUENCE)
    if sequence >= 0:
        sequence = (sequence + first) & 0x7FFFFFFF  # after the largest comes 0
    write_int32(out, start + BATCH_SEQUENCE_AT, sequence)
    write_int32(out, start + BATCH_COUNT_AT, count)
    crc = 0
    if verify == VERIFY_HERE:
        crc = crc32c(out, start + BATCH_ATTRIBUTES_AT, end)
    write_int32(out, start + BATCH_CRC_AT, crc)
    put_int64(entry, ENCODED_START, start)
    put_int64(entry, ENCODED_END, end)


@kernel
def _move(out, start, size, shift):
    """Move out[start:start+size] by a few bytes. Rarely needed, so not inlined."""
    if shift > 0:
        for i in range(size):
            put_byte(out, start + size - 1 - i + shift, get_byte(out, start + size - 1 - i))
    else:
        for i in range(size):
            put_byte(out, start + i + shift, get_byte(out, start + i))


@inlined
def _write_length(out, at, guess, end):
    """Put the length in front of a record that was written after `guess` bytes: (bytes it took, new end)."""
    size = end - at - guess
    if guess == 2 and 64 <= size < 8192:  # the usual case, without a loop
        put_byte(out, at, ((size << 1) & 0x7F) | 0x80)
        put_byte(out, at + 1, size >> 6)
        return guess, end
    length_size = varint_size(size)
    if length_size != guess:
        _move(out, at + guess, size, length_size - guess)
    write_varint(out, at, size)
    return length_size, end + length_size - guess


@kernel
def _first_beyond(times, chosen, has_picks, rows):
    """The first timestamp that is not within the limit."""
    row = 0
    while row < rows:
        timestamp = get_int64(times, get_int64(chosen, row) if has_picks else row)
        if not -ENCODED_TIMESTAMP_LIMIT < timestamp < ENCODED_TIMESTAMP_LIMIT:
            break
        row += 1
    return row


@kernel
def encode_batches(
    rows,
    picks,
    key_ends,
    key_data,
    key_valid,
    key_valid_at,
    value_ends,
    value_data,
    value_valid,
    value_valid_at,
    timestamps,
    timestamp_ms,
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
    is_last,
    out,
    table,
    state,
):
    """Write `rows` records as batches of at most `batch_bytes` (a larger record gets its own batch).

    `picks`: which rows of the columns, ascending; empty: the first ones.
    `timestamps` empty: all have `timestamp_ms`, which the caller has checked.
    The header arrays are all None if no record has headers; Numba then leaves that code out.
    `stamp`: what goes into the batch headers (see `layout`); offset and sequence are the first record's.
    `verify`: whether checksums are made here or left to the caller, as for the scan.
    `is_last`: whether the last batch is closed, or continues with the records of another call with the same
    `out`, `table` and `state`. `table` gets (start, end) of each closed batch.

    A record is written before its length is known, after as many bytes as the length before took, and
    moved if that was wrong. If it made its batch too large, the batch is closed in front of it and the
    record is written again: its deltas differ.
    """
    keys, key_bytes, key_bits = pointer(key_ends), pointer(key_data), pointer(key_valid)
    values, value_bytes, value_bits = pointer(value_ends), pointer(value_data), pointer(value_valid)
    chosen, times, target = pointer(picks), pointer(timestamps), pointer(out)
    stamps, entries, states = pointer(stamp), pointer(table), pointer(state)
    before, batches = get_int64(states, ENCODED_BEFORE), get_int64(states, ENCODED_BATCHES)
    start, at = get_int64(states, OPEN_START), get_int64(states, OPEN_END)
    count = get_int64(states, OPEN_COUNT)
    base_timestamp = get_int64(states, OPEN_BASE_TIMESTAMP)
    max_timestamp = get_int64(states, OPEN_MAX_TIMESTAMP)
    batch_end = start + batch_bytes
    # Typed zeros: Numba would compile the parts for a literal 0 as well.
    step, extent, length_size = np.int64(0), np.int64(0), np.int64(1)
    status = OK
    while step < rows:
        row = step
        if picks.size > 0:
            row = get_int64(chosen, step)
            if value_ends.size > 0:
                _prefetch_value(values, value_bytes, get_int64(chosen, min(step + PICKS_AHEAD, rows - 1)))
        timestamp = get_int64(times, row) if timestamps.size > 0 else timestamp_ms
        # Any timestamp can be written; whether each was within the limit is looked at once, after the loop.
        extent |= abs(timestamp)
        key_size = size_of(keys, key_ends.size > 0, key_bits, key_valid.size > 0, key_valid_at, row)
        value_size = size_of(
            values, value_ends.size > 0, value_bits, value_valid.size > 0, value_valid_at, row
        )
        room = key_size + value_size + RECORD_OVERHEAD_MAX
        if header_ends is not None:
            first_header = get_int32(pointer(header_ends), row)
            last_header = get_int32(pointer(header_ends), row + 1)
            room += (last_header - first_header) * RECORD_OVERHEAD_MAX
            for ends in (pointer(header_key_ends), pointer(header_value_ends)):
                room += get_int32(ends, last_header) - get_int32(ends, first_header)
        if count == 0:
            if batches == table.shape[0]:
                status = FULL
                break
            start = at
            batch_end = start + batch_bytes
            at += BATCH_OVERHEAD
            base_timestamp = timestamp
            max_timestamp = timestamp
        if room > SIZE_MAX:
            status = BAD_FIELD
            break
        if at + room > out.size:
            status = FULL
            break
        end = at + length_size
        put_byte(target, end, 0)
        end = write_varint(target, end + 1, timestamp - base_timestamp)
        end = write_varint(target, end, count)
        end = _write_value(target, end, out.size, keys, key_bytes, key_data.size, row, key_size)
        end = _write_value(target, end, out.size, values, value_bytes, value_data.size, row, value_size)
        if header_ends is None:
            put_byte(target, end, 0)
            end += 1
        else:
            end = _write_headers(
                target,
                end,
                out.size,
                first_header,
                last_header,
                pointer(header_key_ends),
                pointer(header_key_data),
                header_key_data.size,
                pointer(header_value_ends),
                pointer(header_value_data),
                header_value_data.size,
                pointer(header_value_valid),
                header_value_valid.size > 0,
                header_value_valid_at,
            )
        length_size, end = _write_length(target, at, length_size, end)
        if end <= batch_end or count == 0:
            at = end
            count += 1
            step += 1
            max_timestamp = max(max_timestamp, timestamp)
            if step < rows or not is_last:
                continue
        _close_batch(
            target,
            start,
            at,
            before + step - count,
            count,
            base_timestamp,
            max_timestamp,
            stamps,
            verify,
            row_of(entries, batches, ENCODED_COLUMNS),
        )
        batches += 1
        count = np.int64(0)
    if timestamps.size > 0 and extent // ENCODED_TIMESTAMP_LIMIT != 0:
        status = BAD_FIELD
        step = _first_beyond(times, chosen, picks.size > 0, rows)
    if status == OK:
        put_int64(states, ENCODED_BATCHES, batches)
        put_int64(states, ENCODED_BEFORE, before + step)
        put_int64(states, OPEN_START, start)
        put_int64(states, OPEN_END, at)
        put_int64(states, OPEN_COUNT, count)
        put_int64(states, OPEN_BASE_TIMESTAMP, base_timestamp)
        put_int64(states, OPEN_MAX_TIMESTAMP, max_timestamp)
    put_int64(states, ENCODED_ROW, step)
    return status
