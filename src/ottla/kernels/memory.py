"""Access to arrays by address, for the insides of kernels.

Numba counts references of every array that is passed to a function, atomically, also where LLVM inlines
it; in a loop over records that costs more than the record. And it tests every signed index for Python's
counting from the end. So a kernel takes addresses of its arrays at its start, `pointer(array)`, and its
parts work on those. Run as plain Python, a "pointer" is the array itself, so that NumPy checks bounds.

Whoever calls these has checked the range, and holds the array.
"""

from __future__ import annotations

from typing import Any

from ottla.kernels import kernel
from ottla.kernels.kernel import inlined

BLOCK = 64

if kernel.JIT:
    from llvmlite import ir
    from numba import types
    from numba.core import cgutils
    from numba.extending import intrinsic

    _BYTE, _HALF, _WORD = ir.IntType(8), ir.IntType(32), ir.IntType(64)

    def _address(builder: Any, base: Any, index: Any, kind: Any) -> Any:
        return builder.gep(builder.inttoptr(base, kind.as_pointer()), [index])

    def _loader(kind: Any, *, signed: bool) -> Any:
        """Code for: the element at base[index], as a 64-bit number."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
            value = builder.load(_address(builder, arguments[0], arguments[1], kind), align=1)
            if kind == _WORD:
                return value
            return builder.sext(value, _WORD) if signed else builder.zext(value, _WORD)

        return generate

    def _storer(kind: Any) -> Any:
        """Code for: base[index] = value, cut to the width."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
            value = arguments[2] if kind == _WORD else builder.trunc(arguments[2], kind)
            builder.store(value, _address(builder, arguments[0], arguments[1], kind), align=1)
            return context.get_dummy_value()

        return generate

    _LOAD = types.int64(types.int64, types.int64)
    _STORE = types.none(types.int64, types.int64, types.int64)

    # Numba calls these with its typing context and the argument types, which the signatures settle.
    # ruff: noqa: ARG001

    @intrinsic  # type: ignore[untyped-decorator]
    def pointer(typing: Any, array: Any) -> Any:
        """The address of an array's first element."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            proxy = cgutils.create_struct_proxy(signature.args[0])(context, builder, arguments[0])
            return builder.ptrtoint(proxy.data, _WORD)

        return types.int64(array), generate

    @intrinsic  # type: ignore[untyped-decorator]
    def get_byte(typing: Any, base: Any, index: Any) -> Any:
        return _LOAD, _loader(_BYTE, signed=False)

    @intrinsic  # type: ignore[untyped-decorator]
    def get_half(typing: Any, base: Any, index: Any) -> Any:
        return _LOAD, _loader(_HALF, signed=True)

    @intrinsic  # type: ignore[untyped-decorator]
    def get_word(typing: Any, base: Any, index: Any) -> Any:
        return _LOAD, _loader(_WORD, signed=True)

    @intrinsic  # type: ignore[untyped-decorator]
    def put_byte(typing: Any, base: Any, index: Any, value: Any) -> Any:
        return _STORE, _storer(_BYTE)

    @intrinsic  # type: ignore[untyped-decorator]
    def put_half(typing: Any, base: Any, index: Any, value: Any) -> Any:
        return _STORE, _storer(_HALF)

    @intrinsic  # type: ignore[untyped-decorator]
    def put_word(typing: Any, base: Any, index: Any, value: Any) -> Any:
        return _STORE, _storer(_WORD)

    @intrinsic  # type: ignore[untyped-decorator]
    def _copy_block(typing: Any, out: Any, at: Any, data: Any, start: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            block = ir.VectorType(_BYTE, BLOCK).as_pointer()
            source = builder.bitcast(_address(builder, arguments[2], arguments[3], _BYTE), block)
            target = builder.bitcast(_address(builder, arguments[0], arguments[1], _BYTE), block)
            builder.store(builder.load(source, align=1), target, align=1)
            return context.get_dummy_value()

        return types.none(types.int64, types.int64, types.int64, types.int64), generate

    @intrinsic  # type: ignore[untyped-decorator]
    def row_of(typing: Any, table: Any, index: Any, columns: Any) -> Any:
        """The address of a row of a table of 64-bit numbers."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            cells = builder.mul(arguments[1], arguments[2])
            return builder.add(arguments[0], builder.mul(cells, ir.Constant(_WORD, 8)))

        return types.int64(types.int64, types.int64, types.int64), generate

else:

    def pointer(array: Any) -> Any:
        """An array stands for its own address."""
        return array

    def get_byte(base: Any, index: int) -> int:
        return int(base[index])

    def put_byte(base: Any, index: int, value: int) -> None:
        base[index] = value & 0xFF if base.dtype.kind == "u" else value

    def get_word(base: Any, index: int) -> int:
        return int(base[index])

    def put_word(base: Any, index: int, value: int) -> None:
        base[index] = value

    get_half, put_half = get_word, put_word

    def _copy_block(out: Any, at: int, data: Any, start: int) -> None:
        out[at : at + BLOCK] = data[start : start + BLOCK]

    def row_of(table: Any, index: int, columns: int) -> Any:  # noqa: ARG001
        return table[index]


@inlined
def copy_bytes(out, at, out_end, data, start, data_end, size):  # type: ignore[no-untyped-def]
    """out[at:at+size] = data[start:start+size], knowing that the arrays go on to out_end and data_end.

    Keys and values are mostly shorter than two hundred bytes, where a call of memcpy or a loop with its
    prologue costs more than the bytes. Whole blocks are copied instead, and what a block writes too much
    is overwritten by the next value; only near the end of either array is it done byte by byte.
    """
    if start + size + BLOCK <= data_end and at + size + BLOCK <= out_end:
        done = 0
        while done < size:
            _copy_block(out, at + done, data, start + done)
            done += BLOCK
    else:
        for i in range(size):
            put_byte(out, at + i, get_byte(data, start + i))
