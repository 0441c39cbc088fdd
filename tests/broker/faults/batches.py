"""Producers' batches made and read by hand, without the project's decoders: numbered records, any header."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import crc32c

HEADER = struct.Struct(">qiibIhiqqqhii")
ATTRIBUTES_AT = 21
CRC_AT = 17
LATER = int(time.time() * 1000) + 3_000_000
"""A time that no other record of a test has or exceeds: less than the hour that brokers allow."""
Row = tuple[bytes | None, bytes | None]


class Stored(NamedTuple):
    """A record as a fetch gave it."""

    offset: int
    key: bytes | None
    value: bytes | None


def varint(number: int) -> bytes:
    number = (number << 1) ^ (number >> 63)
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*out, number))


def records(rows: Iterable[Row]) -> bytes:
    """Record bytes as they stand behind the header, before compression."""
    out = bytearray()
    for index, (key, value) in enumerate(rows):
        body = b"\0\0" + varint(index)
        for item in (key, value):
            body += varint(-1) if item is None else varint(len(item)) + item
        out += varint(len(body) + 1) + body + b"\0"
    return bytes(out)


def batch(
    *rows: Row,
    body: bytes | None = None,
    count: int | None = None,
    last_delta: int | None = None,
    base_offset: int = 0,
    magic: int = 2,
    attributes: int = 0,
    timestamp: int | None = None,
    producer_id: int = -1,
    producer_epoch: int = -1,
    sequence: int = -1,
) -> bytearray:
    """A batch of format 2. What is not named is right, so that each test has one thing wrong."""
    body = records(rows) if body is None else body
    count = len(rows) if count is None else count
    last_delta = count - 1 if last_delta is None else last_delta
    now = time.time_ns() // 1_000_000 if timestamp is None else timestamp
    size = HEADER.size - 12 + len(body)
    fields = (base_offset, size, -1, magic, 0, attributes, last_delta, now, now)
    data = bytearray(HEADER.pack(*fields, producer_id, producer_epoch, sequence, count))
    data += body
    return sealed(data)


def sealed(data: bytearray) -> bytearray:
    """With the checksum that its bytes have now."""
    struct.pack_into(">I", data, CRC_AT, crc32c.crc32c(bytes(data[ATTRIBUTES_AT:])))
    return data


def whole(data: bytes) -> Iterator[bytes]:
    """The batches that are there to their last byte. Every checksum must be right."""
    at = 0
    while len(data) - at >= HEADER.size:
        fields = HEADER.unpack_from(data, at)
        base, size, magic, crc = fields[0], fields[1] + 12, fields[3], fields[4]
        if at + size > len(data):
            return
        assert magic == 2, f"format {magic} at {at}"
        assert crc32c.crc32c(data[at + ATTRIBUTES_AT : at + size]) == crc, f"checksum of the batch at {base}"
        yield data[at : at + size]
        at += size


def stored(one: bytes) -> list[Stored]:
    """The records of a batch; compaction may have left none."""
    fields = HEADER.unpack_from(one)
    place, found = HEADER.size, []
    for _ in range(fields[12]):
        length, place = _varint(one, place)
        found.append(_record(one, place, fields[0]))
        place += length
    return found


def end_offset(one: bytes) -> int:
    """The offset behind a batch."""
    fields = HEADER.unpack_from(one)
    return int(fields[0] + fields[6] + 1)


def _record(data: bytes, at: int, base: int) -> Stored:
    _, at = _varint(data, at + 1)
    delta, at = _varint(data, at)
    key, at = _bytes(data, at)
    value, _ = _bytes(data, at)
    return Stored(base + delta, key, value)


def _bytes(data: bytes, at: int) -> tuple[bytes | None, int]:
    size, at = _varint(data, at)
    return (None, at) if size < 0 else (data[at : at + size], at + size)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), at
        shift += 7
