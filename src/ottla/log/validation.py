"""What a broker checks of a produced record set before it gets offsets. Pure: bytes in, facts out.

`checked` walks the entries, verifies checksums and the rules of the topic, and gives a `CheckedSet` that
`stamping` can number. Errors are KafkaError with the code that a producer gets; nothing is changed then.

    code 2   CORRUPT_MESSAGE     checksum, size or format number is wrong
    code 10  MESSAGE_TOO_LARGE   an entry is above max.message.bytes, or has more than RECORDS_MAX records
    code 32  INVALID_TIMESTAMP   a time is too far from the broker's, or claims to be the broker's
    code 76  UNSUPPORTED_COMPRESSION_TYPE   a codec that does not exist
    code 87  INVALID_RECORD      the fields contradict each other, or a compacted topic gets a null key

A partial entry at the end is dropped, as Kafka does. Format 2 is checked by header, checksum and the first
bytes of its records unless `Depth.RECORDS` is given: then, and where the topic has rules about single records
(compaction, message.timestamp.before.max.ms), the records are decompressed and decoded.

Nearly every produce is one sound batch of format 2: a short check accepts it, and another one plain messages
of the older formats. The short checks only accept; everything else goes the general way, so each refusal is
written once.

An event loop asks for checks `at_once`, and gets LongCheck where that takes more than about a millisecond.
"""

from __future__ import annotations

import struct
import zlib
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from ottla.log import legacy_sets, record_checks
from ottla.log.batch_header import BatchHeader, header_at, named
from ottla.log.log_config import LogConfig
from ottla.log.message_walk import COLUMNS_FROM, count_expected, few_messages, starts_of
from ottla.log.record_checks import (
    AT_ONCE_LEGACY_BYTES,
    RECORD_BYTES_MIN,
    RECORDS_MAX,
    LongCheck,
    opening_fault,
)
from ottla.log.refusals import check_timestamp, refused, timestamp_fault
from ottla.model.checksums import crc32c
from ottla.model.error_codes import Code
from ottla.model.record_layout import (
    BATCH,
    BATCH_ATTRIBUTES_AT,
    BATCH_CRC_AT,
    BATCH_OVERHEAD,
    CODEC_LAST,
    CODEC_MASK,
    CRC,
    ENTRY_BYTES_MIN,
    ENTRY_OVERHEAD,
    LEGACY_CRC_AT,
    LOG_APPEND_TIME,
    MAGIC_AT,
    SIZE,
    SIZE_AT,
    SIZE_MIN,
    TRANSACTIONAL,
)

if TYPE_CHECKING:
    from ottla.log.plain_messages import Positions

ZSTD = CODEC_LAST
# A header, and the first bytes of a record: the shortest one has seven.
_OPENED = struct.Struct(BATCH.format + "5B2x")


class Depth(Enum):
    """How far to look into format 2."""

    HEADERS = "headers"  # a producer with a right checksum is believed, if its records begin as such
    RECORDS = "records"  # every record is decoded, as Kafka does


_HEADERS = Depth.HEADERS  # to look it up in its enum takes as long as a call


class CheckedSet(NamedTuple):
    """A record set that passed. `data` is writable: stamping patches it in place.

    The headers are the producer's: offsets count from 0, and sequences are still to be compared with what the
    producer sent before. `record_count` is how many offsets an entry takes, also for a compressed message.
    """

    data: memoryview
    batches: tuple[BatchHeader, ...]
    # Where plain messages begin; `batches` are stretches of them then, see `plain_messages`.
    messages: Positions | None = None

    @property
    def size(self) -> int:
        """Bytes, without a partial end."""
        return len(self.data)

    @property
    def offsets(self) -> int:
        """How many offsets it will take."""
        return sum(header.record_count for header in self.batches)


AT_ONCE_ENTRIES = 256


class Rules(NamedTuple):
    """What a set is checked by."""

    config: LogConfig
    now_ms: int
    depth: Depth
    at_once: bool


def checked(
    data: bytes | bytearray | memoryview,
    config: LogConfig,
    now_ms: int,
    depth: Depth = _HEADERS,
    *,
    at_once: bool = False,
) -> CheckedSet:
    """Check a record set. A writable buffer is kept and later patched; a read-only one is copied.

    Raises KafkaError, and with `at_once` LongCheck for what a thread should check instead.
    """
    view = memoryview(data)
    if view.readonly:
        view = memoryview(bytearray(view))
    if config.is_plain and depth is _HEADERS:
        header = _sound_batch(view, config, now_ms)
        if header is not None:
            return named(CheckedSet, (view, (header,), None))
        if len(view) > MAGIC_AT and view[MAGIC_AT] < 2:
            if at_once and len(view) > AT_ONCE_LEGACY_BYTES:
                raise LongCheck(f"{len(view):,} bytes of old messages")
            sound = _sound_messages(view, config, now_ms)
            if sound is not None:
                return sound
    return _checked_entries(view, Rules(config, now_ms, depth, at_once))


def _sound_batch(view: memoryview, config: LogConfig, now_ms: int) -> BatchHeader | None:
    """The header, if the set is one whole batch of format 2 with a time and nothing to refuse; else None."""
    size = len(view)
    if not _OPENED.size <= size <= config.max_message_bytes:
        return None
    # `era` is the producer's epoch; `a` to `e` are the first bytes of the first record.
    (
        offset, body, epoch, magic, crc, bits, last, base_time, max_time, producer, era, sequence, count,
        a, b, c, d, e,
    ) = _OPENED.unpack_from(view)  # fmt: skip
    if a < 0x80:
        end, is_usual = BATCH_OVERHEAD + 1 + (a >> 1), b == c == d == 0
    else:
        end, is_usual = BATCH_OVERHEAD + 2 + ((a & 0x7F | b << 7) >> 1), b < 0x80 and c == d == e == 0
    earliest = now_ms - config.message_timestamp_before_max_ms
    latest = now_ms + config.message_timestamp_after_max_ms
    if (
        magic == 2
        and offset == 0
        and body + ENTRY_OVERHEAD == size
        and 0 < count == last + 1 <= RECORDS_MAX
        and 0 <= bits & ~TRANSACTIONAL <= CODEC_LAST
        and earliest <= base_time <= latest
        and earliest <= max_time <= latest
        and base_time >= 0 <= max_time
        and (producer < 0 or sequence >= 0 <= era)
        and (
            # Most first records have no attributes, and the time of the batch. For them this is quicker.
            (
                is_usual
                and not bits & CODEC_MASK
                and (end == size if count == 1 else end < size)
                and count * RECORD_BYTES_MIN <= size - BATCH_OVERHEAD
            )
            or opening_fault(view[BATCH_OVERHEAD:], bits & CODEC_MASK, count) is None
        )
        and crc32c(view[BATCH_ATTRIBUTES_AT:]) == crc
    ):
        header = (0, size, 0, last, 2, bits, base_time, max_time, count, epoch, producer, era, sequence)
        return named(BatchHeader, header)
    return None


def _sound_messages(view: memoryview, config: LogConfig, now_ms: int) -> CheckedSet | None:
    """The set, if it is whole plain messages of format 0 or 1 with nothing to refuse; else None."""
    if count_expected(view) < COLUMNS_FROM:
        headers = few_messages(view, config, now_ms)
        return None if headers is None else CheckedSet(view, headers)
    from ottla.log.plain_messages import plain_messages  # here, since it loads NumPy

    starts = starts_of(view)
    columns = plain_messages(view, starts, config, now_ms) if starts else None
    return None if columns is None else CheckedSet(view, columns.stretches, columns.positions)


def _checked_entries(view: memoryview, rules: Rules) -> CheckedSet:
    """The general way: entry by entry, of any format."""
    batches: list[BatchHeader] = []
    at = 0
    while len(view) - at >= ENTRY_OVERHEAD:
        size = SIZE.unpack_from(view, at + SIZE_AT)[0] + ENTRY_OVERHEAD
        # A size that no entry has is damage even where the data end before it.
        if size >= ENTRY_BYTES_MIN and at + size > len(view):
            break
        if rules.at_once and len(batches) == AT_ONCE_ENTRIES:
            raise LongCheck(f"more than {AT_ONCE_ENTRIES} entries")
        batches.append(_checked_entry(view, at, size, rules))
        at += size
    return CheckedSet(view[:at], tuple(batches))


def _checked_entry(view: memoryview, at: int, size: int, rules: Rules) -> BatchHeader:
    config, now_ms, depth, at_once = rules
    # Below the smallest size there need not be a format byte to look at.
    magic = view[at + MAGIC_AT] if size >= ENTRY_BYTES_MIN else -1
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
    is_late = _is_late(header, config, now_ms)
    if magic < 2:
        if is_late:
            _check_time(header, config, now_ms)
        count = legacy_sets.check_message(view[at : at + size], header, config, now_ms, at_once=at_once)
        return header._replace(record_count=count)
    _check_batch(header)
    if fault := opening_fault(view[at + BATCH_OVERHEAD : at + size], header.codec, header.record_count):
        raise refused(Code.INVALID_RECORD, at, fault)
    record_checks.check_count(header)
    if is_late or depth is Depth.RECORDS or config.checks_records:
        record_checks.check_records(view[at : at + size], header, config, now_ms, at_once=at_once)
        if is_late:
            _check_time(header, config, now_ms)  # the header is wrong, and none of the records
    return header


def _has_right_checksum(view: memoryview, at: int, size: int, magic: int) -> bool:
    if magic == 2:
        (crc,) = CRC.unpack_from(view, at + BATCH_CRC_AT)
        return bool(crc32c(view[at + BATCH_ATTRIBUTES_AT : at + size]) == crc)
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
        numbers = f"sequence {header.base_sequence}, epoch {header.producer_epoch}"
        what = f"producer {header.producer_id} has {numbers}"
        raise refused(Code.INVALID_RECORD, at, what)


def _is_late(header: BatchHeader, config: LogConfig, now_ms: int) -> bool:
    """Whether a time in the header is too far from the broker's. Raises KafkaError for a broker's time."""
    if header.magic and header.attributes & LOG_APPEND_TIME:
        raise refused(Code.INVALID_TIMESTAMP, header.position, "only a broker sets LogAppendTime")
    times = {header.max_timestamp, header.base_timestamp}
    return any(timestamp_fault(time, config, now_ms) for time in times)


def _check_time(header: BatchHeader, config: LogConfig, now_ms: int) -> None:
    check_timestamp(header.max_timestamp, header.position, config, now_ms)
    if header.base_timestamp != header.max_timestamp:
        check_timestamp(header.base_timestamp, header.position, config, now_ms)
