"""Varints inside kernels, at addresses: the spec's vectors, all widths, every way to fail."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.kernels import kernel
from ottla.kernels.varint import read_varint, varint_size, write_varint
from tests.naive.record_set import varint
from tests.naive.spec_examples import VARINTS

# 63 bits of zig-zag.
SMALLEST, LARGEST = -(1 << 62), (1 << 62) - 1
numbers = st.integers(SMALLEST, LARGEST) | st.integers(-70_000, 70_000)
EDGES = sorted({sign * (1 << bits) + step for bits in range(62) for sign in (1, -1) for step in (-1, 0, 1)})


def address(array: np.ndarray) -> object:
    """What a kernel works on: an address if compiled, else the array itself."""
    return array.ctypes.data if kernel.JIT else array


def read(data: bytes, at: int = 0, end: int | None = None) -> tuple[int, int]:
    array = np.frombuffer(data, np.uint8)
    value, after = read_varint(address(array), at, len(data) if end is None else end)
    return int(value), int(after)


def written(number: int) -> bytes:
    out = np.zeros(16, np.uint8)
    end = write_varint(address(out), 2, number)
    assert not out[:2].any()
    assert not out[end:].any()
    return out[2:end].tobytes()


@pytest.mark.parametrize(("number", "encoded"), VARINTS)
def test_varints_are_those_of_the_spec(number: int, encoded: str) -> None:
    assert written(number).hex() == encoded
    assert read(bytes.fromhex(encoded)) == (number, len(encoded) // 2)


def test_the_ends_of_every_width_are_written_and_read() -> None:
    for number in [*EDGES, SMALLEST, LARGEST]:
        data = varint(number)
        assert written(number) == data
        assert int(varint_size(number)) == len(data)
        assert read(data) == (number, len(data))


@given(number=numbers, before=st.binary(max_size=3), behind=st.binary(max_size=3))
def test_any_number_survives_the_round_trip(number: int, before: bytes, behind: bytes) -> None:
    data = varint(number)
    assert written(number) == data
    assert read(before + data + behind, at=len(before)) == (number, len(before) + len(data))


@given(number=numbers)
def test_a_cut_varint_answers_a_position_past_the_end(number: int) -> None:
    data = varint(number)
    for end in range(len(data)):
        assert read(data + b"\0\0", end=end) == (0, end + 1)


@pytest.mark.parametrize("length", [9, 10, 11, 20])
def test_a_varint_of_more_than_nine_bytes_is_refused(length: int) -> None:
    data = b"\x80" * length + b"\0"
    assert read(data) == (0, len(data) + 1)
    assert read(b"\x80" * 8 + b"\1") == (1 << 55, 9)


def test_overlong_varints_are_read() -> None:
    assert read(b"\x82\x80\x80\x00") == (1, 4)


def test_a_read_from_past_the_end_fails_again() -> None:
    assert read(b"\2", at=1) == (0, 2)
    assert read(b"\2", at=2) == (0, 2)
    assert read(b"", at=0) == (0, 1)
