"""Messages of formats 0 and 1: looking into compressed ones, numbering and wrapping them again.

A compressed message ("wrapper") holds a message set as its value and carries the offset of its last inner
message. Inside, format 0 has absolute offsets, so a broker must decompress, number and compress again; format
1 has offsets from 0, so that only the wrapper changes:

    format 0   wrapper @104 ( 100 101 102 103 104 )        format 1   wrapper @104 ( 0 1 2 3 4 )
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import NamedTuple

from ottla.log.batch_header import BatchHeader, header_at
from ottla.log.log_config import LogConfig
from ottla.log.record_checks import AT_ONCE_LEGACY_BYTES, DECOMPRESSED_BYTES_MAX, RECORDS_MAX, LongCheck
from ottla.log.refusals import check_timestamp, refused
from ottla.model.error_codes import Code
from ottla.model.errors import CorruptRecord
from ottla.model.record_layout import (
    CRC,
    ENTRY_OVERHEAD,
    LEGACY_ATTRIBUTES_AT,
    LEGACY_BODY_AT,
    LEGACY_CRC_AT,
    LEGACY_TIMESTAMP_AT,
    LENGTH,
    LENGTH_BYTES,
    LOG_APPEND_TIME,
    MAGIC_AT,
    OFFSET,
    SIZE_MIN,
    TIMESTAMP,
)
from ottla.records.record_bytes import legacy_message


class Body(NamedTuple):
    """Key and value of a message, None for null."""

    key: memoryview | None
    value: memoryview | None


def body_of(message: memoryview, magic: int) -> Body:
    """Key and value; raises CorruptRecord unless they fill the message exactly."""
    at = LEGACY_BODY_AT[magic]
    key, at = _nullable(message, at)
    value, at = _nullable(message, at)
    if at != len(message):
        raise CorruptRecord(f"a message has {len(message) - at} bytes behind its value")
    return Body(key, value)


def _nullable(message: memoryview, at: int) -> tuple[memoryview | None, int]:
    if at + LENGTH_BYTES > len(message):
        raise CorruptRecord("a message ends within a length")
    (size,) = LENGTH.unpack_from(message, at)
    at += LENGTH_BYTES
    if size == -1:
        return None, at
    if size < 0 or at + size > len(message):
        raise CorruptRecord(f"a length of {size} does not fit its message")
    return message[at : at + size], at + size


def messages(data: memoryview) -> Iterator[tuple[BatchHeader, memoryview]]:
    """The entries of a message set, whole ones only; raises CorruptRecord at anything else."""
    at = 0
    while at < len(data):
        header = header_at(data, at, at)
        if header is None or header.magic > 1 or header.size < ENTRY_OVERHEAD + SIZE_MIN[header.magic]:
            raise CorruptRecord("a message set holds bytes that are no message")
        if at + header.size > len(data):
            raise CorruptRecord("a message set ends within a message")
        yield header, data[at : at + header.size]
        at += header.size


def unwrapped(wrapper: memoryview, header: BatchHeader, limit: int = DECOMPRESSED_BYTES_MAX) -> bytearray:
    """The message set inside a compressed message, as a copy that may be changed.

    Raises CorruptRecord, also for more than `limit` bytes.
    """
    from ottla.records.compression import Codec, decompress  # here, since it loads NumPy

    value = body_of(wrapper, header.magic).value
    if value is None:
        raise CorruptRecord("a compressed message has no value")
    codec = Codec.of_attributes(header.attributes)
    inner = decompress(codec, value, limit=limit, magic=header.magic)
    return bytearray(inner.tobytes())


def rewrapped(inner: bytes | bytearray, header: BatchHeader, offset: int, timestamp: int) -> bytearray:
    """A compressed message around a message set, with the format and attributes that `header` has."""
    from ottla.records.compression import Codec, compress  # here, since it loads NumPy

    magic, attributes = header.magic, header.attributes
    value = compress(Codec.of_attributes(attributes), inner, magic=magic)
    return bytearray(legacy_message(offset, magic, attributes, timestamp, None, value))


def renumber(inner: bytearray, first_offset: int) -> None:
    """Give the messages of a set offsets from `first_offset`; no checksum covers them."""
    view = memoryview(inner)
    for number, (header, _) in enumerate(messages(view)):
        OFFSET.pack_into(inner, header.position, first_offset + number)


def stamp_append_time(message: memoryview, timestamp: int) -> None:
    """Make a message of format 1 say that the broker's clock stamped it."""
    message[LEGACY_ATTRIBUTES_AT] |= LOG_APPEND_TIME
    TIMESTAMP.pack_into(message, LEGACY_TIMESTAMP_AT, timestamp)
    CRC.pack_into(message, LEGACY_CRC_AT, zlib.crc32(message[MAGIC_AT:]))


def check_message(
    message: memoryview, header: BatchHeader, config: LogConfig, now_ms: int, *, at_once: bool = False
) -> int:
    """How many offsets a message takes. Raises KafkaError if it must not be appended.

    With `at_once` raise LongCheck if many messages may be in it.
    """
    try:
        body = body_of(message, header.magic)
        if not header.codec:
            _check_key(body, header, config)
            return 1
        inner = _unwrapped_at_once(message, header) if at_once else unwrapped(message, header)
        return _check_inner(inner, header, config, now_ms)
    except CorruptRecord as error:
        raise refused(Code.CORRUPT_MESSAGE, header.position, str(error)) from error


def _unwrapped_at_once(message: memoryview, header: BatchHeader) -> bytearray:
    try:
        return unwrapped(message, header, AT_ONCE_LEGACY_BYTES)
    except CorruptRecord as error:
        raise LongCheck(str(error)) from error  # damaged, or larger than that


def _check_inner(inner: bytearray, wrapper: BatchHeader, config: LogConfig, now_ms: int) -> int:
    count = 0
    for header, message in messages(memoryview(inner)):
        (crc,) = CRC.unpack_from(message, LEGACY_CRC_AT)
        if zlib.crc32(message[MAGIC_AT:]) != crc:
            raise CorruptRecord("the checksum of an inner message does not match")
        if header.magic != wrapper.magic:
            raise CorruptRecord(f"a message of format {header.magic} is wrapped by format {wrapper.magic}")
        if header.codec:
            raise refused(Code.INVALID_RECORD, wrapper.position, "a compressed message within another")
        if header.magic and header.attributes & LOG_APPEND_TIME:
            raise refused(Code.INVALID_TIMESTAMP, wrapper.position, "only a broker sets LogAppendTime")
        check_timestamp(header.max_timestamp, wrapper.position, config, now_ms)
        _check_key(body_of(message, header.magic), wrapper, config)
        count += 1
        if count > RECORDS_MAX:
            what = f"a compressed message holds more than {RECORDS_MAX:,} others; send them in several"
            raise refused(Code.MESSAGE_TOO_LARGE, wrapper.position, what)
    if not count:
        raise refused(Code.INVALID_RECORD, wrapper.position, "a compressed message holds none")
    return count


def _check_key(body: Body, header: BatchHeader, config: LogConfig) -> None:
    if config.is_compacted and body.key is None:
        what = "a compacted topic takes no record without a key"
        raise refused(Code.INVALID_RECORD, header.position, what)
