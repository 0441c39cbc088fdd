"""Hashes that must equal Java's: Kafka's murmur2 and String.hashCode, over Arrow columns.

Numba widens 32-bit arithmetic to 64 bits, so every step is cut back to 32 bits by hand; products of
two such numbers stay below 2**63 because murmur2's multiplier is below 2**31.
"""

from __future__ import annotations

from ottla.kernels.integers import byte_at
from ottla.kernels.kernel import inlined, kernel

MURMUR_SEED = 0x9747B28C
MURMUR_MULTIPLIER = 0x5BD1E995
MASK = 0xFFFFFFFF


@inlined
def signed32(value):  # type: ignore[no-untyped-def]
    return (value & 0x7FFFFFFF) - (value & 0x80000000)


@inlined
def _murmur2_of(data, start, end):  # type: ignore[no-untyped-def]
    h = (MURMUR_SEED ^ (end - start)) & MASK
    at = start
    while at + 4 <= end:
        k = byte_at(data, at) | (byte_at(data, at + 1) << 8) | (byte_at(data, at + 2) << 16) | (byte_at(data, at + 3) << 24)
        k = (k * MURMUR_MULTIPLIER) & MASK
        k ^= k >> 24
        k = (k * MURMUR_MULTIPLIER) & MASK
        h = ((h * MURMUR_MULTIPLIER) & MASK) ^ k
        at += 4
    if at < end:
        tail = 0
        for i in range(end - at):
            tail |= byte_at(data, at + i) << (8 * i)
        h = ((h ^ tail) * MURMUR_MULTIPLIER) & MASK
    h ^= h >> 13
    h = (h * MURMUR_MULTIPLIER) & MASK
    return h ^ (h >> 15)


@kernel
def murmur2_column(ends, data, out):  # type: ignore[no-untyped-def]
    """Kafka's murmur2 of each value as a signed 32-bit number; nulls are the caller's to mask."""
    for row in range(out.size):
        out[row] = signed32(_murmur2_of(data, int(ends[row]), int(ends[row + 1])))


@inlined
def _java_hash_of(data, start, end):  # type: ignore[no-untyped-def]
    """String.hashCode of valid UTF-8: 31-fold over UTF-16 units, so four-byte characters count twice."""
    h = 0
    at = start
    while at < end:
        byte = byte_at(data, at)
        width = 1 if byte < 0x80 else 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
        if width == 1 or at + width > end:  # a cut character is not UTF-8: whatever the hash, stay inside
            unit = byte
            at += 1
        elif width == 2:
            unit = ((byte & 0x1F) << 6) | (byte_at(data, at + 1) & 0x3F)
            at += 2
        elif width == 3:
            unit = ((byte & 0x0F) << 12) | ((byte_at(data, at + 1) & 0x3F) << 6) | (byte_at(data, at + 2) & 0x3F)
            at += 3
        else:
            point = ((byte & 0x07) << 18) | ((byte_at(data, at + 1) & 0x3F) << 12)
            point |= ((byte_at(data, at + 2) & 0x3F) << 6) | (byte_at(data, at + 3) & 0x3F)
            point -= 0x10000
            h = (31 * h + 0xD800 + (point >> 10)) & MASK
            unit = 0xDC00 + (point & 0x3FF)
            at += 4
        h = (31 * h + unit) & MASK
    return h


@kernel
def java_hash_column(ends, data, out):  # type: ignore[no-untyped-def]
    """String.hashCode of each value of a valid UTF-8 column; nulls are the caller's to mask."""
    for row in range(out.size):
        out[row] = signed32(_java_hash_of(data, int(ends[row]), int(ends[row + 1])))
