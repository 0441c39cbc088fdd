"""Stored batches for readers of an older format: what a broker up to 3.9 does for Fetch 0 to 3. Pure.

Format 2 becomes 1 or 0, 1 becomes 0. Headers, producer ids, leader epochs and control batches have no place
in the old formats and vanish; so do timestamps in format 0. Offsets stay, with gaps where records were.
Codecs stay too, but for zstd, which no old reader knows: KafkaError 76.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator

from ottla.log.batch_header import CODEC_MASK, ENTRY_OVERHEAD, BatchHeader, whole_entries
from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError
from ottla.records.compression import Codec, compress
from ottla.records.messages import MessageAndOffset, to_messages
from ottla.records.reader import decode

NO_KEY_OR_VALUE = struct.pack(">i", -1)
OVERFLOW_BYTES = 17
Nullable = bytes | None


def down_converted(data: bytes | memoryview, magic: int, from_offset: int = 0) -> bytes:
    """The record set in format `magic` or older; a partial batch at its end is left out.

    Records below `from_offset` are left out of what is converted. Where nothing survives, the answer is one
    entry that claims to be larger than it is: old readers then ask again for more bytes instead of taking
    the partition for empty, as with Kafka.
    """
    view = memoryview(data)
    pieces: list[bytes | memoryview] = []
    for header in whole_entries(view):
        entry = view[header.position : header.position + header.size]
        if header.magic <= magic:
            pieces.append(entry)
        elif header.codec == Codec.ZSTD:
            raise KafkaError(Code.UNSUPPORTED_COMPRESSION_TYPE, f"zstd cannot be sent in format {magic}")
        else:
            pieces += _converted(entry, header, magic, from_offset)
    if not pieces and len(view):
        return overflow_entry()
    return b"".join(pieces)


def overflow_entry() -> bytes:
    """An entry at offset -1 whose size says that more bytes follow than do."""
    return struct.pack(">qi", -1, 1 << 20) + bytes(OVERFLOW_BYTES - ENTRY_OVERHEAD)


def _converted(entry: memoryview, header: BatchHeader, magic: int, from_offset: int) -> Iterator[bytes]:
    rows = [row for row in to_messages(decode(entry, verify_crc=False).batch) if row.offset >= from_offset]
    if not rows:
        return
    codec = Codec(header.attributes & CODEC_MASK)
    if codec is Codec.NONE:
        yield b"".join(message_bytes(row, magic, row.offset) for row in rows)
        return
    # Inside a wrapper, format 1 counts from the first message and format 0 absolutely.
    base = rows[0].offset if magic == 1 else 0
    inner = b"".join(message_bytes(row, magic, row.offset - base) for row in rows)
    value = bytes(compress(codec, inner, magic=magic))
    newest = max(row.message.timestamp_ms for row in rows)
    attributes = codec | _append_time_bit(rows)
    yield _message(rows[-1].offset, magic, attributes, newest, None, value)


def _append_time_bit(rows: Iterable[MessageAndOffset]) -> int:
    return 0x08 if any(row.message.timestamp_type == 1 for row in rows) else 0


def message_bytes(row: MessageAndOffset, magic: int, offset: int) -> bytes:
    """One uncompressed message."""
    message = row.message
    return _message(offset, magic, _append_time_bit([row]), message.timestamp_ms, message.key, message.value)


def _message(
    offset: int, magic: int, attributes: int, timestamp: int, key: Nullable, value: Nullable
) -> bytes:
    if magic == 0:
        body = struct.pack(">BB", 0, attributes & CODEC_MASK)
    else:
        body = struct.pack(">BBq", 1, attributes, timestamp)
    body += b"".join(
        NO_KEY_OR_VALUE if item is None else struct.pack(">i", len(item)) + item for item in (key, value)
    )
    return struct.pack(">qiI", offset, 4 + len(body), zlib.crc32(body)) + body
