"""Sets of plain messages, formats 0 and 1 without compression, accepted by a short check.

Every message is an entry of its own there. A few are looked at one by one in a tight loop, which costs less
than setting up columns; many as columns (`plain_messages`). A set is accepted only if all of it is sound. Any
other set goes to `validation`, which finds the bad message and says why.
"""

from __future__ import annotations

import zlib

from ottla.log.batch_header import BatchHeader, named
from ottla.log.log_config import LogConfig
from ottla.model.record_layout import (
    CRC_MAGIC_ATTRIBUTES,
    ENTRY_OVERHEAD,
    LEGACY_BODY_AT,
    LEGACY_CRC_AT,
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


def starts_of(view: memoryview) -> list[int]:
    """Where the messages begin; empty unless their sizes lead exactly to the end."""
    starts = []
    at, end, unpack = 0, len(view), SIZE.unpack_from
    while at + ENTRY_OVERHEAD <= end:
        starts.append(at)
        size = unpack(view, at + SIZE_AT)[0]
        if size <= 0:
            return []
        at += size + ENTRY_OVERHEAD
    return starts if at == end else []


def few_messages(
    view: memoryview, starts: list[int], config: LogConfig, now_ms: int
) -> tuple[BatchHeader, ...] | None:
    """A header for each message, if all are valid and plain and of one format; else None."""
    magic = view[MAGIC_AT]
    body_at, size_min, size_max = (
        LEGACY_BODY_AT[magic],
        ENTRY_OVERHEAD + SIZE_MIN[magic],
        config.max_message_bytes,
    )
    head, length, time = CRC_MAGIC_ATTRIBUTES.unpack_from, LENGTH.unpack_from, NO_TIMESTAMP
    headers = []
    for at, end in zip(starts, [*starts[1:], len(view)], strict=True):
        if not size_min <= end - at <= size_max:
            return None
        crc, kind, attributes = head(view, at + LEGACY_CRC_AT)
        if magic:
            (time,) = TIMESTAMP.unpack_from(view, at + LEGACY_TIMESTAMP_AT)
        (key,) = length(view, at + body_at)
        value_at = at + body_at + LENGTH_BYTES + (key if key > 0 else 0)
        value = length(view, value_at)[0] if value_at + LENGTH_BYTES <= end else -2
        if (
            kind != magic
            or attributes
            or key < -1
            or value < -1
            or value_at + LENGTH_BYTES + (value if value > 0 else 0) != end
            or zlib.crc32(view[at + MAGIC_AT : end]) != crc
            or (magic and not _is_timely(time, config, now_ms))
        ):
            return None
        headers.append(named(BatchHeader, (at, end - at, 0, 0, magic, 0, time, time, 1, -1, -1, -1, -1)))
    return tuple(headers)


def _is_timely(time: int, config: LogConfig, now_ms: int) -> bool:
    if time == NO_TIMESTAMP:
        return True
    earliest = max(now_ms - config.message_timestamp_before_max_ms, 0)
    return earliest <= time <= now_ms + config.message_timestamp_after_max_ms
