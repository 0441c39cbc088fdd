"""MessagePack to Arrow, by msgpack: maps of an Arrow type."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from ottla.model.errors import ConfigError
from ottla.schemas.decoded import DecodedValues, Undecodable, decoded_one_by_one
from ottla.schemas.json_values import check_type


class MsgpackDecoder:
    """Values of one type."""

    def __init__(self, kind: pa.DataType) -> None:
        try:
            import msgpack  # type: ignore[import-untyped]  # noqa: F401
        except ImportError as error:
            raise ConfigError("MessagePack needs msgpack: pip install 'ottla[schemas]'") from error
        self._type = kind

    @property
    def type(self) -> pa.DataType:
        """The type of the values."""
        return self._type

    def decode(self, column: pa.Array) -> DecodedValues:
        """Decode a column of bytes."""
        return decoded_one_by_one(column, self._type, self.row)

    def row(self, value: bytes) -> Any:
        """Decode one value. Raises Undecodable."""
        import msgpack

        try:
            made = msgpack.unpackb(value)
        except Exception as error:  # noqa: BLE001 - it has many kinds
            raise Undecodable(f"not MessagePack: {error}") from None
        check_type(made, self._type)
        return made
