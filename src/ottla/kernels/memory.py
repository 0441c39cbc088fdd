"""Access to arrays by address, for the insides of kernels.

Numba counts references of every array that is passed to a function, atomically, also where LLVM inlines
it; in a loop over records that costs more than the record. It also tests every signed index for Python's
counting from the end, and compiles a helper anew for every literal it is called with. So a kernel takes
addresses of its arrays at its start (`pointer`, `words_at`, …), and its parts work on those with the
functions below, each of which is one machine instruction or two:

    get_byte get_uint32 get_int32 get_int64     element `index` of an array of that kind, as int64
    put_byte put_int32 put_int64                the same, written, cut to the width
    read_int16 read_int32 read_uint32 read_int64, write_int16 write_int32 write_int64
                                                big-endian, at byte position `at`
    read_little_uint16 read_little_uint32 read_little_int64
                                                the same, little-endian
    copy_bytes                                  short strings of bytes
    copy_match                                  bytes of the same array, which may overlap
    copy_short copy_block                       exactly SHORT or BLOCK bytes, all of which are read first
    prefetch                                    a hint

Run as plain Python, an "address" is the array itself, so that NumPy checks bounds. Compiled, the
caller has to check the range and to hold the array.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from ottla.kernels import kernel
from ottla.kernels.kernel import inlined

SHORT, BLOCK = 16, 64

if kernel.JIT:
    from llvmlite import ir
    from numba import types
    from numba.core import cgutils
    from numba.extending import intrinsic

    _WORD = ir.IntType(64)
    _INT64 = types.int64

    def _element(builder: Any, base: Any, index: Any, kind: Any) -> Any:
        return builder.gep(builder.inttoptr(base, kind.as_pointer()), [index])

    def _getter(bits: int, *, signed: bool, byte_order: str = "") -> Any:
        """Without a byte order, `index` counts elements; with one, bytes."""
        kind = ir.IntType(bits)

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
            base, index = arguments
            if byte_order:
                base, index = builder.add(base, index), ir.Constant(_WORD, 0)
            value = builder.load(_element(builder, base, index, kind), align=1)
            value = builder.bswap(value) if byte_order == "big" else value
            if bits == 64:
                return value
            return builder.sext(value, _WORD) if signed else builder.zext(value, _WORD)

        @intrinsic
        def get(typing: Any, base: Any, index: Any) -> Any:  # noqa: ARG001 - Numba gives their types
            return _INT64(_INT64, _INT64), generate

        return get

    def _putter(bits: int, *, big_endian: bool = False) -> Any:
        kind = ir.IntType(bits)

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
            base, index, value = arguments
            if big_endian:
                base, index = builder.add(base, index), ir.Constant(_WORD, 0)
            value = value if bits == 64 else builder.trunc(value, kind)
            value = builder.bswap(value) if big_endian else value
            builder.store(value, _element(builder, base, index, kind), align=1)
            return context.get_dummy_value()

        @intrinsic
        def put(typing: Any, base: Any, index: Any, value: Any) -> Any:  # noqa: ARG001
            return types.none(_INT64, _INT64, _INT64), generate

        return put

    def _part(typing: Any, array: Any, position: Any) -> Any:  # noqa: ARG001
        """The address of the byte at a position of a byte array."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            proxy = cgutils.create_struct_proxy(signature.args[0])(context, builder, arguments[0])
            return builder.add(builder.ptrtoint(proxy.data, _WORD), arguments[1])

        return _INT64(array, _INT64), generate

    @intrinsic
    def pointer(typing: Any, array: Any) -> Any:  # noqa: ARG001
        """The address of an array's first element."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            proxy = cgutils.create_struct_proxy(signature.args[0])(context, builder, arguments[0])
            return builder.ptrtoint(proxy.data, _WORD)

        return _INT64(array), generate

    @intrinsic
    def row_of(typing: Any, table: Any, index: Any, columns: Any) -> Any:  # noqa: ARG001
        """The address of a row of a table of 64-bit numbers."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
            cells = builder.mul(arguments[1], arguments[2])
            return builder.add(arguments[0], builder.mul(cells, ir.Constant(_WORD, 8)))

        return _INT64(_INT64, _INT64, _INT64), generate

    @intrinsic
    def prefetch(typing: Any, base: Any, index: Any) -> Any:  # noqa: ARG001
        """Bring a cache line near before it is needed; any address will do, it is never faulted on."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
            byte, flag = ir.IntType(8).as_pointer(), ir.IntType(32)
            kind = ir.FunctionType(ir.VoidType(), [byte, flag, flag, flag])
            function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
            to_read, keep_in_all_caches, data = (ir.Constant(flag, number) for number in (0, 3, 1))
            address = builder.inttoptr(builder.add(*arguments), byte)
            builder.call(function, [address, to_read, keep_in_all_caches, data])
            return context.get_dummy_value()

        return types.none(_INT64, _INT64), generate

    def _copier(width: int) -> Any:
        block = ir.VectorType(ir.IntType(8), width).as_pointer()

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
            target, source = (builder.add(*arguments[i : i + 2]) for i in (0, 2))
            value = builder.load(builder.inttoptr(source, block), align=1)
            builder.store(value, builder.inttoptr(target, block), align=1)
            return context.get_dummy_value()

        @intrinsic
        def copy(typing: Any, out: Any, at: Any, data: Any, start: Any) -> Any:  # noqa: ARG001
            return types.none(_INT64, _INT64, _INT64, _INT64), generate

        return copy

    copy_short, copy_block = _copier(SHORT), _copier(BLOCK)

    # What lies at an address makes no difference to it; plain Python needs to know.
    bytes_at, chars_at, halves_at, words_at = (intrinsic(_part) for _ in range(4))

    get_byte = _getter(8, signed=False)
    get_uint32 = _getter(32, signed=False)
    get_int32 = _getter(32, signed=True)
    get_int64 = _getter(64, signed=True)
    put_byte, put_int32, put_int64 = _putter(8), _putter(32), _putter(64)

    read_int16 = _getter(16, signed=True, byte_order="big")
    read_int32 = _getter(32, signed=True, byte_order="big")
    read_uint32 = _getter(32, signed=False, byte_order="big")
    read_int64 = _getter(64, signed=True, byte_order="big")
    read_little_uint16 = _getter(16, signed=False, byte_order="little")
    read_little_uint32 = _getter(32, signed=False, byte_order="little")
    read_little_int64 = _getter(64, signed=True, byte_order="little")
    write_int16, write_int32, write_int64 = (_putter(bits, big_endian=True) for bits in (16, 32, 64))

else:

    def pointer(array: Any) -> Any:
        """An array stands for its own address."""
        return array

    def row_of(table: Any, index: int, columns: int) -> Any:  # noqa: ARG001
        return table[index]

    def _part_as(kind: str) -> Any:
        size = np.dtype(kind).itemsize

        def part(array: Any, position: int) -> Any:
            whole = (array.size - position) // size * size
            return array[position : position + whole].view(kind)

        return part

    bytes_at, chars_at, halves_at, words_at = map(_part_as, ("u1", "i1", "i4", "i8"))

    def get_byte(base: Any, index: int) -> int:
        return int(base[index])

    def put_byte(base: Any, index: int, value: int) -> None:
        base[index] = value & 0xFF if base.dtype.kind == "u" else value

    def put_int64(base: Any, index: int, value: int) -> None:
        base[index] = value

    get_uint32 = get_int32 = get_int64 = get_byte
    put_int32 = put_int64

    def _reader(size: int, *, signed: bool, byte_order: Literal["big", "little"] = "big") -> Any:
        def read(data: Any, at: int) -> int:
            if not 0 <= at <= data.size - size:
                raise IndexError(f"{size} bytes at {at} of {data.size}")
            return int.from_bytes(data[at : at + size].tobytes(), byte_order, signed=signed)

        return read

    def _writer(size: int) -> Any:
        def write(out: Any, at: int, value: int) -> None:
            if not 0 <= at <= out.size - size:
                raise IndexError(f"{size} bytes at {at} of {out.size}")
            cut = int(value) & ((1 << 8 * size) - 1)
            out[at : at + size] = np.frombuffer(cut.to_bytes(size, "big"), np.uint8)

        return write

    read_int16, read_int32, read_int64 = (_reader(size, signed=True) for size in (2, 4, 8))
    read_uint32 = _reader(4, signed=False)
    read_little_uint16 = _reader(2, signed=False, byte_order="little")
    read_little_uint32 = _reader(4, signed=False, byte_order="little")
    read_little_int64 = _reader(8, signed=True, byte_order="little")
    write_int16, write_int32, write_int64 = map(_writer, (2, 4, 8))

    def prefetch(base: Any, index: int) -> None:
        """Nothing that plain Python could do."""

    def _copier(width: int) -> Any:
        def copy(out: Any, at: int, data: Any, start: int) -> None:
            out[at : at + width] = data[start : start + width]

        return copy

    copy_short, copy_block = _copier(SHORT), _copier(BLOCK)


@kernel.kernel
def _copy_exactly(out, at, data, start, size):
    """Write no byte too much. Rarely needed, and not inlined: LLVM would unroll it at every place."""
    done = 0
    while done + BLOCK <= size:
        copy_block(out, at + done, data, start + done)
        done += BLOCK
    for i in range(done, size):
        put_byte(out, at + i, get_byte(data, start + i))


@inlined
def copy_bytes(out, at, out_end, data, start, data_end, size):
    """out[at:at+size] = data[start:start+size], knowing that the arrays continue to out_end and data_end.

    Keys and values are mostly shorter than two hundred bytes, where a call of memcpy or a loop with its
    prologue costs more than the bytes. Whole blocks are copied instead, and what a block writes too much
    is overwritten by the next value; near the end of either array the last ones go byte by byte.
    """
    if start + size + BLOCK <= data_end and at + size + BLOCK <= out_end:
        if size <= SHORT:  # keys, mostly
            copy_short(out, at, data, start)
            return
        done = 0
        while done < size:
            copy_block(out, at + done, data, start + done)
            done += BLOCK
    else:
        _copy_exactly(out, at, data, start, size)


@kernel.kernel
def _copy_match_exactly(out, at, distance, size):
    for i in range(at, at + size):
        put_byte(out, i, get_byte(out, i - distance))


@inlined
def copy_match(out, at, out_end, distance, size):
    """out[at:at+size] = the bytes from `distance` before `at` on, one by one, so that they may overlap.

    What is copied from less than a block away repeats: with every step the same bytes are found twice as far
    away. As `copy_bytes`, it writes blocks, and only near `out_end` no byte too much.
    """
    end = at + size
    if end + BLOCK > out_end:
        _copy_match_exactly(out, at, distance, size)
        return
    while distance < SHORT and at < end:
        copy_short(out, at, out, at - distance)
        at += distance
        distance += distance
    while at < end:
        copy_short(out, at, out, at - distance)
        at += SHORT
