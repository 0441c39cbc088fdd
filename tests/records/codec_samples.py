"""Data for the tests of codecs, and the codecs to try."""

from __future__ import annotations

import struct
from typing import Any

import cramjam
import pytest
from hypothesis import strategies as st

from ottla.records.compression import (
    Codec,
    decompress,
)

COMPRESSING = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]
ROOM = 1 << 24
TEXT = b"".join(b'{"id":%d,"name":"user-%d","ok":true}' % (n, n * 7919 % 1000) for n in range(4000))
MIB = 1 << 20

each_codec = pytest.mark.parametrize("codec", list(Codec), ids=lambda codec: codec.label)
each_compressing = pytest.mark.parametrize("codec", COMPRESSING, ids=lambda codec: codec.label)

# Random bytes, and runs of few distinct ones so that there is something to compress.
payloads = st.one_of(
    st.binary(max_size=2000),
    st.lists(st.tuples(st.binary(min_size=1, max_size=40), st.integers(1, 4000)), max_size=6).map(
        lambda runs: b"".join(piece * count for piece, count in runs)
    ),
)


def unpacked(codec: Codec, data: Any, magic: int = 2) -> bytes:
    return decompress(codec, data, limit=ROOM, magic=magic).tobytes()


def xxh32(data: bytes) -> int:
    """XXH32 by cramjam: the content checksum that ends a frame."""
    return int.from_bytes(bytes(cramjam.lz4.compress(data))[-4:], "little")


def lz4_frame(data: bytes, *, content_size: int | None = None, flags: int = 0x60) -> bytes:
    """A frame with one stored block."""
    descriptor = bytes([flags | (8 if content_size is not None else 0), 0x40])
    if content_size is not None:
        descriptor += struct.pack("<Q", content_size)
    block = struct.pack("<I", len(data) | 1 << 31) + data if data else b""
    return b"\x04\x22\x4d\x18" + descriptor + bytes([xxh32(descriptor) >> 8 & 0xFF]) + block + bytes(4)
