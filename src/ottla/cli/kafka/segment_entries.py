"""The entries of a segment: batches, or messages of the old formats, with their positions."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import NamedTuple

from ottla.model.checksums import crc32c
from ottla.model.record_layout import (
    BATCH_ATTRIBUTES,
    BATCH_ATTRIBUTES_AT,
    BATCH_CRC_AT,
    BATCH_LAST_OFFSET_DELTA_AT,
    CODEC_MASK,
    CONTROL,
    CRC,
    ENTRY_OVERHEAD,
    LAST_OFFSET_DELTA,
    LEGACY_ATTRIBUTES_AT,
    LEGACY_BODY_AT,
    LEGACY_CRC_AT,
    LENGTH,
    LENGTH_BYTES,
    MAGIC_AT,
    OFFSET,
    OFFSET_AT,
    SIZE,
    SIZE_AT,
    SIZE_MIN_V0,
)
from ottla.records.compression import Codec, decompress
from ottla.records.messages import MessageAndOffset, MessageSet

_INFLATED_MAX = 1 << 30
CODECS = (Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD)


class SegmentEntry(NamedTuple):
    """A batch, or a message of the old formats, with its position."""

    position: int
    data: memoryview

    @property
    def magic(self) -> int:
        """The message format."""
        return int(self.data[MAGIC_AT])

    @property
    def offset(self) -> int:
        """The first offset of a batch, or the offset of a message."""
        offset: int = OFFSET.unpack_from(self.data)[0]
        return offset

    @property
    def last_offset(self) -> int:
        """The last offset of a batch, or the offset of a message."""
        if self.magic < 2:
            return self.offset
        return self.offset + int(LAST_OFFSET_DELTA.unpack_from(self.data, BATCH_LAST_OFFSET_DELTA_AT)[0])

    @property
    def is_valid(self) -> bool:
        """Whether the checksum is right."""
        data = self.data
        if self.magic < 2:
            return bool(zlib.crc32(data[MAGIC_AT:]) == self.crc)
        return bool(crc32c(data[BATCH_ATTRIBUTES_AT:]) == self.crc)

    @property
    def crc(self) -> int:
        """The checksum that is stored."""
        crc: int = CRC.unpack_from(self.data, BATCH_CRC_AT if self.magic == 2 else LEGACY_CRC_AT)[0]
        return crc

    @property
    def key_and_value(self) -> tuple[bytes | None, bytes | None]:
        """Key and value of a message of an old format, still compressed if it is."""
        key, at = _sized(self.data, LEGACY_BODY_AT[self.magic])
        return key, _sized(self.data, at)[0]

    @property
    def codec(self) -> int:
        """The codec's number in a message of an old format."""
        return int(self.data[LEGACY_ATTRIBUTES_AT]) & CODEC_MASK

    def records(self) -> Iterator[MessageAndOffset]:
        """The records of a batch, also of control batches, which consumers never see."""
        data = bytearray(self.data)
        (attributes,) = BATCH_ATTRIBUTES.unpack_from(data, BATCH_ATTRIBUTES_AT)
        BATCH_ATTRIBUTES.pack_into(data, BATCH_ATTRIBUTES_AT, attributes & ~CONTROL)
        CRC.pack_into(data, BATCH_CRC_AT, crc32c(memoryview(data)[BATCH_ATTRIBUTES_AT:]))
        yield from MessageSet(data)

    def inner(self) -> Iterator[SegmentEntry]:
        """The messages within a compressed message of an old format; they have its position."""
        _, value = self.key_and_value
        if not self.codec or value is None:
            yield self
            return
        raw = decompress(CODECS[self.codec], value, limit=_INFLATED_MAX, magic=self.magic)
        messages = list(entries(bytes(raw)))
        # From format 1 on inner offsets count from 0, and the outer message has the offset of the last one.
        shift = self.offset - messages[-1].offset if self.magic and messages else 0
        for message in messages:
            data = bytearray(message.data)
            OFFSET.pack_into(data, OFFSET_AT, message.offset + shift)
            yield SegmentEntry(self.position, memoryview(data))


def _sized(data: memoryview, at: int) -> tuple[bytes | None, int]:
    (size,) = LENGTH.unpack_from(data, at)
    start = at + LENGTH_BYTES
    end = start + max(0, size)
    return (None if size < 0 else bytes(data[start:end])), end


def entries(data: bytes) -> Iterator[SegmentEntry]:
    """Yield the entries up to the first incomplete one."""
    view, at = memoryview(data), 0
    while at + MAGIC_AT < len(data):
        (size,) = SIZE.unpack_from(view, at + SIZE_AT)
        end = at + ENTRY_OVERHEAD + size
        if size < SIZE_MIN_V0 or end > len(data):
            return
        yield SegmentEntry(at, view[at:end])
        at = end
