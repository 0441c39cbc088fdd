"""The interface of codecs, and the bounds-checked parts that they share: varints, lengths, numbers of fixed
width.

A codec makes decoders and encoders: closures for one `FieldContext` (a field of one message in one version)
in which everything known beforehand is decided: compact or legacy lengths, whether null is allowed, the text
for errors. A message version is compiled once and then only runs.

    decoder(view, position, out) -> position   appends what it read to `out`
    encoder(sink, value) -> None               appends bytes to `sink`

Two rules keep hostile bytes harmless: a length or count is compared with the bytes that remain before
anything is allocated for it, and only `RemoteProtocolError` leaves a decoder. Record sets are neither
copied nor parsed in either direction.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Generic, NoReturn, TypeAlias, TypeVar

from ottla.model.errors import LocalProtocolError, RemoteProtocolError

T = TypeVar("T")
Buffer: TypeAlias = bytes | bytearray | memoryview
Decoder: TypeAlias = Callable[[memoryview, int, list[object]], int]
Encoder: TypeAlias = Callable[["EncodeSink", Any], None]
LengthReader: TypeAlias = Callable[[memoryview, int], tuple[int, int]]

VARINT_LIMIT_BYTES = 5
ZERO_UUID = bytes(16)


class EncodeSink(bytearray):
    """Bytes under construction; `cuts` remembers the positions of the caller's own buffers between them."""

    __slots__ = ("cuts",)

    cuts: list[tuple[int, Buffer]]

    def parts(self) -> list[Buffer]:
        """Return the message as buffers in wire order; those in `cuts` are the caller's own objects."""
        if not self.cuts:
            return [self]
        parts: list[Buffer] = []
        start = 0
        for position, buffer in self.cuts:
            # What lies between two record sets is short: copying it costs less than a view of it.
            if position > start:
                parts.append(self[start:position])
            parts.append(buffer)
            start = position
        if start < len(self):
            parts.append(self[start:])
        return parts


def sink(prefix: bytes = b"") -> EncodeSink:
    """An empty sink, or one that starts with `prefix`."""
    made = EncodeSink(prefix)
    made.cuts = []
    return made


class LongRequest(Exception):
    """A request has more elements than are decoded at once: decoding it takes milliseconds."""


class DecodeBudget:
    """How many list elements and tags one message may have in all; used up while it is decoded.

    An element of two bytes becomes an object of a hundred bytes, and work for a handler: so bytes alone are
    not a sufficient limit.
    """

    __slots__ = ("_at_once", "_left", "count_max")

    def __init__(self, count_max: int, *, at_once: bool = False) -> None:
        self.count_max = self._left = count_max
        self._at_once = at_once

    def begin(self) -> None:
        """Start counting for another message."""
        self._left = self.count_max

    def take(self, count: int, label: str) -> None:
        """Count `count` elements before they are read. Raises if that is too many."""
        self._left -= count
        if self._left < 0:
            if self._at_once:
                raise LongRequest(label)
            raise RemoteProtocolError(f"{label}: more elements than the {self.count_max} of a whole message")


@dataclass(frozen=True, slots=True)
class FieldContext:
    """The place where a codec is used: one field of one message version."""

    label: str
    version: int
    flexible: bool
    nullable: bool = False
    budget: DecodeBudget | None = None

    def inner(self, name: str, *, nullable: bool = False) -> FieldContext:
        """The context of the field `name` inside this struct."""
        glue = "." if ": " in self.label else ": "
        return replace(self, label=f"{self.label}{glue}{name}", nullable=nullable)


class FieldCodec(ABC, Generic[T]):
    """The wire form of one type.

    `unpack` and `pack` are `struct` format characters when the type has a fixed width, so that runs of such
    fields become one call; `pack` is empty where `struct` would not check the value.
    """

    unpack: str = ""
    pack: str = ""
    mutable_zero: bool = False

    @abstractmethod
    def zero(self) -> T:
        """Return the value of a field that was not set."""

    @abstractmethod
    def minimum_bytes(self, context: FieldContext) -> int:
        """Return the fewest bytes that a value takes; this limits the count of an array before it is read."""

    @abstractmethod
    def decoder(self, context: FieldContext) -> Decoder:
        """Return a closure that reads one value."""

    @abstractmethod
    def encoder(self, context: FieldContext) -> Encoder:
        """Return a closure that writes one value."""


def truncated(label: str, view: memoryview, position: int, needed: int) -> RemoteProtocolError:
    """Return the error for a value that would end after the message."""
    remain = max(0, len(view) - position)
    return RemoteProtocolError(f"{label}: needs {needed} bytes at position {position}, but {remain} remain")


# --- variable-length integers ---------------------------------------------------------------------------


def read_varint(view: memoryview, position: int, label: str) -> tuple[int, int]:
    """Read an unsigned varint: the value and the position after it."""
    try:
        value = view[position]
        if value < 0x80:
            return value, position + 1
        # The bit that said "more follows" is taken away as the next seven bits replace it.
        value += (view[position + 1] - 1) << 7
        if value < 0x4000:
            return value, position + 2
        for size in range(2, VARINT_LIMIT_BYTES):
            value += (view[position + size] - 1) << (7 * size)
            if view[position + size] < 0x80:
                return value, position + size + 1
    except IndexError:
        raise RemoteProtocolError(f"{label}: the message ends in a varint at position {position}") from None
    raise RemoteProtocolError(f"{label}: varint of over {VARINT_LIMIT_BYTES} bytes at position {position}")


def write_varint(out: bytearray, value: int) -> None:
    """Append an unsigned varint."""
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


# --- lengths --------------------------------------------------------------------------------------------
# Legacy: a signed int16 or int32, -1 = null. Compact: varint of length + 1, 0 = null. Most lengths are small,
# so hot decoders and encoders handle that case themselves and call these functions for the others.


def length_reader(context: FieldContext, legacy_format: str, limit: int) -> LengthReader:
    """Return a closure that reads a length, -1 for null, and refuses what the field does not allow."""
    label, lowest = context.label, -1 if context.nullable else 0
    legacy = struct.Struct(legacy_format)

    def read_compact(view: memoryview, position: int) -> tuple[int, int]:
        length, position = read_varint(view, position, label)
        if not lowest < length <= limit + 1:
            refuse_length(length - 1)
        return length - 1, position

    def read_legacy(view: memoryview, position: int) -> tuple[int, int]:
        try:
            (length,) = legacy.unpack_from(view, position)
        except struct.error:
            raise truncated(label, view, position, legacy.size) from None
        if length < lowest:
            refuse_length(length)
        return length, position + legacy.size

    def refuse_length(length: int) -> NoReturn:
        reason = "null, but not nullable in this version" if length == -1 else f"length {length}"
        raise RemoteProtocolError(f"{label}: {reason}, allowed are {lowest} to {limit}")

    return read_compact if context.flexible else read_legacy


def length_writer(context: FieldContext, legacy_format: str) -> Callable[[bytearray, int], None]:
    """Return a closure that writes a length."""
    pack = struct.Struct(legacy_format).pack

    def write_legacy(out: bytearray, length: int) -> None:
        out += pack(length)

    return write_compact if context.flexible else write_legacy


def write_compact(out: bytearray, length: int) -> None:
    """Append a compact length."""
    length += 1
    while length > 0x7F:
        out.append(length & 0x7F | 0x80)
        length >>= 7
    out.append(length)


def null_bytes(context: FieldContext, legacy_width: int) -> bytes:
    """Return how null is written here; b"" if it cannot be written."""
    if not context.nullable:
        return b""
    return b"\0" if context.flexible else b"\xff" * legacy_width


def refuse(context: FieldContext, value: object, reason: str) -> NoReturn:
    """Raise for a value that cannot be sent."""
    raise LocalProtocolError(f"{context.label}: cannot send {value!r:.200}: {reason}")


# --- fixed width ----------------------------------------------------------------------------------------


class Fixed(FieldCodec[T]):
    """A type of fixed width, which `struct` reads and checks."""

    def __init__(self, unpack: str, pack: str, zero: T) -> None:
        self.unpack = unpack
        self.pack = pack
        self._zero = zero

    def zero(self) -> T:
        return self._zero

    def minimum_bytes(self, context: FieldContext) -> int:  # noqa: ARG002 (same width everywhere)
        return struct.calcsize(">" + self.unpack)

    def decoder(self, context: FieldContext) -> Decoder:
        return fixed_decoder(context.label, ">" + self.unpack)

    def encoder(self, context: FieldContext) -> Encoder:
        pack = struct.Struct(">" + self.pack).pack

        def encode(out: EncodeSink, value: object) -> None:
            try:
                out += pack(value)
            except struct.error as error:
                refuse(context, value, str(error))

        return encode


def fixed_decoder(label: str, struct_format: str) -> Decoder:
    """Return a closure that reads neighbouring fixed-width values in one call."""
    compiled = struct.Struct(struct_format)
    unpack_from, size = compiled.unpack_from, compiled.size

    def decode(view: memoryview, position: int, out: list[object]) -> int:
        try:
            out += unpack_from(view, position)
        except struct.error:
            raise truncated(label, view, position, size) from None
        return position + size

    return decode


class Uuid(Fixed[bytes]):
    """16 bytes. `struct` would silently pad or cut other lengths, so writing checks the length."""

    def __init__(self) -> None:
        super().__init__("16s", "", ZERO_UUID)

    def encoder(self, context: FieldContext) -> Encoder:
        def encode(out: EncodeSink, value: bytes) -> None:
            if not isinstance(value, bytes) or len(value) != 16:
                refuse(context, value, "a uuid is 16 bytes")
            out += value

        return encode
