"""Counted lists: a count, then that many elements of one type.

The count is compared with the bytes that remain, times the fewest bytes an element of this version can take,
and with what the message may have in all, before the first element is read. Lists of plain numbers go through
`struct` in one call.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TypeVar

from ottla.model.errors import RemoteProtocolError
from ottla.wire.primitives import (
    Decoder,
    Encoder,
    EncodeSink,
    FieldCodec,
    FieldContext,
    LengthReader,
    length_reader,
    length_writer,
    null_bytes,
    refuse,
)

T = TypeVar("T")

COUNT_LIMIT = 0x7FFF_FFFF


class Array(FieldCodec[list[T]]):
    """A list of `element`s."""

    mutable_zero = True

    def __init__(self, element: FieldCodec[T]) -> None:
        self._element = element

    def zero(self) -> list[T]:
        return []

    def minimum_bytes(self, context: FieldContext) -> int:
        return 1 if context.flexible else 4

    def decoder(self, context: FieldContext) -> Decoder:
        inner = replace(context, nullable=False)
        if self._element.pack:
            return _numbers_decoder(context, self._element.unpack)
        return _items_decoder(context, self._element.minimum_bytes(inner), self._element.decoder(inner))

    def encoder(self, context: FieldContext) -> Encoder:
        inner = replace(context, nullable=False)
        if self._element.pack:
            return _numbers_encoder(context, self._element.pack, self._element.encoder(inner))
        return _items_encoder(context, self._element.encoder(inner))


@lru_cache(maxsize=256)
def _numbers(count: int, character: str) -> struct.Struct:
    """Return the struct of `count` numbers in a row. Most lists are short, so few of these are in use."""
    return struct.Struct(f">{count}{character}")


def _items_decoder(context: FieldContext, minimum_bytes: int, item: Decoder) -> Decoder:
    quick = 0x7F if context.flexible else -1
    read_count = _count_reader(context, minimum_bytes)
    budget, label = context.budget, context.label

    def decode(view: memoryview, position: int, out: list[object]) -> int:
        try:
            count = view[position] - 1  # the usual case: a compact count of one byte
        except IndexError:
            count = -1
        if 0 <= count < quick and count * minimum_bytes < len(view) - position:
            position += 1
        else:
            count, position = read_count(view, position)
            if count < 0:
                out.append(None)
                return position
        if budget is not None:
            budget.take(count, label)
        values: list[object] = []
        while count:
            position = item(view, position, values)
            count -= 1
        out.append(values)
        return position

    return decode


def _numbers_decoder(context: FieldContext, character: str) -> Decoder:
    quick = 0x7F if context.flexible else -1
    width = struct.calcsize(">" + character)
    read_count = _count_reader(context, width)
    budget, label = context.budget, context.label

    def decode(view: memoryview, position: int, out: list[object]) -> int:
        try:
            count = view[position] - 1
        except IndexError:
            count = -1
        if 0 <= count < quick and count * width < len(view) - position:
            position += 1
        else:
            count, position = read_count(view, position)
            if count < 0:
                out.append(None)
                return position
        if budget is not None:
            budget.take(count, label)
        out.append(list(_numbers(count, character).unpack_from(view, position)))
        return position + width * count

    return decode


def _count_reader(context: FieldContext, minimum_bytes: int) -> LengthReader:
    """Return a closure that reads a count, -1 for null, and checks that as many elements can follow."""
    label = context.label
    read_length = length_reader(context, ">i", COUNT_LIMIT)

    def read(view: memoryview, position: int) -> tuple[int, int]:
        count, position = read_length(view, position)
        if count * minimum_bytes > len(view) - position:
            raise RemoteProtocolError(
                f"{label}: {count} elements of at least {minimum_bytes} bytes at position {position}, "
                f"but {len(view) - position} bytes remain"
            )
        return count, position

    return read


def _items_encoder(context: FieldContext, write_item: Encoder) -> Encoder:
    quick = 0x7F if context.flexible else 0
    write_count, null = length_writer(context, ">i"), null_bytes(context, 4)

    def encode(out: EncodeSink, value: Sequence[object] | None) -> None:
        if value is None:
            out += null or refuse(context, value, "not nullable in this version")
            return
        count = len(value)
        if count < quick:
            out.append(count + 1)
        else:
            write_count(out, count)
        for item in value:
            write_item(out, item)

    return encode


def _numbers_encoder(context: FieldContext, character: str, write_item: Encoder) -> Encoder:
    quick = 0x7F if context.flexible else 0
    write_count, null = length_writer(context, ">i"), null_bytes(context, 4)

    def encode(out: EncodeSink, value: Sequence[object] | None) -> None:
        if value is None:
            out += null or refuse(context, value, "not nullable in this version")
            return
        count = len(value)
        if count < quick:
            out.append(count + 1)
        else:
            write_count(out, count)
        try:
            out += _numbers(count, character).pack(*value)
        except struct.error:
            # Slow, to name the element in the error: this loop raises.
            for item in value:
                write_item(out, item)

    return encode
