"""Hashes that must equal Java's: Kafka's murmur2 and String.hashCode, over Arrow columns.

Numba widens 32-bit arithmetic to 64 bits, so every step is cut back to 32 bits by hand; products of
two such numbers stay below 2**63 because murmur2's multiplier is below 2**31.
"""

from __future__ import annotations

from ottla.kernels.kernel import inlined, kernel
from ottla.kernels.layout import MURMUR_MULTIPLIER, MURMUR_SEED
from ottla.kernels.memory import get_byte, get_int32, pointer, put_int32

MASK = 0xFFFFFFFF


@inlined
def signed32(value):
    return (value & 0x7FFFFFFF) - (value & 0x80000000)


@inlined
def murmur2_of(data, start, end):
    """Kafka's murmur2 of a key, as an unsigned number."""
    h = (MURMUR_SEED ^ (end - start)) & MASK
    at = start
    while at + 4 <= end:
        k = (
            get_byte(data, at)
            | (get_byte(data, at + 1) << 8)
            | (get_byte(data, at + 2) << 16)
            | (get_byte(data, at + 3) << 24)
        )
        k = (k * MURMUR_MULTIPLIER) & MASK
        k ^= k >> 24
        k = (k * MURMUR_MULTIPLIER) & MASK
        h = ((h * MURMUR_MULTIPLIER) & MASK) ^ k
        at += 4
    if at < end:
        tail = 0
        for i in range(end - at):
            tail |= get_byte(data, at + i) << (8 * i)
        h = ((h ^ tail) * MURMUR_MULTIPLIER) & MASK
    h ^= h >> 13
    h = (h * MURMUR_MULTIPLIER) & MASK
    return h ^ (h >> 15)


@kernel
def murmur2_column(ends, data, out):
    """Kafka's murmur2 of each value as a signed 32-bit number; nulls are the caller's to mask."""
    ends_at, data_at, out_at = pointer(ends), pointer(data), pointer(out)
    for row in range(out.size):
        h = murmur2_of(data_at, get_int32(ends_at, row), get_int32(ends_at, row + 1))
        put_int32(out_at, row, signed32(h))


@inlined
def _java_hash_of(data, start, end):
    """String.hashCode of valid UTF-8: 31-fold over UTF-16 units, so four-byte characters count twice."""
    h = 0
    at = start
    while at < end:
        byte = get_byte(data, at)
        width = 1 if byte < 0x80 else 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
        if width == 1 or at + width > end:  # a cut character is not UTF-8: whatever the hash, stay inside
            unit = byte
            at += 1
        elif width == 2:
            unit = ((byte & 0x1F) << 6) | (get_byte(data, at + 1) & 0x3F)
            at += 2
        elif width == 3:
            unit = (
                ((byte & 0x0F) << 12)
                | ((get_byte(data, at + 1) & 0x3F) << 6)
                | (get_byte(data, at + 2) & 0x3F)
            )
            at += 3
        else:
            point = ((byte & 0x07) << 18) | ((get_byte(data, at + 1) & 0x3F) << 12)
            point |= ((get_byte(data, at + 2) & 0x3F) << 6) | (get_byte(data, at + 3) & 0x3F)
            point -= 0x10000
            h = (31 * h + 0xD800 + (point >> 10)) & MASK
            unit = 0xDC00 + (point & 0x3FF)
            at += 4
        h = (31 * h + unit) & MASK
    return h


@kernel
def java_hash_column(ends, data, out):
    """String.hashCode of each value of a valid UTF-8 column; nulls are the caller's to mask."""
    ends_at, data_at, out_at = pointer(ends), pointer(data), pointer(out)
    for row in range(out.size):
        h = _java_hash_of(data_at, get_int32(ends_at, row), get_int32(ends_at, row + 1))
        put_int32(out_at, row, signed32(h))
