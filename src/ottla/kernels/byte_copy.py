"""Copying of short byte strings inside kernels.

Keys and values are mostly shorter than a hundred bytes, where a call of memcpy or a loop with its
prologue costs more than the bytes. Whole blocks of 64 are copied instead, and what a block writes too
much is overwritten by the next value; only near the end of either array is it done byte by byte.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ottla.kernels import kernel
from ottla.kernels.kernel import inlined

BLOCK = 64

if kernel.JIT:
    from llvmlite import ir
    from numba import types
    from numba.core import cgutils
    from numba.extending import intrinsic

    @intrinsic  # type: ignore[untyped-decorator]
    def _copy_block(typing: Any, out: Any, at: Any, data: Any, start: Any) -> Any:  # noqa: ARG001
        """Copy a block; the caller has checked that both arrays hold them."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            block = ir.VectorType(ir.IntType(8), BLOCK).as_pointer()

            def address(array: int, position: int) -> Any:
                proxy = cgutils.create_struct_proxy(signature.args[array])(context, builder, arguments[array])
                return builder.bitcast(builder.gep(proxy.data, [arguments[position]]), block)

            load = builder.load(address(2, 3))
            load.align = 1
            builder.store(load, address(0, 1), align=1)
            return context.get_dummy_value()

        return types.none(out, types.int64, data, types.int64), generate

else:

    def _copy_block(out, at, data, start):  # type: ignore[no-untyped-def]
        out[at : at + BLOCK] = data[start : start + BLOCK]


@inlined
def copy_bytes(out, at, data, start, size):  # type: ignore[no-untyped-def]
    """out[at:at+size] = data[start:start+size]; the caller has checked both ranges.

    Bytes of `out` behind the range may change, as far as they are within it.
    """
    if start + size + BLOCK <= data.size and at + size + BLOCK <= out.size:
        done = 0
        while done < size:
            _copy_block(out, at + done, data, start + done)
            done += BLOCK
        return
    to = np.uint64(at)
    source = np.uint64(start)
    for i in range(np.uint64(size)):
        out[to + i] = data[source + i]
