"""A batch of format 2 from a few records, without Arrow and Numba. Pure.

Building a column for each field would take longer than writing the records, and the first use of the kernels
costs a second and 100 MB. Many records at once are written by `ottla.records.builder`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ottla.model.checksums import crc32c
from ottla.model.record_layout import (
    BATCH,
    BATCH_ATTRIBUTES_AT,
    BATCH_CRC_AT,
    BATCH_OVERHEAD,
    CODEC_MASK,
    CRC,
    ENTRY_OVERHEAD,
    NO_TIMESTAMP,
)
from ottla.records.record_bytes import Bytes, append_varint

TimedRecord = tuple[int, Bytes | None, Bytes | None]
"""Timestamp, key and value."""


class BatchBody(NamedTuple):
    """Records without the header of their batch."""

    records: bytearray
    record_count: int
    base_timestamp: int
    max_timestamp: int


def _varint(number: int) -> bytes:
    out = bytearray()
    append_varint(out, number)
    return bytes(out)


_VARINTS = tuple(_varint(number) for number in range(2048))
"""Most numbers in a record are small."""
_NULL = _varint(-1)


def batch_body(records: Iterable[TimedRecord]) -> BatchBody:
    """Return the records, numbered from 0; timestamps count from the first one."""
    parts: list[Bytes] = []
    base = newest = NO_TIMESTAMP
    count = 0
    for timestamp, key, value in records:
        if not count:
            base = newest = timestamp
        elif timestamp > newest:
            newest = timestamp
        head = b"\0" + _number(timestamp - base) + _number(count) + _size(key)
        value_size = _size(value)
        key, value = key or b"", value or b""
        size = len(head) + len(key) + len(value_size) + len(value) + 1
        parts += (_number(size), head, key, value_size, value, b"\0")  # the last: no headers
        count += 1
    return BatchBody(bytearray(b"".join(parts)), count, base, newest)


def _number(number: int) -> bytes:
    return _VARINTS[number] if 0 <= number < 2048 else _varint(number)


def _size(data: Bytes | None) -> bytes:
    return _NULL if data is None else _number(len(data))


Header = tuple[bytes, bytes]


class HeadedRecord(NamedTuple):
    """A record with headers."""

    timestamp: int
    key: Bytes | None
    value: Bytes | None
    headers: tuple[Header, ...]


def headed_body(records: Sequence[HeadedRecord]) -> BatchBody:
    """Return records with headers, numbered from 0; timestamps count from the first one."""
    out = bytearray()
    base = records[0].timestamp
    for number, (timestamp, key, value, headers) in enumerate(records):
        body = bytearray(b"\0" + _varint(timestamp - base) + _number(number))
        body += _size(key) + (key or b"") + _size(value) + (value or b"") + _number(len(headers))
        for name, content in headers:
            body += _number(len(name)) + name + _number(len(content)) + content
        out += _number(len(body)) + body
    newest = max(record.timestamp for record in records)
    return BatchBody(out, len(records), base, newest)


def sealed_batch(
    body: BatchBody, attributes: int = 0, *, producer_id: int = -1, producer_epoch: int = -1
) -> bytearray:
    """Return the batch of records, compressed as the attributes say, at offset 0 and with its checksum.

    A producer is that of a transaction; the broker's own batches have no sequence.
    """
    records: Bytes = body.records
    codec = attributes & CODEC_MASK
    if codec:
        from ottla.records.compression import Codec, compress  # here, since it loads Numba

        records = bytes(compress(Codec(codec), records, magic=2))
    size = BATCH_OVERHEAD - ENTRY_OVERHEAD + len(records)
    count, times = body.record_count, (body.base_timestamp, body.max_timestamp)
    producer = (producer_id, producer_epoch, -1)
    data = bytearray(BATCH.pack(0, size, -1, 2, 0, attributes, count - 1, *times, *producer, count))
    data += records
    CRC.pack_into(data, BATCH_CRC_AT, crc32c(memoryview(data)[BATCH_ATTRIBUTES_AT:]))
    return data
