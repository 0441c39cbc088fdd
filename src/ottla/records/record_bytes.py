"""Single numbers and messages as bytes, in plain Python: a few at a time, without NumPy and Numba.

Many records at once are read by `reader` and written by `builder`. The formats are in `model.record_layout`.
"""

from __future__ import annotations

import zlib

from ottla.model.errors import CorruptRecord
from ottla.model.record_layout import CODEC_MASK, LENGTH, MESSAGE_HEAD, TIMESTAMP

VARINT_BYTES_MAX = 10
Bytes = bytes | bytearray | memoryview


def read_varint(data: Bytes, at: int) -> tuple[int, int]:
    """The zigzag varint at data[at:] and the position after it.

    Raises IndexError if the data end within it, CorruptRecord if it is too long.
    """
    number = data[at]
    at += 1
    if number >= 0x80:
        number &= 0x7F
        for index in range(1, VARINT_BYTES_MAX):
            byte = data[at]
            at += 1
            number |= (byte & 0x7F) << 7 * index
            if byte < 0x80:
                break
        else:
            raise CorruptRecord(f"a number has more than {VARINT_BYTES_MAX} bytes")
    return (number >> 1) ^ -(number & 1), at


def append_varint(out: bytearray, number: int) -> None:
    """Append a number of at most 64 bits as a zigzag varint."""
    zigzag = (number << 1) ^ (number >> 63)
    while zigzag > 0x7F:
        out.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    out.append(zigzag)


def legacy_message(
    offset: int, magic: int, attributes: int, timestamp: int, key: Bytes | None, value: Bytes | None
) -> bytes:
    """A message of format 0 or 1. Format 0 has no timestamp, and of the attributes only the codec."""
    if magic == 0:
        head = bytes((0, attributes & CODEC_MASK))
    else:
        head = bytes((magic, attributes)) + TIMESTAMP.pack(timestamp)
    pieces = (head, _length(key), key or b"", _length(value), value or b"")
    crc = 0
    for piece in pieces:
        crc = zlib.crc32(piece, crc)
    return b"".join((MESSAGE_HEAD.pack(offset, 4 + sum(map(len, pieces)), crc), *pieces))


def _length(data: Bytes | None) -> bytes:
    return LENGTH.pack(-1 if data is None else len(data))
