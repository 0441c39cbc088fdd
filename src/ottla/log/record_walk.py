"""The records of a batch of format 2, one by one, in plain Python.

For batches of a few records, and for a broker that must not load Numba on the way of a produce: some two
microseconds each. Whoever reads many takes `ottla.records`.

    size varint | attributes i8 | timestamp delta | offset delta | key | value | headers   numbers are varints
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ottla.model.errors import CorruptRecord

_NUMBER_BYTES_MAX = 10


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
            size, start = _number(view, at)
            at = start + size
            if size < 0 or at > len(view):
                raise CorruptRecord(f"a record of {size} bytes does not fit its batch")
            yield _record(view[:at], start)
    except IndexError:
        raise CorruptRecord("a batch ends within a record") from None
    if at != len(view):
        raise CorruptRecord(f"a batch has {len(view) - at} bytes behind its last record")


def _record(view: memoryview, at: int) -> WalkedRecord:
    timestamp_delta, at = _number(view, at + 1)  # behind the attributes
    offset_delta, at = _number(view, at)
    key, at = _bytes(view, at)
    value, at = _bytes(view, at)
    header_count, at = _number(view, at)
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


def _number(view: memoryview, at: int) -> tuple[int, int]:
    """A zigzag varint and the place behind it."""
    number = view[at]
    at += 1
    if number >= 0x80:
        number &= 0x7F
        for place in range(1, _NUMBER_BYTES_MAX):
            byte = view[at]
            at += 1
            number |= (byte & 0x7F) << 7 * place
            if byte < 0x80:
                break
        else:
            raise CorruptRecord(f"a number has more than {_NUMBER_BYTES_MAX} bytes")
    return (number >> 1) ^ -(number & 1), at


def _bytes(view: memoryview, at: int) -> tuple[memoryview | None, int]:
    size, at = _number(view, at)
    if size == -1:
        return None, at
    end = at + size
    if size < 0 or end > len(view):
        raise CorruptRecord(f"a length of {size} does not fit its record")
    return view[at:end], end
