"""The expansion: entries whose compressed ones are replaced by what they hold.

A compressed batch stays one entry, whose records are then in the arena. A compressed message (formats 0
and 1) becomes the messages in it. This is the one place that chooses a decompressor. Each takes only what is
certainly sound; anything else is left to the caller, who has libraries that say what is wrong, and who makes
room.
"""

from __future__ import annotations

from ottla.kernels.entry_scan import counted, read_sums, scan_message, write_sums
from ottla.kernels.gzip import gzip
from ottla.kernels.kernel import inlined, kernel
from ottla.kernels.layout import (
    ATTRIBUTES,
    BASE_OFFSET,
    BASE_TIMESTAMP,
    COUNT,
    END,
    ENTRY,
    ENTRY_COLUMNS,
    EXPANDED_BYTES,
    EXPANDED_ENTRIES,
    EXPANDED_ROWS,
    FULL,
    GIVEN_UP,
    LAST_OFFSET,
    LEFT,
    MAGIC,
    OFFSET_LIMIT,
    OK,
    SOURCE,
    START,
)
from ottla.kernels.lz4 import lz4
from ottla.kernels.memory import get_byte, get_int64, pointer, put_int64, read_int32, read_int64, row_of
from ottla.kernels.snappy import snappy
from ottla.model.record_layout import (
    CODEC_GZIP,
    CODEC_LZ4,
    CODEC_MASK,
    CODEC_SNAPPY,
    ENTRY_OVERHEAD,
    LEGACY_ATTRIBUTES_AT,
    LENGTH_BYTES,
    LOG_APPEND_TIME,
    MAGIC_AT,
    SIZE_AT,
    SIZE_MIN_V0,
    SIZE_MIN_V1,
)

GZIP_BYTES_MAX = 4096
"""Above it the library is faster, in spite of the call."""


@kernel
def _decompressed(codec, magic, data, at, end, data_end, arena, to, arena_end, scratch):
    """Decompress data[at:end] to `to`; where it ends, or GIVEN_UP."""
    if codec == CODEC_LZ4:
        return lz4(data, at, end, data_end, arena, to, arena_end, magic == 0)
    if codec == CODEC_SNAPPY:
        return snappy(data, at, end, data_end, arena, to, arena_end)
    if codec == CODEC_GZIP and end - at <= GZIP_BYTES_MAX:
        return gzip(data, at, end, data_end, arena, to, arena_end, scratch)
    return GIVEN_UP


@inlined
def _wrapped_bytes(data, at, end):
    """Where the compressed bytes of a message begin, behind its key and both lengths, or GIVEN_UP."""
    key_size = read_int32(data, at)  # the scan has seen that both lengths are there
    at += LENGTH_BYTES + max(key_size, 0)
    if key_size < -1 or end - at < LENGTH_BYTES or read_int32(data, at) != end - at - LENGTH_BYTES:
        return GIVEN_UP
    return at + LENGTH_BYTES


@inlined
def _scan_wrapped(arena, at, end, verify, wrapper, rows_at, first, capacity):
    """Make a row of each message in arena[at:end]: (status, the row after them)."""
    magic = get_int64(wrapper, MAGIC)
    size_min = SIZE_MIN_V0 if magic == 0 else SIZE_MIN_V1
    row_number = first
    while end - at >= ENTRY_OVERHEAD:
        size = read_int32(arena, at + SIZE_AT)
        if size > end - at - ENTRY_OVERHEAD:
            break
        if row_number == capacity:
            return FULL, first
        if size < size_min or get_byte(arena, at + MAGIC_AT) != magic:
            return LEFT, first
        if get_byte(arena, at + LEGACY_ATTRIBUTES_AT) & CODEC_MASK:
            return LEFT, first
        base_offset = read_int64(arena, at)
        if not 0 <= base_offset < OFFSET_LIMIT:
            return LEFT, first
        stop = at + ENTRY_OVERHEAD + size
        row = row_of(rows_at, row_number, ENTRY_COLUMNS)
        put_int64(row, ENTRY, get_int64(wrapper, ENTRY))
        put_int64(row, END, stop)
        put_int64(row, SOURCE, 1)
        put_int64(row, MAGIC, magic)
        put_int64(row, BASE_OFFSET, base_offset)
        if scan_message(arena, at, stop, magic, verify, row) != OK:
            return LEFT, first
        row_number += 1
        at = stop
    return (OK if row_number > first else LEFT), row_number


@inlined
def _settle(wrapper, rows_at, first, last, sums):
    """Give the messages of a wrapper their offsets and times: (status, sums with them)."""
    wrapper_offset = get_int64(wrapper, BASE_OFFSET)
    last_offset = get_int64(row_of(rows_at, last - 1, ENTRY_COLUMNS), BASE_OFFSET)
    # Inner offsets of format 1 are relative, and the wrapper's is that of the last, unless it was left at 0.
    is_relative = get_int64(wrapper, MAGIC) == 1 and wrapper_offset != 0
    if is_relative and wrapper_offset < last_offset:
        return LEFT, sums
    shift = wrapper_offset - last_offset if is_relative else 0
    attributes = get_int64(wrapper, ATTRIBUTES) & LOG_APPEND_TIME if get_int64(wrapper, MAGIC) == 1 else 0
    for index in range(first, last):
        row = row_of(rows_at, index, ENTRY_COLUMNS)
        offset = get_int64(row, BASE_OFFSET) + shift
        put_int64(row, BASE_OFFSET, offset)
        # Whatever the inner offsets are, a reader continues after the wrapper.
        last_offset = max(offset, get_int64(wrapper, LAST_OFFSET)) if index == last - 1 else offset
        put_int64(row, LAST_OFFSET, last_offset)
        if attributes != 0:
            put_int64(row, BASE_TIMESTAMP, get_int64(wrapper, BASE_TIMESTAMP))
            put_int64(row, ATTRIBUTES, get_int64(row, ATTRIBUTES) | attributes)
        sums = counted(row, *sums)
    return OK, sums


@kernel
def expand_entries(data, table, verify, records_max, arena, scratch, expanded, state, summary):
    """Append to `expanded` what the entries of `table` become, from where `state` says that it got to.

    Answers OK after the last entry, FULL if `expanded` has no room, and LEFT if the next entry needs the
    caller: it is not certainly sound, or there is no kernel for it, or the arena has no room. `verify` as in
    `scan_entries`. The sums of `summarize_entries` are added to `summary`.
    """
    sums = read_sums(pointer(summary))
    memory, arena_at, scratch_at = pointer(data), pointer(arena), pointer(scratch)
    entries_at, rows_at = pointer(table), pointer(expanded)
    index = state[EXPANDED_ENTRIES]
    rows = state[EXPANDED_ROWS]
    to = state[EXPANDED_BYTES]
    status = OK
    while index < table.shape[0]:
        if rows == expanded.shape[0]:
            status = FULL
            break
        entry = row_of(entries_at, index, ENTRY_COLUMNS)
        at = get_int64(entry, START)
        end = get_int64(entry, END)
        magic = get_int64(entry, MAGIC)
        codec = get_int64(entry, ATTRIBUTES) & CODEC_MASK
        stop = to
        if codec != 0 and at < end:
            if magic < 2:
                at = _wrapped_bytes(memory, at, end)
            if at < 0 or get_int64(entry, COUNT) > records_max:
                status = LEFT
                break
            stop = _decompressed(
                codec, magic, memory, at, end, data.size, arena_at, to, arena.size, scratch_at
            )
            if stop < 0:
                status = LEFT
                break
        if codec != 0 and at < end and magic < 2:
            capacity = min(expanded.shape[0], rows + records_max)
            status, last = _scan_wrapped(arena_at, to, stop, verify, entry, rows_at, rows, capacity)
            if status == OK:
                status, sums = _settle(entry, rows_at, rows, last, sums)
            if status != OK:
                if capacity < expanded.shape[0]:
                    status = LEFT
                break
            rows = last
        else:
            row = row_of(rows_at, rows, ENTRY_COLUMNS)
            for column in range(ENTRY_COLUMNS):
                put_int64(row, column, get_int64(entry, column))
            if codec != 0 and at < end:
                put_int64(row, START, to)
                put_int64(row, END, stop)
                put_int64(row, SOURCE, 1)
            sums = counted(row, *sums)
            rows += 1
        to = stop
        index += 1
    state[EXPANDED_ENTRIES] = index
    state[EXPANDED_ROWS] = rows
    state[EXPANDED_BYTES] = to
    write_sums(pointer(summary), *sums)
    return status
