"""LZ4 frames inside a kernel; `records.lz4_header` draws the header.

A frame is blocks, each its size and its bytes, up to a size of 0. A block is sequences: a token with two
lengths, literals, and the distance of a copy of earlier bytes. A length of 15 goes on in the next bytes. The
last sequence has literals only.

Where the frame carries checksums or its size, they are compared. What is not certainly sound, or uses a
dictionary, is given up; the library then says what is wrong with it.
"""

from __future__ import annotations

from ottla.kernels.kernel import inlined, kernel
from ottla.kernels.layout import GIVEN_UP
from ottla.kernels.memory import (
    SHORT,
    copy_bytes,
    copy_match,
    copy_short,
    get_byte,
    read_little_int64,
    read_little_uint16,
    read_little_uint32,
)

MAGIC = 0x184D2204
# Flags of the first byte of the descriptor.
VERSION_MASK, VERSION = 0xC0, 0x40
BLOCK_CHECKSUM, CONTENT_SIZE, CONTENT_CHECKSUM, RESERVED, DICTIONARY = 0x10, 0x08, 0x04, 0x02, 0x01
INDEPENDENT_BLOCKS = 0x20
# The second: a block may have 64 KiB (4), 256 KiB, 1 MiB or 4 MiB (7).
BLOCK_SIZE_AT, BLOCK_SIZE_MIN, OTHER_BITS = 4, 4, 0x8F
STORED = 1 << 31  # of a block's size: it is not compressed
LONG = 15
MATCH_MIN = 4
# In the quick loop: literals and copies are short, and this is left of the input and of the room.
QUICK_MATCH = LONG - 1 + MATCH_MIN
QUICK_BYTES = 64
# Of every sequence but the last, as any compressor leaves them: distance, token and five literals.
BYTES_AFTER_LITERALS_MIN = 8

HALF = 0xFFFFFFFF
PRIME_1, PRIME_2, PRIME_3, PRIME_4, PRIME_5 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1


@inlined
def _rotated(word, count):
    return (word << count | word >> (32 - count)) & HALF


@inlined
def _lane(state, word):
    return _rotated((state + word * PRIME_2) & HALF, 13) * PRIME_1 & HALF


@kernel
def xxh32(data, at, end):
    """XXH32 of data[at:end], with seed 0."""
    size = end - at
    if size >= 16:
        first = (PRIME_1 + PRIME_2) & HALF
        second = PRIME_2 & HALF
        third = 0
        fourth = -PRIME_1 & HALF
        while end - at >= 16:
            first = _lane(first, read_little_uint32(data, at))
            second = _lane(second, read_little_uint32(data, at + 4))
            third = _lane(third, read_little_uint32(data, at + 8))
            fourth = _lane(fourth, read_little_uint32(data, at + 12))
            at += 16
        state = _rotated(first, 1) + _rotated(second, 7) + _rotated(third, 12) + _rotated(fourth, 18)
    else:
        state = PRIME_5
    state = (state + size) & HALF
    while end - at >= 4:
        state = _rotated((state + read_little_uint32(data, at) * PRIME_3) & HALF, 17) * PRIME_4 & HALF
        at += 4
    while at < end:
        state = _rotated((state + get_byte(data, at) * PRIME_5) & HALF, 11) * PRIME_1 & HALF
        at += 1
    state = (state ^ state >> 15) * PRIME_2 & HALF
    state = (state ^ state >> 13) * PRIME_3 & HALF
    return state ^ state >> 16


@inlined
def _rest_of_length(data, at, end):
    """What the bytes after a length of LONG add to it, and where they end: past `end` if they do not."""
    more = 0
    while at < end:
        byte = get_byte(data, at)
        at += 1
        more += byte
        if byte != 0xFF:
            return more, at
    return more, end + 1


@kernel
def _block(data, at, end, data_end, out, start, to, stop, out_end):
    """Decode the block data[at:end] to `to`, at most to `stop`; where its content ends.

    Copies reach back to `start`.
    """
    while True:
        # Most sequences: short, far from all ends, and what is copied does not overlap.
        while at + QUICK_BYTES <= end and to + QUICK_BYTES <= stop:
            token = get_byte(data, at)
            size = token >> 4
            distance = read_little_uint16(data, at + 1 + size)
            if size == LONG or token & 15 == LONG or not QUICK_MATCH <= distance <= to + size - start:
                break
            copy_short(out, to, data, at + 1)
            to += size
            copy_short(out, to, out, to - distance)
            size = (token & 15) + MATCH_MIN
            if size > SHORT:
                copy_short(out, to + SHORT, out, to + SHORT - distance)
            at += 3 + (token >> 4)
            to += size
        if at >= end:
            return GIVEN_UP
        token = get_byte(data, at)
        at += 1
        size = token >> 4
        if size == LONG:
            more, at = _rest_of_length(data, at, end)
            size += more
        if size > end - at or size > stop - to:
            return GIVEN_UP
        copy_bytes(out, to, out_end, data, at, data_end, size)
        at += size
        to += size
        if at == end:
            return to
        if end - at < BYTES_AFTER_LITERALS_MIN:
            return GIVEN_UP
        distance = read_little_uint16(data, at)
        at += 2
        size = (token & 15) + MATCH_MIN
        if token & 15 == LONG:
            more, at = _rest_of_length(data, at, end)
            size += more
        if distance == 0 or distance > to - start or size > stop - to:
            return GIVEN_UP
        copy_match(out, to, out_end, distance, size)
        to += size


@kernel
def lz4(data, at, end, data_end, out, to, out_end, any_header):
    """Decode the one frame data[at:end] to `to`; where its content ends, or GIVEN_UP.

    The arrays go on to their ends. `any_header`: the header's checksum is not looked at.
    """
    if end - at < 11 or read_little_uint32(data, at) != MAGIC:
        return GIVEN_UP
    flags = get_byte(data, at + 4)
    sizes = get_byte(data, at + 5)
    block_bytes_max = 1 << (8 + 2 * (sizes >> BLOCK_SIZE_AT))
    if flags & (VERSION_MASK | RESERVED | DICTIONARY) != VERSION:
        return GIVEN_UP
    if sizes & OTHER_BITS or sizes >> BLOCK_SIZE_AT < BLOCK_SIZE_MIN:
        return GIVEN_UP
    content_bytes = -1
    header_end = at + 6
    if flags & CONTENT_SIZE:
        if end - at < 19:
            return GIVEN_UP
        content_bytes = read_little_int64(data, at + 6)
        header_end += 8
    if not any_header and xxh32(data, at + 4, header_end) >> 8 & 0xFF != get_byte(data, header_end):
        return GIVEN_UP
    at = header_end + 1
    start = to
    while True:
        if end - at < 4:
            return GIVEN_UP
        size = read_little_uint32(data, at)
        at += 4
        if size == 0:
            break
        is_stored = size & STORED
        size &= STORED - 1
        after = at + size + (4 if flags & BLOCK_CHECKSUM else 0)
        if size > block_bytes_max or after > end:
            return GIVEN_UP
        if flags & BLOCK_CHECKSUM and xxh32(data, at, at + size) != read_little_uint32(data, at + size):
            return GIVEN_UP
        if is_stored:
            if size > out_end - to:
                return GIVEN_UP
            copy_bytes(out, to, out_end, data, at, data_end, size)
            to += size
        else:
            stop = min(out_end, to + block_bytes_max)
            back_to = to if flags & INDEPENDENT_BLOCKS else start
            to = _block(data, at, at + size, data_end, out, back_to, to, stop, out_end)
            if to < 0:
                return GIVEN_UP
        at = after
    if flags & CONTENT_CHECKSUM:
        if end - at < 4 or xxh32(out, start, to) != read_little_uint32(data, at):
            return GIVEN_UP
        at += 4
    if at != end or (content_bytes != to - start and flags & CONTENT_SIZE):
        return GIVEN_UP
    return to
