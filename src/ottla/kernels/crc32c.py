"""CRC-32C inside a kernel, by the CPU's instruction, where there is one.

The instruction takes eight bytes a cycle but answers only after three, so three streams run side by
side and are joined: the CRC of one stream is moved over the length of the next by table.

Without the instruction, or when Numba is set to compile for another CPU (LLVM would then abort the
process on the intrinsic), `IN_KERNEL` is false, and callers use the `crc32c` library batch by batch.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ottla.kernels.crc_tables import CRC32C_BYTES, CRC32C_SHIFT, CRC32C_STRIDE
from ottla.kernels.kernel import has_feature, inlined
from ottla.kernels.memory import get_byte, get_int64, get_uint32, pointer, prefetch

CACHE_LINE = 64
# This is the first look at bytes that come from memory. Measured from 768 to 6144: the farther, the better.
PREFETCH_DISTANCE = 4096


IN_KERNEL = has_feature("sse4.2")

if IN_KERNEL:
    from llvmlite import ir
    from numba import types
    from numba.core import cgutils
    from numba.extending import intrinsic

    @intrinsic
    def _instruction(typing: Any, crc: Any, word: Any) -> Any:  # noqa: ARG001 - Numba calls it by position
        """The CRC after eight more bytes."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
            kind = ir.FunctionType(ir.IntType(64), [ir.IntType(64), ir.IntType(64)])
            function = cgutils.get_or_insert_function(builder.module, kind, "llvm.x86.sse42.crc32.64.64")
            return builder.call(function, arguments)

        return types.int64(types.int64, types.int64), generate

    @inlined
    def _shift(crc):
        """The CRC after CRC32C_STRIDE more zero bytes."""
        table = pointer(CRC32C_SHIFT)
        return (
            get_uint32(table, crc & 0xFF)
            ^ get_uint32(table, 256 + ((crc >> 8) & 0xFF))
            ^ get_uint32(table, 512 + ((crc >> 16) & 0xFF))
            ^ get_uint32(table, 768 + (crc >> 24))
        )

    @inlined
    def crc32c(data, start, end):
        """CRC-32C of data[start:end], `data` being an address; the caller has checked the range."""
        table = pointer(CRC32C_BYTES)
        crc = np.int64(0xFFFFFFFF)
        while start + 3 * CRC32C_STRIDE <= end:
            second = np.int64(0)
            third = np.int64(0)
            for line in range(0, 3 * CRC32C_STRIDE, CACHE_LINE):
                prefetch(data, start + PREFETCH_DISTANCE + line)
            for at in range(start, start + CRC32C_STRIDE, 8):
                crc = _instruction(crc, get_int64(data + at, 0))
                second = _instruction(second, get_int64(data + at + CRC32C_STRIDE, 0))
                third = _instruction(third, get_int64(data + at + 2 * CRC32C_STRIDE, 0))
            crc = _shift(_shift(crc) ^ second) ^ third
            start += 3 * CRC32C_STRIDE
        while start + 8 <= end:
            crc = _instruction(crc, get_int64(data + start, 0))
            start += 8
        while start < end:
            crc = get_uint32(table, (crc ^ get_byte(data, start)) & 0xFF) ^ (crc >> 8)
            start += 1
        return crc ^ 0xFFFFFFFF

else:

    @inlined
    def crc32c(data, start, end):  # noqa: ARG001
        """Never called: the caller asks the library."""
        return -1
