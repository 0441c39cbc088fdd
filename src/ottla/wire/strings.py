"""Texts, byte strings and record sets: a length, then the bytes.

Texts and byte strings are copied out of the message, because they are small and outlive it. Record sets are
large and pass through untouched: a slice of the message on the way in, the caller's own buffer on the way
out.
"""

from __future__ import annotations

import struct
from typing import TypeVar

from ottla.model.errors import RemoteProtocolError
from ottla.model.outside_bytes import OutsideBytes
from ottla.wire.primitives import (
    Buffer,
    Decoder,
    Encoder,
    EncodeSink,
    FieldCodec,
    FieldContext,
    length_reader,
    length_writer,
    null_bytes,
    refuse,
    truncated,
)

T = TypeVar("T")

# Kafka refuses longer strings in every version, although a compact length could carry them.
STRING_LIMIT_BYTES = 0x7FFF
BYTES_LIMIT = 0x7FFF_FFFF
# Readers of 0 to 255 bytes: for short strings twice as fast as a slice, and they check the bounds.
_TAKE = [struct.Struct(f"{length}s").unpack_from for length in range(256)]
# Errors of the fast path; the slow path then finds and names the fault.
_FAULTS = (IndexError, struct.error, UnicodeDecodeError)
_BYTES = (bytes, bytearray)


class String(FieldCodec[str]):
    """UTF-8 text of at most 32767 bytes."""

    def zero(self) -> str:
        return ""

    def minimum_bytes(self, context: FieldContext) -> int:
        return 1 if context.flexible else 2

    def decoder(self, context: FieldContext) -> Decoder:
        careful, nullable = _careful_string_decoder(context), context.nullable

        def decode_compact(view: memoryview, position: int, out: list[object]) -> int:
            try:
                head = view[position]
                if 0 < head < 0x80:
                    out.append(_TAKE[head - 1](view, position + 1)[0].decode())
                    return position + head
                if head == 0 and nullable:
                    out.append(None)
                    return position + 1
            except _FAULTS:
                pass
            return careful(view, position, out)

        def decode_legacy(view: memoryview, position: int, out: list[object]) -> int:
            try:
                if view[position] == 0:
                    length = view[position + 1]
                    out.append(_TAKE[length](view, position + 2)[0].decode())
                    return position + 2 + length
            except _FAULTS:
                pass
            return careful(view, position, out)

        return decode_compact if context.flexible else decode_legacy

    def encoder(self, context: FieldContext) -> Encoder:
        write_length, null = length_writer(context, ">h"), null_bytes(context, 2)
        quick = 0x7F if context.flexible else 0

        def encode(out: EncodeSink, value: str | None) -> None:
            if value is None:
                out += null or refuse(context, value, "not nullable in this version")
                return
            try:
                data = value.encode()
            except (UnicodeEncodeError, AttributeError) as error:
                refuse(context, value, str(error))
            length = len(data)
            if length < quick:
                out.append(length + 1)
            elif length <= STRING_LIMIT_BYTES:
                write_length(out, length)
            else:
                refuse(context, value, f"{length} bytes of UTF-8, at most {STRING_LIMIT_BYTES}")
            out += data

        return encode


def _careful_string_decoder(context: FieldContext) -> Decoder:
    label = context.label
    read_length = length_reader(context, ">h", STRING_LIMIT_BYTES)

    def decode(view: memoryview, position: int, out: list[object]) -> int:
        length, start = read_length(view, position)
        stop = start + length
        if length < 0:
            out.append(None)
            return start
        if stop > len(view):
            raise truncated(label, view, start, length)
        try:
            out.append(str(view[start:stop], "utf-8"))
        except UnicodeDecodeError as error:
            raise RemoteProtocolError(f"{label}: not UTF-8 at position {start}: {error.reason}") from None
        return stop

    return decode


class Blob(FieldCodec[T]):
    """Opaque bytes: copied if `copies`, else passed on as the same buffers (record sets)."""

    def __init__(self, zero: T, *, copies: bool) -> None:
        self._zero = zero
        self._copies = copies

    def zero(self) -> T:
        return self._zero

    def minimum_bytes(self, context: FieldContext) -> int:
        return 1 if context.flexible else 4

    def decoder(self, context: FieldContext) -> Decoder:
        label, copies = context.label, self._copies
        read_length = length_reader(context, ">i", BYTES_LIMIT)

        def decode(view: memoryview, position: int, out: list[object]) -> int:
            length, start = read_length(view, position)
            if length < 0:
                out.append(None)
                return start
            stop = start + length
            if stop > len(view):
                raise truncated(label, view, start, length)
            out.append(bytes(view[start:stop]) if copies else view[start:stop])
            return stop

        return decode

    def encoder(self, context: FieldContext) -> Encoder:
        write_length, null = length_writer(context, ">i"), null_bytes(context, 4)
        copies = self._copies
        kinds = _BYTES if copies else (*_BYTES, OutsideBytes)

        def encode(out: EncodeSink, value: Buffer | None) -> None:
            if value is None:
                out += null or refuse(context, value, "not nullable in this version")
                return
            if type(value) is memoryview:
                length = value.nbytes
            elif isinstance(value, kinds):
                length = len(value)
            else:
                refuse(context, value, "neither bytes nor a buffer")
            write_length(out, length)
            if copies:
                out += value
            elif length:
                out.cuts.append((len(out), value))

        return encode
