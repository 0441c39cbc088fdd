"""The header of an lz4 frame: its content size, and the checksum that message format 0 gets wrong.

    04 22 4D 18 | FLG | BD | [content size u64] | [dictionary id u32] | HC | blocks ...

HC is the second byte of XXH32 over FLG to the byte before HC. Kafka's first Java writer hashed the magic
number as well, and by the time it was noticed brokers had such data (KIP-57): so format 0 is written with the
wrong checksum, which its old readers insist on, and read with either. Formats 1 and 2 follow the lz4
specification.
"""

from __future__ import annotations

import struct
from typing import Final

from ottla.model.errors import ConfigError

_MAGIC: Final = b"\x04\x22\x4d\x18"
_HAS_CONTENT_SIZE: Final = 0x08
_HAS_DICTIONARY_ID: Final = 0x01


def content_size(frame: memoryview) -> int | None:
    """The size that the header declares, if it declares one."""
    if len(frame) < 15 or frame[:4].tobytes() != _MAGIC or not frame[4] & _HAS_CONTENT_SIZE:
        return None
    return int.from_bytes(frame[6:14], "little")


def with_old_checksum(frame: memoryview) -> memoryview:
    """A copy of a frame without content size and dictionary, with the checksum of message format 0."""
    patched = bytearray(frame)
    patched[6] = _checksum(frame[:6])
    return memoryview(patched)


def with_right_checksum(frame: memoryview) -> memoryview:
    """The frame with the checksum that lz4 libraries expect; a copy only if it has another.

    Bytes that are no lz4 frame, or end within its header, are returned unchanged: the library refuses them.
    """
    if len(frame) < 7 or frame[:4].tobytes() != _MAGIC:
        return frame
    end = 6 + (8 if frame[4] & _HAS_CONTENT_SIZE else 0) + (4 if frame[4] & _HAS_DICTIONARY_ID else 0)
    checksum = _checksum(frame[4:end])
    if end >= len(frame) or frame[end] == checksum:
        return frame
    patched = bytearray(frame)
    patched[end] = checksum
    return memoryview(patched)


def _checksum(descriptor: memoryview) -> int:
    return xxh32_short(bytes(descriptor)) >> 8 & 0xFF


def xxh32_short(data: bytes) -> int:
    """XXH32 with seed 0 of fewer than 16 bytes, which is all that a header needs."""
    if len(data) >= 16:
        raise ConfigError(f"xxh32_short takes fewer than 16 bytes, not {len(data)}")
    prime1, prime2, prime3, prime4, prime5 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1
    mask = 0xFFFFFFFF
    words = len(data) // 4
    state = prime5 + len(data)
    for word in struct.unpack_from(f"<{words}I", data):
        state = _rotate_left(state + word * prime3 & mask, 17) * prime4 & mask
    for byte in data[4 * words :]:
        state = _rotate_left(state + byte * prime5 & mask, 11) * prime1 & mask
    state = (state ^ state >> 15) * prime2 & mask
    state = (state ^ state >> 13) * prime3 & mask
    return state ^ state >> 16


def _rotate_left(word: int, count: int) -> int:
    return (word << count | word >> 32 - count) & 0xFFFFFFFF
