"""Small record batches of the broker's own topics, written and read without Arrow and Numba.

A group's commit is one or two records, which `ottla.log.plain_batch` writes. Compressed batches, which only
another broker can have written, are left to `ottla.records`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ottla.log.batch_header import BatchHeader, header_at
from ottla.log.plain_batch import batch_body, sealed_batch
from ottla.log.record_walk import walked_records
from ottla.log.validation import CheckedSet
from ottla.model.record_layout import BATCH_OVERHEAD, TRANSACTIONAL
from ottla.wire.primitives import Buffer

KeyAndValue = tuple[bytes | None, bytes | None]


class StoredRecord(NamedTuple):
    """A record that was read from the log."""

    offset: int
    key: bytes | None
    value: bytes | None


def batch_of(
    records: Iterable[KeyAndValue], timestamp_ms: int, producer: tuple[int, int] | None = None
) -> CheckedSet:
    """Return one batch of format 2, ready to be appended.

    With a producer's id and epoch it is part of its transaction.
    """
    body = batch_body((timestamp_ms, key, value) for key, value in records)
    if producer is None:
        data = sealed_batch(body)
    else:
        data = sealed_batch(body, TRANSACTIONAL, producer_id=producer[0], producer_epoch=producer[1])
    header = header_at(data, 0, 0)
    assert header is not None
    return CheckedSet(memoryview(data), (header,))


def batches_of(data: Buffer) -> Iterator[tuple[BatchHeader, list[StoredRecord]]]:
    """Yield whole batches and their records; a control batch's record is its marker. Raises CorruptRecord."""
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
