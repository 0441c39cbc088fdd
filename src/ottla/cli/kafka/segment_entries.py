"""What is in a segment's log: batches, or messages of the old formats, and where each of them lies."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import NamedTuple

import crc32c

from ottla.records.compression import Codec, decompress
from ottla.records.messages import MessageAndOffset, MessageSet

_HEAD = struct.Struct(">qi")
_OLD_BODY = 18
_CRC_FROM, _CRC_AT, _ATTRIBUTES_AT, _LAST_DELTA_AT = 21, 17, 21, 23
_CONTROL = 32
_INFLATED_MAX = 1 << 30
CODECS = (Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD)


class Entry(NamedTuple):
    """A batch, or a message of the old formats, and where it lies."""

    position: int
    data: memoryview

    @property
    def magic(self) -> int:
        """The format."""
        return int(self.data[16])

    @property
    def offset(self) -> int:
        """The first offset of a batch, that of a message."""
        offset: int = _HEAD.unpack_from(self.data)[0]
        return offset

    @property
    def last_offset(self) -> int:
        """Of a batch; of a message its own."""
        if self.magic < 2:
            return self.offset
        return self.offset + int(struct.unpack_from(">i", self.data, _LAST_DELTA_AT)[0])

    @property
    def is_valid(self) -> bool:
        """Whether the checksum is right."""
        if self.magic < 2:
            return bool(zlib.crc32(self.data[16:]) == struct.unpack_from(">I", self.data, 12)[0])
        return bool(crc32c.crc32c(self.data[_CRC_FROM:]) == struct.unpack_from(">I", self.data, _CRC_AT)[0])

    @property
    def key_and_value(self) -> tuple[bytes | None, bytes | None]:
        """Of a message of an old format; what is compressed stays so."""
        at = _OLD_BODY + (8 if self.magic == 1 else 0)
        key, at = _sized(self.data, at)
        return key, _sized(self.data, at)[0]

    @property
    def codec(self) -> int:
        """Its number, of a message of an old format."""
        return int(self.data[17]) & 7

    def records(self) -> Iterator[MessageAndOffset]:
        """The records of a batch, those of control batches too, which readers do not get to see."""
        data = bytearray(self.data)
        attributes = struct.unpack_from(">h", data, _ATTRIBUTES_AT)[0]
        struct.pack_into(">h", data, _ATTRIBUTES_AT, attributes & ~_CONTROL)
        struct.pack_into(">I", data, _CRC_AT, crc32c.crc32c(memoryview(data)[_CRC_FROM:]))
        yield from MessageSet(data)

    def inner(self) -> Iterator[Entry]:
        """The messages within a compressed message of an old format. They lie where it lies."""
        _, value = self.key_and_value
        if not self.codec or value is None:
            yield self
            return
        raw = decompress(CODECS[self.codec], value, limit=_INFLATED_MAX, magic=self.magic)
        found = list(entries(bytes(raw)))
        # From format 1 on they count from 0, and the message around them has the last one's offset.
        shift = self.offset - found[-1].offset if self.magic and found else 0
        for one in found:
            data = _HEAD.pack(one.offset + shift, len(one.data) - _HEAD.size) + bytes(one.data[_HEAD.size :])
            yield Entry(self.position, memoryview(data))


def _sized(data: memoryview, at: int) -> tuple[bytes | None, int]:
    (size,) = struct.unpack_from(">i", data, at)
    end = at + 4 + max(0, size)
    return (None if size < 0 else bytes(data[at + 4 : end])), end


def entries(data: bytes) -> Iterator[Entry]:
    """One after another, up to the first that is not whole."""
    view, at = memoryview(data), 0
    while at + 17 <= len(data):
        _, size = _HEAD.unpack_from(view, at)
        end = at + _HEAD.size + size
        if size < 14 or end > len(data):
            return
        yield Entry(at, view[at:end])
        at = end
