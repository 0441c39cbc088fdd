"""gzip inside a kernel: one member without extra fields, its deflate stream and its checksum.

A symbol of a deflate block has a code of 1 to 15 bits. A table gives the symbol for the next bits, whatever
follows the code; longer codes, which are rare, are found length by length. What is not certainly sound is
given up; the library then says what is wrong with it.
"""

from __future__ import annotations

import numpy as np

from ottla.kernels.crc32 import BLOCK, crc32, crc32_by_table
from ottla.kernels.kernel import inlined, kernel
from ottla.kernels.layout import GIVEN_UP
from ottla.kernels.memory import (
    copy_bytes,
    copy_match,
    get_byte,
    get_int32,
    pointer,
    put_byte,
    put_int32,
    read_little_int64,
    read_little_uint16,
    read_little_uint32,
)

# ID1 ID2 CM FLG: deflate, no extra fields, no name, no comment.
MAGIC = 0x00088B1F
HEADER_BYTES, TRAILER_BYTES = 10, 8

STORED, FIXED, DYNAMIC = range(3)
CODE_BITS_MAX = 15
END_OF_BLOCK = 256
LITERALS, DISTANCES, LENGTHS = 288, 32, 19  # symbols of each alphabet
LITERALS_MAX, DISTANCES_MAX = 286, 30  # those that may be used
LITERAL_BITS, DISTANCE_BITS, LENGTH_BITS = 9, 6, 7  # of each table
SYMBOL_SHIFT, CODE_BITS_MASK = 4, 15  # of an entry of a table; 0: no code that short begins so

# A decoder: its table, then how many codes there are of each length, where those of a length end among the
# symbols, and the symbols in the order of their codes.
COUNTS_AT = 1 << LITERAL_BITS
ENDS_AT = COUNTS_AT + CODE_BITS_MAX + 1
SYMBOLS_AT = ENDS_AT + CODE_BITS_MAX + 2
DECODER_SIZE = SYMBOLS_AT + LITERALS
# The scratch: decoders, lengths of the codes from which they are built, and whether the fixed ones are there.
LITERALS_AT, DISTANCES_AT, FIXED_LITERALS_AT, FIXED_DISTANCES_AT = range(0, 4 * DECODER_SIZE, DECODER_SIZE)
CODE_LENGTHS_AT = 4 * DECODER_SIZE
HAS_FIXED_AT = CODE_LENGTHS_AT + LITERALS + DISTANCES

REPEATED, ZEROS, MANY_ZEROS = 16, 17, 18  # symbols that stand for several lengths
LENGTHS_ORDER = np.array([16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15], np.int32)
# For each symbol the bits after it, and what they count from.
MATCH_MORE = np.array([0] * 8 + [bits for bits in range(1, 6) for _ in range(4)] + [0], np.int32)
MATCH_BASE = np.array([*(3 + np.cumsum([0, *(1 << MATCH_MORE[:-2])])), 258], np.int32)
DISTANCE_MORE = np.array([0, 0, *(bits for bits in range(14) for _ in range(2))], np.int32)
DISTANCE_BASE = np.array(1 + np.cumsum([0, *(1 << DISTANCE_MORE[:-1])]), np.int32)

BITS_WANTED = 48  # the longest match: 15 + 5 + 15 + 13


@inlined
def _refilled(data, at, end, bits, count):
    """56 bits or more, zeros after `end`: (bits, how many, where the next ones are)."""
    taken = (63 - count) >> 3
    word = 0
    if at + 8 <= end:
        word = read_little_int64(data, at) & ((1 << 8 * taken) - 1)
    else:
        for i in range(taken):
            if at + i < end:
                word |= get_byte(data, at + i) << 8 * i
    return bits | word << count, count + 8 * taken, at + taken


@kernel
def _build(scratch, lengths_at, symbols, decoder, table_bits):
    """Make a decoder of the lengths of codes; how many codes of 15 bits are not used, < 0: too many are."""
    counts, ends, ordered = decoder + COUNTS_AT, decoder + ENDS_AT, decoder + SYMBOLS_AT
    for length in range(CODE_BITS_MAX + 1):
        put_int32(scratch, counts + length, 0)
    for symbol in range(symbols):
        count = counts + get_int32(scratch, lengths_at + symbol)
        put_int32(scratch, count, get_int32(scratch, count) + 1)
    unused = 1
    put_int32(scratch, ends + 1, 0)
    for length in range(1, CODE_BITS_MAX + 1):
        count = get_int32(scratch, counts + length)
        unused = 2 * unused - count
        if unused < 0:
            return unused
        put_int32(scratch, ends + length + 1, get_int32(scratch, ends + length) + count)
    for symbol in range(symbols):
        length = get_int32(scratch, lengths_at + symbol)
        if length > 0:
            end = get_int32(scratch, ends + length)
            put_int32(scratch, ordered + end, symbol)
            put_int32(scratch, ends + length, end + 1)
    for index in range(1 << table_bits):
        put_int32(scratch, decoder + index, 0)
    code = 0  # its first bit lowest, as it stands in the stream
    place = ordered
    for length in range(1, table_bits + 1):
        for _ in range(get_int32(scratch, counts + length)):
            entry = get_int32(scratch, place) << SYMBOL_SHIFT | length
            place += 1
            for index in range(code, 1 << table_bits, 1 << length):
                put_int32(scratch, decoder + index, entry)
            bit = 1 << (length - 1)
            while code & bit:
                code ^= bit
                bit >>= 1
            code |= bit
    return unused


@kernel
def _long_symbol(scratch, decoder, bits):
    """The symbol and the length of a code that the table does not have; symbol -1 if there is none."""
    code = first = 0
    place = decoder + SYMBOLS_AT
    for length in range(1, CODE_BITS_MAX + 1):
        code |= bits & 1
        bits >>= 1
        count = get_int32(scratch, decoder + COUNTS_AT + length)
        if code - count < first:
            return get_int32(scratch, place + code - first), length
        place += count
        first = (first + count) << 1
        code <<= 1
    return -1, CODE_BITS_MAX


@inlined
def _symbol(scratch, decoder, table_bits, bits):
    """The symbol that comes next and the length of its code."""
    entry = get_int32(scratch, decoder + (bits & ((1 << table_bits) - 1)))
    if entry > 0:
        return entry >> SYMBOL_SHIFT, entry & CODE_BITS_MASK
    return _long_symbol(scratch, decoder, bits)


@kernel
def _build_fixed(scratch):
    for symbol in range(LITERALS):
        length = 8
        if 144 <= symbol < END_OF_BLOCK:
            length = 9
        elif END_OF_BLOCK <= symbol < 280:
            length = 7
        put_int32(scratch, CODE_LENGTHS_AT + symbol, length)
    _build(scratch, CODE_LENGTHS_AT, LITERALS, FIXED_LITERALS_AT, LITERAL_BITS)
    for symbol in range(DISTANCES):
        put_int32(scratch, CODE_LENGTHS_AT + symbol, 5)
    _build(scratch, CODE_LENGTHS_AT, DISTANCES, FIXED_DISTANCES_AT, DISTANCE_BITS)
    put_int32(scratch, HAS_FIXED_AT, 1)


@kernel
def _read_decoders(data, at, end, bits, count, scratch):
    """Read the codes of a dynamic block: (bits, count, at), count < 0 if they are not complete."""
    bits, count, at = _refilled(data, at, end, bits, count)
    literals, distances, lengths = (bits & 31) + 257, (bits >> 5 & 31) + 1, (bits >> 10 & 15) + 4
    bits >>= 14
    count -= 14
    if literals > LITERALS_MAX or distances > DISTANCES_MAX:
        return bits, GIVEN_UP, at
    for index in range(LENGTHS):
        if count < 3:
            bits, count, at = _refilled(data, at, end, bits, count)
        length = 0
        if index < lengths:
            length = bits & 7
            bits >>= 3
            count -= 3
        put_int32(scratch, CODE_LENGTHS_AT + get_int32(pointer(LENGTHS_ORDER), index), length)
    if _build(scratch, CODE_LENGTHS_AT, LENGTHS, DISTANCES_AT, LENGTH_BITS) != 0:
        return bits, GIVEN_UP, at
    place = CODE_LENGTHS_AT
    stop = place + literals + distances
    while place < stop:
        if count < 2 * LENGTH_BITS:
            bits, count, at = _refilled(data, at, end, bits, count)
        symbol, used = _symbol(scratch, DISTANCES_AT, LENGTH_BITS, bits)
        bits >>= used
        count -= used
        if symbol < REPEATED:
            put_int32(scratch, place, symbol)
            place += 1
            continue
        length = 0
        if symbol == REPEATED:
            if place == CODE_LENGTHS_AT:
                return bits, GIVEN_UP, at
            length = get_int32(scratch, place - 1)
        more = 2 if symbol == REPEATED else 3 if symbol == ZEROS else 7
        times = (11 if symbol == MANY_ZEROS else 3) + (bits & ((1 << more) - 1))
        bits >>= more
        count -= more
        if times > stop - place:
            return bits, GIVEN_UP, at
        for _ in range(times):
            put_int32(scratch, place, length)
            place += 1
    if get_int32(scratch, CODE_LENGTHS_AT + END_OF_BLOCK) == 0:
        return bits, GIVEN_UP, at
    if _build(scratch, CODE_LENGTHS_AT, literals, LITERALS_AT, LITERAL_BITS) != 0:
        return bits, GIVEN_UP, at
    unused = _build(scratch, CODE_LENGTHS_AT + literals, distances, DISTANCES_AT, DISTANCE_BITS)
    # A block may have no distances, or one, whose code then has one bit.
    is_single = unused == 1 << (CODE_BITS_MAX - 1) and get_int32(scratch, DISTANCES_AT + COUNTS_AT + 1) == 1
    if unused != 0 and unused != 1 << CODE_BITS_MAX and not is_single:
        return bits, GIVEN_UP, at
    return bits, count, at


@kernel
def _inflate(data, at, end, data_end, out, to, out_end, scratch):
    """Decode the deflate stream data[at:end] to `to`; where its content ends."""
    start = to
    bits = count = 0
    is_last = 0
    while is_last == 0:
        bits, count, at = _refilled(data, at, end, bits, count)
        is_last = bits & 1
        kind = bits >> 1 & 3
        bits >>= 3
        count -= 3
        if kind == STORED:
            at -= count >> 3
            bits = count = 0
            if end - at < 4:
                return GIVEN_UP
            size = read_little_uint16(data, at)
            if size ^ 0xFFFF != read_little_uint16(data, at + 2):
                return GIVEN_UP
            at += 4
            if size > end - at or size > out_end - to:
                return GIVEN_UP
            copy_bytes(out, to, out_end, data, at, data_end, size)
            at += size
            to += size
            continue
        literals, distances = LITERALS_AT, DISTANCES_AT
        if kind == DYNAMIC:
            bits, count, at = _read_decoders(data, at, end, bits, count, scratch)
            if count < 0:
                return GIVEN_UP
        elif kind == FIXED:
            literals, distances = FIXED_LITERALS_AT, FIXED_DISTANCES_AT
            if get_int32(scratch, HAS_FIXED_AT) == 0:
                _build_fixed(scratch)
        else:
            return GIVEN_UP
        while True:
            if count < BITS_WANTED:
                bits, count, at = _refilled(data, at, end, bits, count)
                if at > end + 8:
                    return GIVEN_UP
            symbol, used = _symbol(scratch, literals, LITERAL_BITS, bits)
            bits >>= used
            count -= used
            if symbol < END_OF_BLOCK:
                if symbol < 0 or to == out_end:
                    return GIVEN_UP
                put_byte(out, to, symbol)
                to += 1
                continue
            if symbol == END_OF_BLOCK:
                break
            if symbol >= LITERALS_MAX:
                return GIVEN_UP
            symbol -= END_OF_BLOCK + 1
            more = get_int32(pointer(MATCH_MORE), symbol)
            size = get_int32(pointer(MATCH_BASE), symbol) + (bits & ((1 << more) - 1))
            bits >>= more
            symbol, used = _symbol(scratch, distances, DISTANCE_BITS, bits)
            if symbol < 0 or symbol >= DISTANCES_MAX:
                return GIVEN_UP
            bits >>= used
            count -= more + used
            more = get_int32(pointer(DISTANCE_MORE), symbol)
            distance = get_int32(pointer(DISTANCE_BASE), symbol) + (bits & ((1 << more) - 1))
            bits >>= more
            count -= more
            if distance > to - start or size > out_end - to:
                return GIVEN_UP
            copy_match(out, to, out_end, distance, size)
            to += size
    return to if at - (count >> 3) == end else GIVEN_UP


@kernel
def gzip(data, at, end, data_end, out, to, out_end, scratch):
    """Decode the one member data[at:end] to `to`; where its content ends, or GIVEN_UP.

    The arrays go on to their ends.
    """
    if end - at < HEADER_BYTES + TRAILER_BYTES or read_little_uint32(data, at) != MAGIC:
        return GIVEN_UP
    trailer = end - TRAILER_BYTES
    stop = _inflate(data, at + HEADER_BYTES, trailer, data_end, out, to, out_end, scratch)
    if stop < 0 or (stop - to) & 0xFFFFFFFF != read_little_uint32(data, trailer + 4):
        return GIVEN_UP
    # The fast checksum reads a block before the first byte.
    crc = crc32(out, to, stop) if to >= BLOCK else crc32_by_table(out, to, stop)
    return stop if crc == read_little_uint32(data, trailer) else GIVEN_UP
