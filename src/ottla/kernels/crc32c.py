"""CRC-32C inside a kernel, by the CPU's instruction, where there is one.

The instruction takes eight bytes a cycle but answers only after three, so three streams run side by
side and are joined: the CRC of one stream is moved over the length of the next by table.

Without the instruction, or when the user told Numba to compile for another CPU (LLVM would then abort the
process on the intrinsic), `IN_KERNEL` is false, and callers use the `crc32c` library batch by batch.
"""

from __future__ import annotations

import os
import platform
from typing import Any

from ottla.kernels import kernel
from ottla.kernels.crc_tables import CRC32C_BYTES, CRC32C_SHIFT, CRC32C_STRIDE
from ottla.kernels.integers import byte_at
from ottla.kernels.kernel import inlined


def has_instruction() -> bool:
    """Whether kernels may use x86's crc32 instruction in this process."""
    if not kernel.JIT or platform.machine().lower() not in {"x86_64", "amd64"}:
        return False
    if os.environ.get("NUMBA_CPU_NAME") or os.environ.get("NUMBA_CPU_FEATURES"):
        return False
    from llvmlite import binding

    return bool(binding.get_host_cpu_features().get("sse4.2", False))


IN_KERNEL = has_instruction()

if IN_KERNEL:
    from llvmlite import ir
    from numba import types
    from numba.core import cgutils
    from numba.extending import intrinsic

    @intrinsic  # type: ignore[untyped-decorator]
    def _step(typing: Any, crc: Any, data: Any, at: Any) -> Any:  # noqa: ARG001 - Numba calls it by position
        """CRC of the 8 bytes at data[at], which the caller has checked to be there."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            crc_value, array_value, at_value = arguments
            array = cgutils.create_struct_proxy(signature.args[1])(context, builder, array_value)
            word = ir.IntType(64)
            address = builder.bitcast(builder.gep(array.data, [at_value]), word.as_pointer())
            load = builder.load(address)
            load.align = 1
            function = cgutils.get_or_insert_function(
                builder.module, ir.FunctionType(word, [word, word]), "llvm.x86.sse42.crc32.64.64"
            )
            return builder.call(function, [crc_value, load])

        return types.uint64(types.uint64, data, types.int64), generate

    @inlined
    def _shift(crc):  # type: ignore[no-untyped-def]
        """The CRC after CRC32C_STRIDE more zero bytes."""
        word = int(crc) & 0xFFFFFFFF
        return types.uint64(
            CRC32C_SHIFT[0, word & 0xFF]
            ^ CRC32C_SHIFT[1, (word >> 8) & 0xFF]
            ^ CRC32C_SHIFT[2, (word >> 16) & 0xFF]
            ^ CRC32C_SHIFT[3, word >> 24]
        )

    @inlined
    def crc32c(data, start, end):  # type: ignore[no-untyped-def]
        """CRC-32C of data[start:end], which the caller has checked to be inside data."""
        crc = types.uint64(0xFFFFFFFF)
        while start + 3 * CRC32C_STRIDE <= end:
            second = types.uint64(0)
            third = types.uint64(0)
            for at in range(start, start + CRC32C_STRIDE, 8):
                crc = _step(crc, data, at)
                second = _step(second, data, at + CRC32C_STRIDE)
                third = _step(third, data, at + 2 * CRC32C_STRIDE)
            crc = _shift(_shift(crc) ^ second) ^ third
            start += 3 * CRC32C_STRIDE
        while start + 8 <= end:
            crc = _step(crc, data, start)
            start += 8
        tail = int(crc) & 0xFFFFFFFF
        while start < end:
            tail = (int(CRC32C_BYTES[(tail ^ byte_at(data, start)) & 0xFF]) & 0xFFFFFFFF) ^ (tail >> 8)
            start += 1
        return tail ^ 0xFFFFFFFF

else:

    @inlined
    def crc32c(data, start, end):  # type: ignore[no-untyped-def]  # noqa: ARG001
        """Never called: the caller asks the library."""
        return -1
