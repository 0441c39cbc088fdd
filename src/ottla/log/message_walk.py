"""Sets of plain messages, formats 0 and 1 without compression, accepted by a short check.

Every message is an entry of its own there. A few are looked at one by one in a tight loop, which costs less
than setting up columns; many as columns (`plain_messages`). A set is accepted only if all of it is sound. Any
other set goes to `validation`, which finds the bad message and says why.
"""

from __future__ import annotations

import struct
import zlib

from ottla.log.batch_header import BatchHeader, named
from ottla.log.log_config import LogConfig
from ottla.model.record_layout import (
    ENTRY_OVERHEAD,
    LEGACY_BODY_AT,
    LEGACY_TIMESTAMP_AT,
    LENGTH,
    LENGTH_BYTES,
    MAGIC_AT,
    NO_TIMESTAMP,
    SIZE,
    SIZE_AT,
    SIZE_MIN,
    TIMESTAMP,
)

COLUMNS_FROM = 100  # messages: about where both ways take the same time
# Of a message: size, CRC, format and attributes together, size of the key.
HEADS = (struct.Struct(">iIHi"), struct.Struct(">iIH8xi"))
ALIKE_MIN = 16  # messages of one size in a row, before more of that size are expected


def starts_of(view: memoryview) -> list[int]:
    """Where the messages begin; empty unless their sizes lead exactly to the end."""
    starts: list[int] = []
    at, end, unpack = 0, len(view), SIZE.unpack_from
    before = alike = 0  # the size of the last message, and how many before it had the same
    while at + ENTRY_OVERHEAD <= end:
        starts.append(at)
        size = unpack(view, at + SIZE_AT)[0]
        if size <= 0:
            return []
        at += size + ENTRY_OVERHEAD
        if size != before:
            before, alike = size, 0
            continue
        alike += 1
        if alike >= ALIKE_MIN:
            more = _alike(view, at, size, alike)
            starts.extend(more)
            at, alike = (more.stop, 2 * alike) if more else (at, 0)
    return starts if at == end else []


def _alike(view: memoryview, at: int, size: int, count: int) -> range:
    """Where the next `count` messages begin, or all up to the end, if they have this size; else empty.

    Each byte of their sizes is compared for all of them at once.
    """
    step = size + ENTRY_OVERHEAD
    end = at + min(count, (len(view) - at) // step) * step
    starts = range(at, end, step)
    for number, byte in enumerate(SIZE.pack(size), at + SIZE_AT):
        if bytes(view[number:end:step]) != bytes([byte]) * len(starts):
            return range(0)
    return starts


def count_expected(view: memoryview) -> int:
    """How many messages a set has, if all have the size of the first one; there is one at least."""
    size: int = SIZE.unpack_from(view, SIZE_AT)[0]
    return len(view) // (max(size, 0) + ENTRY_OVERHEAD)


def few_messages(view: memoryview, config: LogConfig, now_ms: int) -> tuple[BatchHeader, ...] | None:
    """A header for each message, if all are whole, valid and plain and of one format; else None."""
    magic = view[MAGIC_AT]
    size_min, size_max = ENTRY_OVERHEAD + SIZE_MIN[magic], config.max_message_bytes
    value_at_least = LEGACY_BODY_AT[magic] + LENGTH_BYTES
    head, length, time = HEADS[magic].unpack_from, LENGTH.unpack_from, NO_TIMESTAMP
    crc32, kind_wanted = zlib.crc32, magic << 8  # without attributes
    data = bytes(view)  # a slice of bytes takes half as long as one of a view
    headers = []
    at, end = 0, len(data)
    while at < end:
        if end - at < size_min:
            return None
        size, crc, kind, key = head(data, at + SIZE_AT)
        size += ENTRY_OVERHEAD
        value_at, stop = at + value_at_least + (key if key > 0 else 0), at + size
        if (
            kind != kind_wanted
            or not size_min <= size <= size_max
            or key < -1
            or not value_at + LENGTH_BYTES <= stop <= end
        ):
            return None
        value = length(data, value_at)[0]
        if (
            value < -1
            or value_at + LENGTH_BYTES + (value if value > 0 else 0) != stop
            or crc32(data[at + MAGIC_AT : stop]) != crc
        ):
            return None
        if magic:
            (time,) = TIMESTAMP.unpack_from(data, at + LEGACY_TIMESTAMP_AT)
            if not _is_timely(time, config, now_ms):
                return None
        headers.append(named(BatchHeader, (at, size, 0, 0, magic, 0, time, time, 1, -1, -1, -1, -1)))
        at = stop
    return tuple(headers)


def _is_timely(time: int, config: LogConfig, now_ms: int) -> bool:
    if time == NO_TIMESTAMP:
        return True
    earliest = max(now_ms - config.message_timestamp_before_max_ms, 0)
    return earliest <= time <= now_ms + config.message_timestamp_after_max_ms
