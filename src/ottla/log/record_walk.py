"""The records of a batch of format 2, one by one, in plain Python.

For batches of a few records: some two microseconds each, and nothing to load. Many records are checked as
columns (`record_columns`), and read by `ottla.records`.

    size varint | attributes i8 | timestamp delta | offset delta | key | value | headers   numbers are varints
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ottla.model.errors import CorruptRecord
from ottla.records.record_bytes import read_varint


class WalkedRecord(NamedTuple):
    """A record as it stands in its batch: time and offset are relative to the batch's."""

    timestamp_delta: int
    offset_delta: int
    key: memoryview | None
    value: memoryview | None


def walked_records(view: memoryview, count: int) -> Iterator[WalkedRecord]:
    """`count` records that fill `view` exactly. Raises CorruptRecord at the first that does not hold."""
    at = 0
    try:
        for _ in range(count):
            size, start = read_varint(view, at)
            at = start + size
            if size < 0 or at > len(view):
                raise CorruptRecord(f"a record of {size} bytes does not fit its batch")
            yield _fields(view[:at], start)
    except IndexError:
        raise CorruptRecord("a batch ends within a record") from None
    if at != len(view):
        raise CorruptRecord(f"a batch has {len(view) - at} bytes behind its last record")


def record_at(view: memoryview, at: int) -> WalkedRecord:
    """The record that begins at `at` and fills the rest of `view`. Raises CorruptRecord."""
    try:
        return _fields(view, read_varint(view, at)[1])
    except IndexError:
        raise CorruptRecord("a batch ends within a record") from None


def _fields(view: memoryview, at: int) -> WalkedRecord:
    timestamp_delta, at = read_varint(view, at + 1)  # after the attributes
    offset_delta, at = read_varint(view, at)
    key, at = _bytes(view, at)
    value, at = _bytes(view, at)
    header_count, at = read_varint(view, at)
    if header_count < 0:
        raise CorruptRecord(f"a record has {header_count} headers")
    for _ in range(header_count):
        name, at = _bytes(view, at)
        if name is None:
            raise CorruptRecord("a header has no name")
        _, at = _bytes(view, at)
    if at != len(view):
        raise CorruptRecord(f"a record has {len(view) - at} bytes behind its last header")
    return WalkedRecord(timestamp_delta, offset_delta, key, value)


def _bytes(view: memoryview, at: int) -> tuple[memoryview | None, int]:
    size, at = read_varint(view, at)
    if size == -1:
        return None, at
    end = at + size
    if size < 0 or end > len(view):
        raise CorruptRecord(f"a length of {size} does not fit its record")
    return view[at:end], end
