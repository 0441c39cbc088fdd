"""Checksums inside kernels against zlib and the crc32c library: all lengths around each way of stepping."""

from __future__ import annotations

import random
import zlib

import crc32c as library
import numpy as np
import pytest

from ottla.kernels import kernel
from ottla.kernels.crc32 import BLOCK, crc32
from ottla.kernels.crc32c import IN_KERNEL, crc32c
from ottla.kernels.crc_tables import CRC32C_STRIDE
from ottla.kernels.kernel import has_feature

DATA = random.Random(0).randbytes(4096)
ARRAY = np.frombuffer(DATA, np.uint8)
STEP = 1 if kernel.JIT else 37
needs_instruction = pytest.mark.skipif(not IN_KERNEL, reason="CRC-32C is left to the library here")


def address(array: np.ndarray) -> object:
    return array.ctypes.data if kernel.JIT else array


def test_crc32_is_zlibs_for_every_length_and_alignment() -> None:
    for length in (*range(0, 200, STEP), 1023, 1024, 4064):
        for start in range(BLOCK, BLOCK + 9, STEP):
            assert int(crc32(address(ARRAY), start, start + length)) == zlib.crc32(
                DATA[start : start + length]
            )


@needs_instruction
def test_crc32c_is_the_librarys_for_every_length_and_alignment() -> None:
    for length in [
        *range(130),
        *range(3 * CRC32C_STRIDE - 9, 3 * CRC32C_STRIDE + 20),
        *range(1100, 1180),
        4000,
    ]:
        for start in range(9):
            wanted = library.crc32c(DATA[start : start + length])
            assert int(crc32c(address(ARRAY), start, start + length)) == wanted


@needs_instruction
def test_crc32c_of_the_usual_check_string() -> None:
    check = np.frombuffer(b"123456789", np.uint8)
    assert int(crc32c(check.ctypes.data, 0, 9)) == 0xE3069283


def test_without_compiled_kernels_there_is_no_instruction() -> None:
    assert has_feature("sse4.2") is IN_KERNEL
    if not kernel.JIT:
        assert not IN_KERNEL


@pytest.mark.parametrize("name", ["NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES"])
def test_the_instruction_is_not_used_when_numba_compiles_for_another_cpu(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, "generic")
    assert not has_feature("sse4.2")
