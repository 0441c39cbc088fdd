"""What is done to bytes: flips, interesting values, cuts, growth, splices, tampered lengths."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from random import Random
from typing import TypeVar

from tests.naive.record_set import varint

T = TypeVar("T")


class Chance(Random):
    """Random choices in a third of the time: numbers of 53 bits are cut to the ranges."""

    def choice(self, seq: Sequence[T]) -> T:  # type: ignore[override]
        return seq[int(self.random() * len(seq))]

    def randrange(self, start: int, stop: int | None = None, step: int = 1) -> int:
        if stop is None:
            return int(self.random() * start)
        return super().randrange(start, stop, step)


BYTES = [0x00, 0x01, 0x02, 0x7E, 0x7F, 0x80, 0x81, 0xFE, 0xFF]
INT16 = [0, 1, -1, 0x7FFF, -0x8000, 2, 100]
INT32 = [0, 1, -1, -2, 2, 7, 13, 14, 22, 49, 0x7FFFFFFF, -0x80000000, 0x10000, 1 << 24, 0x7FFFFF00]
INT64 = [0, 1, -1, (1 << 63) - 1, -(1 << 63), 1 << 62, (1 << 62) - 1, -(1 << 62), 1 << 31, 1 << 32]
NUMBERS = [*INT32, *INT64[:8], 63, 64, -64, -65, 127, 128, 8191, 8192]
SIGNED = [varint(number) for number in NUMBERS]
FIXED_NUMBERS = [
    [struct.pack(layout, number) for number in numbers]
    for layout, numbers in ((">h", INT16), (">i", INT32), (">i", INT32), (">q", INT64))
]
# Unsigned varints, as compact lengths and counts are: small, large, overlong, endless.
UNSIGNED = [
    b"\x00",
    b"\x01",
    b"\x02",
    b"\xff\xff\xff\xff\x07",
    b"\xff\xff\xff\xff\x0f",
    b"\x80\x00",
    b"\xff" * 11,
]


def flip(data: bytearray, chance: Random) -> None:
    """One bit."""
    data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)


def set_byte(data: bytearray, chance: Random) -> None:
    data[chance.randrange(len(data))] = chance.choice(BYTES)


def set_number(data: bytearray, chance: Random) -> None:
    """A length, count or offset of fixed width."""
    number = chance.choice(chance.choice(FIXED_NUMBERS))
    if len(data) >= len(number):
        at = chance.randrange(len(data) - len(number) + 1)
        data[at : at + len(number)] = number


def put_varint(data: bytearray, chance: Random) -> None:
    """A length or delta of variable width, over what is there or between."""
    at = chance.randrange(len(data))
    number = chance.choice(SIGNED if chance.random() < 0.7 else UNSIGNED)
    data[at : at + chance.choice((0, 1, 1, 1, len(number)))] = number


def truncate(data: bytearray, chance: Random) -> None:
    del data[chance.randrange(len(data)) :]


def extend(data: bytearray, chance: Random) -> None:
    data += chance.choice((b"\0", b"\xff", b"\x80" * 12, bytes(20), chance.randbytes(8)))


def remove(data: bytearray, chance: Random) -> None:
    at = chance.randrange(len(data))
    del data[at : at + chance.choice((1, 1, 2, 4, 8))]


def repeat(data: bytearray, chance: Random) -> None:
    at = chance.randrange(len(data))
    piece = data[at : at + chance.choice((1, 4, 16, 64))]
    data[at:at] = piece


MUTATIONS: list[Callable[[bytearray, Random], None]] = [
    *(flip, flip, set_byte, set_byte, set_number, set_number, put_varint, put_varint),
    *(truncate, extend, remove, repeat),
]


def mutated(data: bytes, chance: Random, *, times: int | None = None) -> bytes:
    """`data` with one to four changes."""
    out = bytearray(data)
    for _ in range(times or chance.choice((1, 1, 1, 2, 3, 4))):
        if not out:
            out += chance.choice((b"\0", b"\xff"))
        chance.choice(MUTATIONS)(out, chance)
    return bytes(out)


def spliced(first: bytes, second: bytes, chance: Random) -> bytes:
    """The start of one and the end of another."""
    return first[: chance.randrange(len(first) + 1)] + second[chance.randrange(len(second) + 1) :]
