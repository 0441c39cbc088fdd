"""Small record batches of the broker's own topics, written and read without Arrow and Numba.

A group's commit is one or two records: building a column for each field would take longer than the records,
and the first use of the kernels costs a second and 100 MB, which a broker need not pay to coordinate a group.
Compressed batches, which only another broker can have written, are left to `ottla.records`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import crc32c

from ottla.log.batch_header import (
    BATCH,
    BATCH_ATTRIBUTES_AT,
    BATCH_CRC_AT,
    BATCH_OVERHEAD,
    CRC,
    ENTRY_OVERHEAD,
    BatchHeader,
    header_at,
)
from ottla.log.record_walk import walked_records
from ottla.log.validation import CheckedSet
from ottla.wire.primitives import Buffer

KeyAndValue = tuple[bytes | None, bytes | None]


class StoredRecord(NamedTuple):
    """A record as it was read."""

    offset: int
    key: bytes | None
    value: bytes | None


def batch_of(records: Iterable[KeyAndValue], timestamp_ms: int) -> CheckedSet:
    """One batch of format 2, ready to be appended."""
    body = bytearray()
    count = 0
    for key, value in records:
        record = bytearray(b"\0\0")  # attributes, timestamp delta
        _put_varint(record, count)
        _put_bytes(record, key)
        _put_bytes(record, value)
        record.append(0)  # headers
        _put_varint(body, len(record))
        body += record
        count += 1
    size = BATCH_OVERHEAD - ENTRY_OVERHEAD + len(body)
    data = bytearray(
        BATCH.pack(0, size, -1, 2, 0, 0, count - 1, timestamp_ms, timestamp_ms, -1, -1, -1, count)
    )
    data += body
    CRC.pack_into(data, BATCH_CRC_AT, crc32c.crc32c(memoryview(data)[BATCH_ATTRIBUTES_AT:]))
    header = header_at(data, 0, 0)
    assert header is not None
    return CheckedSet(memoryview(data), (header,))


def batches_of(data: Buffer) -> Iterator[tuple[BatchHeader, list[StoredRecord]]]:
    """Whole batches and their records; that of a control batch is its marker. Raises CorruptRecord."""
    view = memoryview(data)
    at = 0
    while (header := header_at(view, at, at)) is not None and at + header.size <= len(view):
        entry = view[at : at + header.size]
        if header.magic == 2 and not header.codec:
            yield header, list(_plain(entry, header))
        else:
            yield header, list(_decoded(entry))
        at += header.size


def _plain(entry: memoryview, header: BatchHeader) -> Iterator[StoredRecord]:
    for record in walked_records(entry[BATCH_OVERHEAD:], header.record_count):
        key, value = (None if part is None else bytes(part) for part in (record.key, record.value))
        yield StoredRecord(header.base_offset + record.offset_delta, key, value)


def _decoded(entry: memoryview) -> Iterator[StoredRecord]:
    from ottla.records.messages import to_messages  # here, since it loads Numba
    from ottla.records.reader import decode

    for row in to_messages(decode(entry).batch):
        yield StoredRecord(row.offset, row.message.key, row.message.value)


def _put_varint(out: bytearray, number: int) -> None:
    number = (number << 1) ^ (number >> 63)
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)


def _put_bytes(out: bytearray, data: bytes | None) -> None:
    _put_varint(out, -1 if data is None else len(data))
    out += data or b""
