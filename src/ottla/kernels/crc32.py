"""CRC-32 (zlib's) of message formats 0 and 1, by carry-less multiplication where the CPU has it.

A remainder of 16 bytes stands for all that was read: multiplied by two powers of x it is moved over the next
16 bytes, to which it is added. What is left in the end are 16 bytes with the same CRC, for the tables, which
take eight bytes a step.
"""

from __future__ import annotations

from typing import Any

from ottla.kernels.crc_tables import CRC32_SLICES
from ottla.kernels.kernel import has_feature, inlined
from ottla.kernels.memory import get_byte, get_uint32, pointer

# Where the table of each distance to the end of the eight bytes begins.
SLICE = 256
# x to the powers 128 + 32 and 128 - 32, modulo the polynomial, bits reflected and moved up by one.
FOLD_LOW, FOLD_HIGH = 0x1751997D0, 0x0CCAA009E
WORTH_FOLDING = 48


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


if has_feature("pclmul"):
    from llvmlite import ir
    from numba import types
    from numba.core import cgutils
    from numba.extending import intrinsic

    @intrinsic
    def _folded(typing: Any, address: Any, blocks: Any) -> Any:  # noqa: ARG001 - Numba calls it by position
        """The remainder of `blocks` times 16 bytes, at least once, as two words; a CRC begins with ones."""
        word = ir.IntType(64)
        pair = ir.VectorType(word, 2)

        def constant(low: int, high: int) -> Any:
            return ir.Constant(pair, [ir.Constant(word, low), ir.Constant(word, high)])

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            address, blocks = arguments
            data = builder.inttoptr(address, pair.as_pointer())
            kind = ir.FunctionType(pair, [pair, pair, ir.IntType(8)])
            multiply = cgutils.get_or_insert_function(builder.module, kind, "llvm.x86.pclmulqdq")
            powers = constant(FOLD_LOW, FOLD_HIGH)
            first = builder.xor(builder.load(data, align=1), constant(0xFFFFFFFF, 0))
            remainder = cgutils.alloca_once_value(builder, first)
            more = builder.sub(blocks, ir.Constant(word, 1))
            with cgutils.for_range(builder, more) as loop:
                old = builder.load(remainder)
                at = builder.add(loop.index, ir.Constant(word, 1))
                block = builder.load(builder.gep(data, [at]), align=1)
                low = builder.call(multiply, [old, powers, ir.Constant(ir.IntType(8), 0x00)])
                high = builder.call(multiply, [old, powers, ir.Constant(ir.IntType(8), 0x11)])
                builder.store(builder.xor(builder.xor(low, high), block), remainder)
            left = builder.load(remainder)
            words = [builder.extract_element(left, ir.Constant(ir.IntType(32), at)) for at in range(2)]
            return context.make_tuple(builder, signature.return_type, words)

        return types.UniTuple(types.int64, 2)(types.int64, types.int64), generate

    @inlined
    def _begun(table, data, start, end):
        """The CRC of as much as can be folded, and where that ends."""
        if end - start < WORTH_FOLDING:
            return 0xFFFFFFFF, start
        blocks = (end - start) >> 4
        low, high = _folded(data + start, blocks)
        return _stepped(table, _stepped(table, low) ^ high), start + (blocks << 4)

else:

    @inlined
    def _begun(table, data, start, end):  # noqa: ARG001
        """Nothing can be folded."""
        return 0xFFFFFFFF, start


@inlined
def crc32(data, start, end):
    """CRC-32 of data[start:end], `data` being an address; the caller has checked the range."""
    table = pointer(CRC32_SLICES)
    crc, start = _begun(table, data, start, end)
    while start + 8 <= end:
        crc = _stepped(table, crc ^ _word(data, start))
        start += 8
    while start < end:
        crc = get_uint32(table, (crc ^ get_byte(data, start)) & 0xFF) ^ (crc >> 8)
        start += 1
    return crc ^ 0xFFFFFFFF
