"""Snappy inside a kernel: a raw block, or a stream of blocks as snappy-java makes it (see `records.xerial`).

A block is its size, then literals and copies of earlier bytes, each after a tag whose low bits say which:

    0  a literal: its length - 1 in the tag, or, from 60 on, in 1 to 4 bytes after it
    1  a copy of 4 to 11 bytes, distance of 11 bits    2, 3  of 1 to 64 bytes, distance of 16 or 32 bits

What is not certainly sound is given up; the library then says what is wrong with it.
"""

from __future__ import annotations

from ottla.kernels.kernel import kernel
from ottla.kernels.layout import GIVEN_UP, SNAPPY_BLOCK_BYTES_USUAL_MIN, SNAPPY_BLOCKS_SPARE
from ottla.kernels.memory import (
    SHORT,
    copy_block,
    copy_bytes,
    copy_match,
    copy_short,
    get_byte,
    read_int32,
    read_little_int64,
    read_little_uint16,
    read_little_uint32,
)

MAGIC = int.from_bytes(b"\x82SNAPPY\x00", "little", signed=True)
HEADER_BYTES = 16
LONG_LITERAL = 60
# In the quick loop this is left of the input and of the room.
QUICK_BYTES = 80


@kernel
def _block(data, at, end, data_end, out, to, out_end):
    """Decode the raw block data[at:end] to `to`; where its content ends."""
    size = 0
    shift = 0
    while True:
        if at >= end or shift > 28:
            return GIVEN_UP
        byte = get_byte(data, at)
        at += 1
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    if size > out_end - to:
        return GIVEN_UP
    start = to
    stop = to + size
    while at < end:
        # Most tags: far from all ends, and what is copied does not overlap. There is no branch between
        # literals and copies, which no processor could predict.
        while at + QUICK_BYTES <= end and to + QUICK_BYTES <= stop:
            tag = get_byte(data, at)
            kind = tag & 3
            is_near, is_copy = kind & 1, kind + 1 >> 1
            size = (tag >> 2) + 1
            after = at + 1 + (kind & -is_copy | size & is_copy - 1)
            size -= -is_near & (size - ((tag >> 2 & 7) + 4))
            distance = read_little_uint16(data, at + 1) & 0xFFFF >> 8 * is_near | (tag >> 5 & -is_near) << 8
            if kind == 3 or size > LONG_LITERAL or -is_copy & (distance - size | to - start - distance) < 0:
                break
            source = out if is_copy else data
            source_at = to - distance if is_copy else at + 1
            copy_short(out, to, source, source_at)
            if size > SHORT:
                copy_block(out, to, source, source_at)
            at = after
            to += size
        tag = get_byte(data, at)
        kind = tag & 3
        at += 1
        size = (tag >> 2) + 1
        if kind == 0:
            if size > LONG_LITERAL:
                count = size - LONG_LITERAL
                if count > end - at:
                    return GIVEN_UP
                size = 1
                for i in range(count):
                    size += get_byte(data, at + i) << (8 * i)
                at += count
            if size > end - at or size > stop - to:
                return GIVEN_UP
            copy_bytes(out, to, out_end, data, at, data_end, size)
            at += size
        else:
            if kind == 1:
                if end - at < 1:
                    return GIVEN_UP
                size = ((tag >> 2) & 7) + 4
                distance = (tag >> 5) << 8 | get_byte(data, at)
                at += 1
            elif kind == 2:
                if end - at < 2:
                    return GIVEN_UP
                distance = read_little_uint16(data, at)
                at += 2
            else:
                if end - at < 4:
                    return GIVEN_UP
                distance = read_little_uint32(data, at)
                at += 4
            if distance == 0 or distance > to - start or size > stop - to:
                return GIVEN_UP
            copy_match(out, to, out_end, distance, size)
        to += size
    return to if to == stop else GIVEN_UP


@kernel
def snappy(data, at, end, data_end, out, to, out_end):
    """Decode data[at:end] to `to`; where its content ends, or GIVEN_UP. The arrays go on to their ends."""
    if end - at < HEADER_BYTES or read_little_int64(data, at) != MAGIC:
        return _block(data, at, end, data_end, out, to, out_end)
    blocks_left = SNAPPY_BLOCKS_SPARE + (end - at) // SNAPPY_BLOCK_BYTES_USUAL_MIN
    at += HEADER_BYTES
    while at < end:
        if end - at < 4 or blocks_left == 0:
            return GIVEN_UP
        blocks_left -= 1
        size = read_int32(data, at)
        at += 4
        # Also where another stream's header follows, whose first byte makes this negative.
        if size <= 0 or size > end - at:
            return GIVEN_UP
        to = _block(data, at, at + size, data_end, out, to, out_end)
        if to < 0:
            return GIVEN_UP
        at += size
    return to
