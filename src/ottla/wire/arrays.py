"""Counted lists: a count, then that many elements of one type.

The count is compared with the bytes that remain, times the fewest bytes an element of this version can take,
before the first element is read. Lists of plain numbers go through `struct` in one call.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar

from ottla.model.errors import RemoteProtocolError
from ottla.wire.primitives import (
    Codec,
    Decoder,
    Encoder,
    Place,
    Sink,
    length_reader,
    length_writer,
    null_bytes,
    refuse,
)

T = TypeVar("T")
Counter: TypeAlias = Callable[[memoryview, int], tuple[int, int]]

COUNT_LIMIT = 0x7FFF_FFFF


class Array(Codec[list[T]]):
    """A list of `element`s."""

    mutable_zero = True

    def __init__(self, element: Codec[T]) -> None:
        self._element = element

    def zero(self) -> list[T]:
        return []

    def minimum_bytes(self, place: Place) -> int:
        return 1 if place.flexible else 4

    def decoder(self, place: Place) -> Decoder:
        inner = Place(place.label, place.version, place.flexible)
        count = _counter(place, self._element.minimum_bytes(inner))
        if self._element.pack:
            return _numbers_decoder(count, self._element.unpack)
        return _items_decoder(count, self._element.decoder(inner))

    def encoder(self, place: Place) -> Encoder:
        inner = Place(place.label, place.version, place.flexible)
        write_count, null = length_writer(place, ">i"), null_bytes(place, 4)
        write_item = self._element.encoder(inner)
        number = self._element.pack
        quick = 0x7F if place.flexible else 0

        def encode(out: Sink, value: Sequence[T] | None) -> None:
            if value is None:
                out += null or refuse(place, value, "not nullable in this version")
                return
            count = len(value)
            if count < quick:
                out.append(count + 1)
            else:
                write_count(out, count)
            if number:
                _write_numbers(out, value, number, write_item)
            else:
                for item in value:
                    write_item(out, item)

        return encode


def _counter(place: Place, minimum_bytes: int) -> Counter:
    """A closure that reads a count and makes sure that so many elements can follow; -1 for null."""
    label, compact = place.label, place.flexible
    read_count = length_reader(place, ">i", COUNT_LIMIT)

    def count_elements(view: memoryview, position: int) -> tuple[int, int]:
        if compact and position < len(view) and 0 < view[position] < 0x80:
            count = view[position] - 1
            position += 1
        else:
            count, position = read_count(view, position)
        if count * minimum_bytes > len(view) - position:
            raise RemoteProtocolError(
                f"{label}: {count} elements of at least {minimum_bytes} bytes at position {position}, "
                f"but {len(view) - position} bytes remain"
            )
        return count, position

    return count_elements


def _items_decoder(count_elements: Counter, item: Decoder) -> Decoder:
    def decode(view: memoryview, position: int, out: list[object]) -> int:
        count, position = count_elements(view, position)
        if count < 0:
            out.append(None)
            return position
        values: list[object] = []
        for _ in range(count):
            position = item(view, position, values)
        out.append(values)
        return position

    return decode


def _numbers_decoder(count_elements: Counter, character: str) -> Decoder:
    width = struct.calcsize(">" + character)

    def decode(view: memoryview, position: int, out: list[object]) -> int:
        count, position = count_elements(view, position)
        if count < 0:
            out.append(None)
            return position
        out.append(list(struct.unpack_from(f">{count}{character}", view, position)))
        return position + width * count

    return decode


def _write_numbers(out: Sink, value: Sequence[Any], character: str, write_item: Encoder) -> None:
    try:
        out += struct.pack(f">{len(value)}{character}", *value)
    except struct.error:
        # Only to name the guilty element: one of these raises.
        for item in value:
            write_item(out, item)
