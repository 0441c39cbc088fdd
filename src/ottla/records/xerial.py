"""Snappy as Kafka carries it: the stream format of xerial's snappy-java, or one raw block.

    82 S N A P P Y 00 | version i32 | compatible with i32 | { size i32 | raw snappy block }*

snappy-java cuts the data into blocks of 32 KiB. Clients that are not Java often send one raw block without
the header; the two cannot be confused, since the header read as a raw block starts with a copy of bytes that
do not exist yet.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

import cramjam

from ottla.kernels.layout import SNAPPY_BLOCK_BYTES_USUAL_MIN, SNAPPY_BLOCKS_SPARE
from ottla.model.errors import CorruptRecord

_MAGIC: Final = b"\x82SNAPPY\x00"
_HEADER: Final = _MAGIC + struct.pack(">ii", 1, 1)
_BLOCK_BYTES: Final = 32 * 1024  # snappy-java's default, which every Kafka client kept


def compress(source: memoryview) -> bytes:
    """A xerial stream of `source`."""
    parts: list[bytes | memoryview] = [_HEADER]
    # At least one block, be it empty: kafka-python and aiokafka take a lone header for raw snappy.
    for start in range(0, max(1, len(source)), _BLOCK_BYTES):
        block = memoryview(cramjam.snappy.compress_raw(source[start : start + _BLOCK_BYTES]))
        parts += (struct.pack(">i", len(block)), block)
    return b"".join(parts)


def decompress_into(source: memoryview, room: memoryview) -> int:
    """Decompress a stream or a raw block; returns the number of bytes, -1 if `room` is too small.

    A block is compared with the room by the size that it declares, before anything of it is written: one that
    claims 4 GB costs nothing. Raises CorruptRecord for a damaged stream and cramjam's error for a damaged
    block.
    """
    position = 0
    for block in _blocks(source):
        if _block_size(block) > len(room) - position:
            return -1
        position += cramjam.snappy.decompress_raw_into(block, room[position:])
    return position


def size(source: memoryview) -> int:
    """The sum of the sizes that the blocks declare: exact for sound data, anything for hostile data."""
    return sum(map(_block_size, _blocks(source)))


def _block_size(block: memoryview) -> int:
    """The uncompressed size at the start of a block: a varint of at most 32 bits."""
    if block and block[0] < 0x80:
        return block[0]
    value = 0
    for index, byte in enumerate(block[:5]):
        value |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            return value
    raise CorruptRecord(f"snappy block of {len(block):,} bytes does not start with its size")


def _blocks(source: memoryview) -> Iterator[memoryview]:
    """The raw blocks of a stream, or all of the data if it is not one.

    The version fields are skipped: some producers write them in the wrong byte order. A header may come again
    after a block, where streams were concatenated.
    """
    if source[:8].tobytes() != _MAGIC:
        yield source
        return
    position = 0
    blocks_left = SNAPPY_BLOCKS_SPARE + len(source) // SNAPPY_BLOCK_BYTES_USUAL_MIN
    while position < len(source):
        blocks_left -= 1
        if blocks_left < 0:
            raise CorruptRecord(f"snappy data of {len(source):,} bytes are cut into absurdly many blocks")
        if source[position] == _MAGIC[0] and source[position : position + 8].tobytes() == _MAGIC:
            position += len(_HEADER)
            continue
        block_size = int.from_bytes(source[position : position + 4], "big", signed=True)
        position += 4
        if not 0 < block_size <= len(source) - position:
            raise CorruptRecord(
                f"snappy block of {block_size:,} bytes at position {position:,} of {len(source):,} bytes"
            )
        yield source[position : position + block_size]
        position += block_size
    if position > len(source):
        raise CorruptRecord(f"snappy data of {len(source):,} bytes end inside the xerial header")
