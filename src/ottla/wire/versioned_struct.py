"""Structs behind an int16 version, as Kafka stores them in the records of its own topics."""

from __future__ import annotations

import struct as binary
from typing import TypeVar

from ottla.model.errors import RemoteProtocolError
from ottla.wire.compiler import Struct
from ottla.wire.primitives import Buffer, Decoder, Encoder, FieldContext, sink

T = TypeVar("T")

_VERSION = binary.Struct(">h")


class VersionedStructs:
    """The structs of one topic, flexible from one version on. Codecs are compiled once."""

    def __init__(self, topic: str, *, flexible_since: int) -> None:
        self._topic = topic
        self._flexible_since = flexible_since
        self._decoders: dict[tuple[type, int], Decoder] = {}
        self._encoders: dict[tuple[type, int], Encoder] = {}

    def version_of(self, data: Buffer, label: str) -> int:
        """Return the version in front of a struct. Raises RemoteProtocolError if there is none."""
        if len(data) < _VERSION.size:
            raise RemoteProtocolError(f"{label} in {self._topic}: {len(data)} bytes hold no version")
        version: int = _VERSION.unpack_from(data)[0]
        return version

    def decode(self, kind: type[T], data: Buffer, newest: int) -> T:
        """Return the struct after the version. Bytes after it are ignored, as Kafka does.

        Raises RemoteProtocolError if the bytes are damaged or the version is above `newest`.
        """
        version = self.version_of(data, kind.__name__)
        if not 0 <= version <= newest:
            raise RemoteProtocolError(
                f"{kind.__name__} v{version} in {self._topic}: known are 0 to {newest}; "
                "a newer broker wrote this log"
            )
        run = self._decoders.get((kind, version))
        if run is None:
            run = self._decoders[kind, version] = Struct(kind).decoder(self._context(kind, version))
        out: list[object] = []
        run(memoryview(data), _VERSION.size, out)
        made = out[0]
        assert isinstance(made, kind)
        return made

    def encode(self, message: object, version: int) -> bytes:
        """Return the version and the struct."""
        kind = type(message)
        run = self._encoders.get((kind, version))
        if run is None:
            run = self._encoders[kind, version] = Struct(kind).encoder(self._context(kind, version))
        out = sink(_VERSION.pack(version))
        run(out, message)
        return bytes(out)

    def _context(self, kind: type, version: int) -> FieldContext:
        return FieldContext(f"{kind.__name__} v{version}", version, flexible=version >= self._flexible_since)
