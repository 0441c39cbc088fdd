"""CRC-32 (zlib's) of message formats 0 and 1, by carry-less multiplication where the CPU has it.

A remainder of 16 bytes stands for all that was read: multiplied by two powers of x it is moved over the next
16 bytes, to which it is added. Zeros before a message do not change its remainder, so the first 16 bytes are
what is left over by the others, with zeros in front. In the end the remainder is reduced to 4 bytes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ottla.kernels.crc_tables import CRC32_SLICES
from ottla.kernels.kernel import has_feature, inlined
from ottla.kernels.memory import get_byte, get_uint32, pointer

BLOCK = 16
# Where the table of each distance to the end of the eight bytes begins.
SLICE = 256
# Powers of x modulo the polynomial, bits reflected and moved up by one: 128 + 32, 128 - 32, and 64.
FOLD_LOW, FOLD_HIGH, FOLD_LAST = 0x1751997D0, 0x0CCAA009E, 0x163CD6124
# The polynomial, and x to the power of 64 divided by it, both reflected (Barrett's reduction).
POLYNOMIAL, QUOTIENT = 0x1DB710641, 0x1F7011641
# From byte n: the mask of a first block with n bytes of the message. From INVERTED_AT + n: ones where the
# first four bytes of the message are, since a CRC begins with ones; they may reach into the second block.
MASKS = np.repeat(np.array([0, 0xFF, 0, 0xFF, 0], np.uint8), [BLOCK, BLOCK, BLOCK, 4, 28])
INVERTED_AT = 2 * BLOCK


@inlined
def _stepped(table, word):
    """The CRC after eight bytes, to whose first half the CRC before them was added."""
    return (
        get_uint32(table, 7 * SLICE + (word & 0xFF))
        ^ get_uint32(table, 6 * SLICE + ((word >> 8) & 0xFF))
        ^ get_uint32(table, 5 * SLICE + ((word >> 16) & 0xFF))
        ^ get_uint32(table, 4 * SLICE + ((word >> 24) & 0xFF))
        ^ get_uint32(table, 3 * SLICE + ((word >> 32) & 0xFF))
        ^ get_uint32(table, 2 * SLICE + ((word >> 40) & 0xFF))
        ^ get_uint32(table, SLICE + ((word >> 48) & 0xFF))
        ^ get_uint32(table, (word >> 56) & 0xFF)
    )


@inlined
def _word(data, at):
    """Eight bytes, the first one lowest; LLVM makes one load of it."""
    return (
        get_byte(data, at)
        | get_byte(data, at + 1) << 8
        | get_byte(data, at + 2) << 16
        | get_byte(data, at + 3) << 24
        | get_byte(data, at + 4) << 32
        | get_byte(data, at + 5) << 40
        | get_byte(data, at + 6) << 48
        | get_byte(data, at + 7) << 56
    )


@inlined
def crc32_by_table(data, start, end):
    """CRC-32 of data[start:end], `data` being an address."""
    table = pointer(CRC32_SLICES)
    crc = 0xFFFFFFFF
    while start + 8 <= end:
        crc = _stepped(table, crc ^ _word(data, start))
        start += 8
    while start < end:
        crc = get_uint32(table, (crc ^ get_byte(data, start)) & 0xFF) ^ (crc >> 8)
        start += 1
    return crc ^ 0xFFFFFFFF


if has_feature("pclmul"):
    from llvmlite import ir
    from numba import types
    from numba.core import cgutils
    from numba.extending import intrinsic

    _BYTE, _HALF, _WORD = ir.IntType(8), ir.IntType(32), ir.IntType(64)
    _PAIR, _HALVES = ir.VectorType(_WORD, 2), ir.VectorType(_HALF, 4)

    def _pair(low: int, high: int) -> Any:
        return ir.Constant(_PAIR, [ir.Constant(_WORD, low), ir.Constant(_WORD, high)])

    def _shuffled(builder: Any, vector: Any, picks: list[int]) -> Any:
        """These elements of a vector that is followed by zeros."""
        mask = ir.Constant(ir.VectorType(_HALF, len(picks)), [ir.Constant(_HALF, pick) for pick in picks])
        return builder.shuffle_vector(vector, ir.Constant(vector.type, None), mask)

    class _Remainder:
        """Writes the steps for one message."""

        def __init__(self, builder: Any) -> None:
            self._builder = builder
            kind = ir.FunctionType(_PAIR, [_PAIR, _PAIR, _BYTE])
            self._multiply = cgutils.get_or_insert_function(builder.module, kind, "llvm.x86.pclmulqdq")

        def load(self, base: Any, at: Any) -> Any:
            builder = self._builder
            return builder.load(builder.inttoptr(builder.add(base, at), _PAIR.as_pointer()), align=1)

        def product(self, left: Any, right: Any, words: int) -> Any:
            """Of the low words; 0x11: of the high ones; 0x10: of the low one and `right`'s high one."""
            return self._builder.call(self._multiply, [left, right, ir.Constant(_BYTE, words)])

        def folded(self, old: Any, block: Any) -> Any:
            powers = _pair(FOLD_LOW, FOLD_HIGH)
            low, high = (self.product(old, powers, words) for words in (0x00, 0x11))
            return self._builder.xor(self._builder.xor(low, high), block)

        def reduced(self, old: Any) -> Any:
            """The remainder of 16 bytes as a CRC."""
            builder, low_halves = self._builder, _pair(0xFFFFFFFF, 0xFFFFFFFF)
            by_12 = builder.xor(
                _shuffled(builder, old, [1, 2]), self.product(old, _pair(FOLD_LOW, FOLD_HIGH), 0x10)
            )
            rest = builder.bitcast(_shuffled(builder, builder.bitcast(by_12, _HALVES), [1, 2, 3, 4]), _PAIR)
            by_8 = builder.xor(rest, self.product(builder.and_(by_12, low_halves), _pair(FOLD_LAST, 0), 0x00))
            divisor = _pair(POLYNOMIAL, QUOTIENT)
            times = self.product(builder.and_(by_8, low_halves), divisor, 0x10)
            last = builder.xor(by_8, self.product(builder.and_(times, low_halves), divisor, 0x00))
            crc = builder.extract_element(builder.bitcast(last, _HALVES), ir.Constant(_HALF, 1))
            return builder.zext(crc, _WORD)

    @intrinsic
    def _by_blocks(typing: Any, address: Any, size: Any, masks: Any) -> Any:  # noqa: ARG001 - Numba's order
        """The CRC, not yet inverted, of `size` bytes, BLOCK or more, with BLOCK bytes before them."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
            address, size, masks = arguments
            steps = _Remainder(builder)
            first_size = builder.and_(size, ir.Constant(_WORD, BLOCK - 1))

            def plus(number: int) -> Any:
                return builder.add(first_size, ir.Constant(_WORD, number))

            own = builder.and_(steps.load(address, plus(-BLOCK)), steps.load(masks, first_size))
            first = builder.xor(own, steps.load(masks, plus(INVERTED_AT)))
            body = builder.add(address, first_size)
            block = steps.load(body, ir.Constant(_WORD, 0))
            second = builder.xor(block, steps.load(masks, plus(INVERTED_AT + BLOCK)))
            remainder = cgutils.alloca_once_value(builder, steps.folded(first, second))
            more = builder.sub(builder.lshr(size, ir.Constant(_WORD, 4)), ir.Constant(_WORD, 1))
            with cgutils.for_range(builder, more) as loop:
                at = builder.mul(builder.add(loop.index, ir.Constant(_WORD, 1)), ir.Constant(_WORD, BLOCK))
                builder.store(steps.folded(builder.load(remainder), steps.load(body, at)), remainder)
            return steps.reduced(builder.load(remainder))

        return types.int64(types.int64, types.int64, types.int64), generate

    @inlined
    def crc32(data, start, end):
        """CRC-32 of data[start:end], `data` being an address; there are BLOCK bytes before `start`."""
        if end - start < BLOCK:
            return crc32_by_table(data, start, end)
        return _by_blocks(data + start, end - start, pointer(MASKS)) ^ 0xFFFFFFFF

else:
    crc32 = crc32_by_table
