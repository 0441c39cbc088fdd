"""What a broker checks of a produced record set before it gets offsets. Pure: bytes in, facts out.

`checked` walks the entries, verifies checksums and the rules of the topic, and gives a `CheckedSet` that
`stamping` can number. Errors are KafkaError with the code that a producer gets; nothing is changed then.

    code 2   CORRUPT_MESSAGE     checksum, size or format number is wrong
    code 10  MESSAGE_TOO_LARGE   an entry is above max.message.bytes
    code 32  INVALID_TIMESTAMP   a time is too far from the broker's, or claims to be the broker's
    code 76  UNSUPPORTED_COMPRESSION_TYPE   a codec that does not exist
    code 87  INVALID_RECORD      the fields contradict each other, or a compacted topic gets a null key

A partial entry at the end is dropped, as Kafka does. Format 2 is checked by header and checksum alone unless
the records are asked for: then, and always in compacted topics, they are decompressed and decoded.
"""

from __future__ import annotations

import zlib
from enum import Enum
from typing import NamedTuple

import crc32c

from ottla.log.batch_header import (
    BATCH_ATTRIBUTES_AT,
    BATCH_CRC_AT,
    CRC,
    ENTRY_OVERHEAD,
    LEGACY_CRC_AT,
    LOG_APPEND_TIME,
    MAGIC_AT,
    SIZE,
    SIZE_MIN,
    BatchHeader,
    header_at,
)
from ottla.log.config import LogConfig
from ottla.log.refusals import check_timestamp, refused
from ottla.model.error_codes import Code

CODEC_LAST = 4
ZSTD = 4


class Depth(Enum):
    """How far to look into format 2."""

    HEADERS = "headers"  # a producer with a right checksum is believed; nothing is decoded
    RECORDS = "records"  # every record is decoded, as Kafka does


class CheckedBatch(NamedTuple):
    """An entry that may be appended. `offsets` is how many it takes; `sequential`: a wrapper of format 1 can
    keep its bytes, since its inner offsets count from 0 already."""

    header: BatchHeader
    offsets: int
    sequential: bool = True


class CheckedSet(NamedTuple):
    """A record set that passed. `data` is writable: stamping patches it in place."""

    data: memoryview
    batches: tuple[CheckedBatch, ...]

    @property
    def size(self) -> int:
        """Bytes, without a partial end."""
        return len(self.data)

    @property
    def offsets(self) -> int:
        """How many offsets it will take."""
        return sum(batch.offsets for batch in self.batches)


def checked(
    data: bytes | bytearray | memoryview, config: LogConfig, now_ms: int, depth: Depth = Depth.HEADERS
) -> CheckedSet:
    """Check a record set. A writable buffer is kept and later patched; a read-only one is copied."""
    view = memoryview(data)
    if view.readonly:
        view = memoryview(bytearray(view))
    batches = []
    at = 0
    while len(view) - at >= ENTRY_OVERHEAD:
        size = SIZE.unpack_from(view, at + 8)[0] + ENTRY_OVERHEAD
        # A size that no entry has is damage even where the data end before it.
        if size >= ENTRY_OVERHEAD + SIZE_MIN[0] and at + size > len(view):
            break
        batches.append(_checked_entry(view, at, size, config, now_ms, depth))
        at += size
    return CheckedSet(view[:at], tuple(batches))


def _checked_entry(
    view: memoryview, at: int, size: int, config: LogConfig, now_ms: int, depth: Depth
) -> CheckedBatch:
    # Below the smallest size there need not be a format byte to look at.
    magic = view[at + MAGIC_AT] if size >= ENTRY_OVERHEAD + SIZE_MIN[0] else -1
    if magic not in SIZE_MIN or size < SIZE_MIN[magic] + ENTRY_OVERHEAD:
        raise refused(Code.CORRUPT_MESSAGE, at, f"size {size} and format {magic} fit no record batch")
    if size > config.max_message_bytes:
        what = f"{size:,} bytes are above max.message.bytes {config.max_message_bytes:,}"
        raise refused(Code.MESSAGE_TOO_LARGE, at, what)
    header = header_at(view, at, at)
    assert header is not None
    if not _has_right_checksum(view, at, size, magic):
        raise refused(Code.CORRUPT_MESSAGE, at, "the checksum does not match")
    if header.codec > CODEC_LAST or (header.codec == ZSTD and magic < 2):
        what = f"codec {header.codec} does not exist in format {magic}"
        raise refused(Code.UNSUPPORTED_COMPRESSION_TYPE, at, what)
    _check_time(header, config, now_ms)
    if magic < 2:
        from ottla.log import legacy_sets  # here, since it loads Numba

        return CheckedBatch(header, *legacy_sets.check_message(view[at : at + size], header, config, now_ms))
    _check_batch(header)
    if depth is Depth.RECORDS or config.is_compacted:
        from ottla.log import record_checks  # here, since it loads Numba

        record_checks.check_records(view[at : at + size], header, config, now_ms)
    return CheckedBatch(header, header.record_count)


def _has_right_checksum(view: memoryview, at: int, size: int, magic: int) -> bool:
    if magic == 2:
        (crc,) = CRC.unpack_from(view, at + BATCH_CRC_AT)
        return bool(crc32c.crc32c(view[at + BATCH_ATTRIBUTES_AT : at + size]) == crc)
    (crc,) = CRC.unpack_from(view, at + LEGACY_CRC_AT)
    return bool(zlib.crc32(view[at + MAGIC_AT : at + size]) == crc)


def _check_batch(header: BatchHeader) -> None:
    at, count = header.position, header.record_count
    if count <= 0 or header.last_offset - header.base_offset + 1 != count:
        last = header.last_offset - header.base_offset
        raise refused(Code.INVALID_RECORD, at, f"{count} records with last offset delta {last}")
    if header.is_control:
        raise refused(Code.INVALID_RECORD, at, "only a broker writes control batches")
    if header.base_offset != 0:
        raise refused(Code.INVALID_RECORD, at, f"base offset {header.base_offset} is not 0")
    if header.producer_id >= 0 and (header.base_sequence < 0 or header.producer_epoch < 0):
        place = f"sequence {header.base_sequence}, epoch {header.producer_epoch}"
        what = f"producer {header.producer_id} has {place}"
        raise refused(Code.INVALID_RECORD, at, what)


def _check_time(header: BatchHeader, config: LogConfig, now_ms: int) -> None:
    if header.magic and header.attributes & LOG_APPEND_TIME:
        raise refused(Code.INVALID_TIMESTAMP, header.position, "only a broker sets LogAppendTime")
    check_timestamp(header.max_timestamp, header.position, config, now_ms)
    if header.base_timestamp != header.max_timestamp:
        check_timestamp(header.base_timestamp, header.position, config, now_ms)
