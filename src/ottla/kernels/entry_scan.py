"""The scan: finds the entries of a record set, of any format, and checks their checksums.

It fills the entry table (see `layout`) and stops at a partial last entry, which is normal: brokers cut
a record set at a byte limit.
"""

from __future__ import annotations

from ottla.kernels.crc32 import crc32
from ottla.kernels.crc32c import crc32c
from ottla.kernels.kernel import inlined, kernel
from ottla.kernels.layout import (
    ATTRIBUTES,
    BAD_CRC,
    BAD_FIELD,
    BAD_MAGIC,
    BAD_SIZE,
    BASE_OFFSET,
    BASE_TIMESTAMP,
    COUNT,
    CRC,
    END,
    ENTRY,
    ENTRY_COLUMNS,
    FULL,
    LAST_OFFSET,
    MAGIC,
    MAX_TIMESTAMP,
    OFFSET_LIMIT,
    OK,
    PRODUCER_ID,
    SOURCE,
    START,
    TIMESTAMP_LIMIT,
    VERIFY_LATER,
    VERIFY_NOTHING,
)
from ottla.kernels.memory import (
    get_byte,
    get_int64,
    pointer,
    put_int64,
    read_int16,
    read_int32,
    read_int64,
    read_uint32,
    row_of,
)
from ottla.model.record_layout import (
    BATCH_ATTRIBUTES_AT,
    BATCH_BASE_TIMESTAMP_AT,
    BATCH_COUNT_AT,
    BATCH_CRC_AT,
    BATCH_LAST_OFFSET_DELTA_AT,
    BATCH_MAX_TIMESTAMP_AT,
    BATCH_OVERHEAD,
    BATCH_PRODUCER_ID_AT,
    ENTRY_OVERHEAD,
    LEGACY_ATTRIBUTES_AT,
    LEGACY_BODY_AT_V0,
    LEGACY_BODY_AT_V1,
    LEGACY_CRC_AT,
    LEGACY_TIMESTAMP_AT,
    MAGIC_AT,
    NO_TIMESTAMP,
    RECORD_SIZE_MIN,
    SIZE_AT,
    SIZE_MIN_V0,
    SIZE_MIN_V1,
    SIZE_MIN_V2,
)


@inlined
def _scan_batch(data, at, end, verify, row):
    last_delta = read_int32(data, at + BATCH_LAST_OFFSET_DELTA_AT)
    base_timestamp = read_int64(data, at + BATCH_BASE_TIMESTAMP_AT)
    max_timestamp = read_int64(data, at + BATCH_MAX_TIMESTAMP_AT)
    count = read_int32(data, at + BATCH_COUNT_AT)
    put_int64(row, START, at + BATCH_OVERHEAD)
    put_int64(row, ATTRIBUTES, read_int16(data, at + BATCH_ATTRIBUTES_AT))
    put_int64(row, LAST_OFFSET, get_int64(row, BASE_OFFSET) + last_delta)
    put_int64(row, BASE_TIMESTAMP, base_timestamp)
    put_int64(row, MAX_TIMESTAMP, max_timestamp)
    put_int64(row, COUNT, count)
    put_int64(row, PRODUCER_ID, read_int64(data, at + BATCH_PRODUCER_ID_AT))
    put_int64(row, CRC, -1)
    if verify != VERIFY_NOTHING:
        crc = read_uint32(data, at + BATCH_CRC_AT)
        if verify == VERIFY_LATER:
            put_int64(row, CRC, crc)
        elif crc32c(data, at + BATCH_ATTRIBUTES_AT, end) != crc:
            return BAD_CRC
    if last_delta < 0 or count < 0:
        return BAD_FIELD
    if not -TIMESTAMP_LIMIT < base_timestamp < TIMESTAMP_LIMIT:
        return BAD_FIELD
    return OK


@inlined
def scan_message(data, at, end, magic, verify, row):
    """Fill the row of the message data[at:end] of format 0 or 1; OK or BAD_CRC."""
    if verify != VERIFY_NOTHING and crc32(data, at + MAGIC_AT, end) != read_uint32(data, at + LEGACY_CRC_AT):
        return BAD_CRC
    put_int64(row, START, at + (LEGACY_BODY_AT_V0 if magic == 0 else LEGACY_BODY_AT_V1))
    put_int64(row, ATTRIBUTES, get_byte(data, at + LEGACY_ATTRIBUTES_AT))
    put_int64(row, LAST_OFFSET, get_int64(row, BASE_OFFSET))
    timestamp = NO_TIMESTAMP
    if magic == 1:
        timestamp = read_int64(data, at + LEGACY_TIMESTAMP_AT)
    put_int64(row, BASE_TIMESTAMP, timestamp)
    put_int64(row, MAX_TIMESTAMP, timestamp)
    put_int64(row, COUNT, 1)
    put_int64(row, PRODUCER_ID, -1)
    put_int64(row, CRC, -1)
    return OK


@inlined
def counted(row, next_offset, formats, attributes, records, total, unverified):
    """The sums of `summarize_entries`, with one more entry."""
    size = get_int64(row, END) - get_int64(row, START)
    count = get_int64(row, COUNT)
    if size > 0 or count > 0:  # else it is empty, or hidden
        attributes |= get_int64(row, ATTRIBUTES)
        # A count is capped by the number of records that the bytes can hold.
        records += min(count, max(1, size // RECORD_SIZE_MIN))
    return (
        max(next_offset, get_int64(row, LAST_OFFSET) + 1),
        formats | 1 << get_int64(row, MAGIC),
        attributes,
        records,
        total + size,
        unverified + (get_int64(row, CRC) >= 0),
    )


@inlined
def read_sums(summary):
    """The sums of `summarize_entries`, from the address of `summary`."""
    return (
        get_int64(summary, 0),
        get_int64(summary, 1),
        get_int64(summary, 2),
        get_int64(summary, 3),
        get_int64(summary, 4),
        get_int64(summary, 5),
    )


@inlined
def write_sums(summary, next_offset, formats, attributes, records, total, unverified):
    """Write what `read_sums` reads."""
    put_int64(summary, 0, next_offset)
    put_int64(summary, 1, formats)
    put_int64(summary, 2, attributes)
    put_int64(summary, 3, records)
    put_int64(summary, 4, total)
    put_int64(summary, 5, unverified)


@kernel
def scan_entries(data, at, end, source, verify, table, progress, summary):
    """Fill `table` from data[at:end].

    `verify` is one of `layout`'s VERIFY_…; messages of formats 0 and 1 are never left for later. `progress`
    gets (number of entries, position after the last of them). The sums of `summarize_entries` are added to
    `summary`. On damage, the row after the last sound one holds the damaged entry's position and offsets.
    """
    rows = 0
    status = OK
    sums = read_sums(pointer(summary))
    capacity = table.shape[0]
    memory = pointer(data)
    rows_at = pointer(table)
    while end - at >= ENTRY_OVERHEAD:
        size = read_int32(memory, at + SIZE_AT)
        if size >= 0 and size > end - at - ENTRY_OVERHEAD:
            break
        if rows == capacity:
            status = FULL
            break
        row = row_of(rows_at, rows, ENTRY_COLUMNS)
        put_int64(row, ENTRY, at)
        put_int64(row, BASE_OFFSET, read_int64(memory, at))
        put_int64(row, LAST_OFFSET, get_int64(row, BASE_OFFSET))
        put_int64(row, SOURCE, source)
        status = BAD_SIZE
        stop = at + ENTRY_OVERHEAD + size
        if not 0 <= get_int64(row, BASE_OFFSET) < OFFSET_LIMIT:
            status = BAD_FIELD
        elif size >= SIZE_MIN_V0:
            magic = get_byte(memory, at + MAGIC_AT)
            put_int64(row, MAGIC, magic)
            put_int64(row, END, stop)
            if magic == 2:
                if size >= SIZE_MIN_V2:
                    status = _scan_batch(memory, at, stop, verify, row)
            elif magic <= 1:
                if magic == 0 or size >= SIZE_MIN_V1:
                    status = scan_message(memory, at, stop, magic, verify, row)
            else:
                status = BAD_MAGIC
        if status != OK:
            break
        sums = counted(row, *sums)
        rows += 1
        at = stop
    progress[0] = rows
    progress[1] = at
    write_sums(pointer(summary), *sums)
    return status


@kernel
def summarize_entries(table, summary):
    """Sum up the table, so that most record sets need no look at single entries.

    `summary` gets: the offset after the largest, formats (a bit a magic), attribute bits of entries that
    are not empty, records at most, bytes of records, entries with a checksum left to check.
    """
    sums = (0, 0, 0, 0, 0, 0)
    rows_at = pointer(table)
    for index in range(table.shape[0]):
        sums = counted(row_of(rows_at, index, ENTRY_COLUMNS), *sums)
    write_sums(pointer(summary), *sums)
