"""Many small zstd batches by one call of the library.

A call makes a context, which takes longer than a few records. A decompressor takes several frames one after
the other, but does not say where the content of each ends. So a separator stands behind each batch: a frame
whose content nobody can guess. It is not among the bytes of the separator itself, and has a checksum. So a
batch without its end, which goes on in the separator, gets no content with it.

    batch | separator | batch | separator         becomes         content | mark | content | mark
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence

import cramjam

MARK_BYTES = 16
_SECRET = secrets.token_bytes(MARK_BYTES // 2)
_WORD = (1 << 64) - 1
_PRIME_1, _PRIME_2, _PRIME_3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
_PRIME_4, _PRIME_5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5


def _rotated(word: int, count: int) -> int:
    return (word << count | word >> (64 - count)) & _WORD


def _xxh64(data: bytes) -> int:
    """XXH64 of less than 32 bytes, whole words, with seed 0."""
    state = _PRIME_5 + len(data)
    for at in range(0, len(data), 8):
        word = int.from_bytes(data[at : at + 8], "little") * _PRIME_2 & _WORD
        state ^= _rotated(word, 31) * _PRIME_1 & _WORD
        state = (_rotated(state, 27) * _PRIME_1 + _PRIME_4) & _WORD
    state = (state ^ state >> 33) * _PRIME_2 & _WORD
    state = (state ^ state >> 29) * _PRIME_3 & _WORD
    return state ^ state >> 32


def _separator(mark: bytes) -> bytes:
    """A frame of one segment with a checksum: each byte of the mark, which is there twice, is a block."""
    blocks = []
    for at in range(0, len(mark), 2):
        is_last = at + 2 == len(mark)
        blocks.append((2 << 3 | 1 << 1 | is_last).to_bytes(3, "little") + mark[at : at + 1])
    head = b"\x28\xb5\x2f\xfd" + bytes([0x24, len(mark)])
    return head + b"".join(blocks) + (_xxh64(mark) & 0xFFFFFFFF).to_bytes(4, "little")


_MARK = bytes(byte for byte in _SECRET for _ in range(2))
_SEPARATOR = _separator(_MARK)


def decompress_run(batches: Sequence[memoryview], room: memoryview) -> list[tuple[int, int]] | None:
    """Decompress batches into `room`; where the content of each is, a mark behind it.

    None if one of them is not certainly sound, or there is not enough room: then they have to be decompressed
    one by one.
    """
    try:
        size = cramjam.zstd.decompress_into(_SEPARATOR.join([*batches, b""]), room)
    except cramjam.DecompressionError:
        return None
    content = bytes(room[:size])
    spans = []
    at = 0
    for _ in batches:
        end = content.find(_MARK, at)
        if end < 0:
            return None
        spans.append((at, end))
        at = end + MARK_BYTES
    return spans if at == size else None
