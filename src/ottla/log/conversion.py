"""Stored batches for readers of an older format: what a broker up to 3.9 does for Fetch 0 to 3. Pure.

Format 2 becomes 1 or 0, 1 becomes 0. Headers, producer ids, leader epochs and control batches have no place
in the old formats and vanish; so do timestamps in format 0. Offsets stay, with gaps where records were.
Codecs stay too, but for zstd, which no old reader knows: KafkaError 76.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ottla.log.batch_header import BatchHeader, whole_entries
from ottla.log.record_checks import content_of
from ottla.log.record_walk import walked_records
from ottla.log.validation import ZSTD
from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError
from ottla.model.record_layout import ENTRY_OVERHEAD, LOG_APPEND_TIME, MAGIC_AT, OFFSET_AND_SIZE
from ottla.records.record_bytes import Bytes, legacy_message

OVERFLOW_BYTES = MAGIC_AT + 1
WALKED_MAX = 500  # records: where the kernels begin to be faster


class ConvertedRow(NamedTuple):
    """A record on its way into an older format."""

    offset: int
    timestamp: int
    key: Bytes | None
    value: Bytes | None


def down_converted(data: bytes | memoryview, magic: int, from_offset: int = 0) -> bytes:
    """The record set in format `magic` or older; a partial batch at its end is left out.

    Records below `from_offset` are left out of what is converted. If no record is left, the result is one
    entry that claims to be larger than it is, as in Kafka: old readers then ask for more bytes instead of
    taking the partition for empty.
    """
    view = memoryview(data)
    pieces: list[bytes | memoryview] = []
    for header in whole_entries(view):
        entry = view[header.position : header.position + header.size]
        if header.magic <= magic:
            pieces.append(entry)
        elif header.codec == ZSTD:
            raise KafkaError(Code.UNSUPPORTED_COMPRESSION_TYPE, f"zstd cannot be sent in format {magic}")
        else:
            pieces += _converted(entry, header, magic, from_offset)
    if not pieces and len(view):
        return overflow_entry()
    return b"".join(pieces)


def overflow_entry() -> bytes:
    """An entry at offset -1 whose size is larger than the bytes that follow."""
    return OFFSET_AND_SIZE.pack(-1, 1 << 20) + bytes(OVERFLOW_BYTES - ENTRY_OVERHEAD)


def _converted(entry: memoryview, header: BatchHeader, magic: int, from_offset: int) -> Iterator[bytes]:
    rows = [row for row in _rows(entry, header) if row.offset >= from_offset]
    if not rows:
        return
    append_time = header.attributes & LOG_APPEND_TIME
    if not header.codec:
        yield b"".join(_message(row, magic, append_time, row.offset) for row in rows)
        return
    from ottla.records.compression import Codec, compress  # here, since it loads Numba

    # Inside a wrapper, format 1 counts from the first message and format 0 absolutely.
    base = rows[0].offset if magic == 1 else 0
    inner = b"".join(_message(row, magic, append_time, row.offset - base) for row in rows)
    value = bytes(compress(Codec(header.codec), inner, magic=magic))
    newest = max(row.timestamp for row in rows)
    yield legacy_message(rows[-1].offset, magic, header.codec | append_time, newest, None, value)


def _rows(entry: memoryview, header: BatchHeader) -> Iterator[ConvertedRow]:
    """Yield the records of an entry. A small batch of format 2 is walked: that needs no kernels."""
    if header.magic < 2 or header.record_count > WALKED_MAX:
        from ottla.records.messages import to_messages  # here, since it loads Numba
        from ottla.records.reader import decode

        for row in to_messages(decode(entry, verify_crc=False).batch):
            message = row.message
            yield ConvertedRow(row.offset, message.timestamp_ms, message.key, message.value)
    elif not header.is_control:
        by_broker = header.attributes & LOG_APPEND_TIME
        for record in walked_records(content_of(entry, header), header.record_count):
            timestamp = header.max_timestamp if by_broker else header.base_timestamp + record.timestamp_delta
            offset = header.base_offset + record.offset_delta
            yield ConvertedRow(offset, timestamp, record.key, record.value)


def _message(row: ConvertedRow, magic: int, attributes: int, offset: int) -> bytes:
    """One uncompressed message."""
    return legacy_message(offset, magic, attributes, row.timestamp, row.key, row.value)
