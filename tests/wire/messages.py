"""Kafka's own bytes, and random messages, for the tests of the schema.

`tests/golden/messages.jsonl` was written by Kafka's Java message classes (kafka-clients 4.4.0; 3.9.1 for
the versions that 4.0 dropped); `golden_messages` makes it. Each line: API, direction, version, the bytes
that Kafka made, and the values that were set, bytes in hex. Variants: `default` sets nothing; `null` sets
every nullable field to null; `full` sets everything, tagged fields too, with two elements per array; `long`
needs lengths of more than one varint byte; `foreign` sets one field that the version lacks, where `bytes`
may be "refused".
"""

from __future__ import annotations

import json
import typing
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from hypothesis import strategies as st

from ottla.wire.arrays import Array
from ottla.wire.compiler import Field, Struct
from ottla.wire.primitives import FieldCodec, Fixed, Uuid
from ottla.wire.registry import apis
from ottla.wire.schema import ProtocolMessage, boolean, fields, float64, uint16
from ottla.wire.strings import Blob, String

GOLDEN = Path(__file__).parents[1] / "golden" / "messages.jsonl"
KINDS = [kind for api in apis().values() for kind in (api.request, api.response)]
KINDS_BY_NAME = {kind.__name__: kind for kind in KINDS}


class Row(NamedTuple):
    kind: type[ProtocolMessage]
    version: int
    variant: str
    data: bytes | None
    values: dict[str, Any]

    @property
    def label(self) -> str:
        return (
            f"{self.kind.__name__} v{self.version} {self.variant} {self.values if self.data is None else ''}"
        )

    @property
    def message(self) -> ProtocolMessage:
        """The declared object with the row's values."""
        return build(self.kind, self.values)


@cache
def rows() -> list[Row]:
    return list(_rows())


def rows_of(*variants: str) -> list[Row]:
    return [row for row in rows() if row.variant in variants]


def _rows() -> Iterator[Row]:
    for line in GOLDEN.read_text().splitlines():
        row = json.loads(line)
        data = None if row["bytes"] == "refused" else bytes.fromhex(row["bytes"])
        kind = KINDS_BY_NAME[row["api"] + row["direction"].capitalize()]
        yield Row(kind, row["version"], row["variant"], data, row["values"])


def build(kind: type, values: dict[str, Any]) -> Any:
    """An object of a declared class from JSON values; goes by the annotations, not by the codecs."""
    hints = _hints(kind)
    return kind(**{name: _value(hints[name], value) for name, value in values.items()})


@cache
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _value(hint: Any, value: Any) -> Any:
    options = [option for option in typing.get_args(hint) or [hint] if option is not type(None)]
    if value is None:
        return None
    if typing.get_origin(hint) is list:
        return [_value(options[0], item) for item in value]
    if bytes in options:
        return bytes.fromhex(value)
    if isinstance(value, dict):
        return build(options[0], value)
    if isinstance(value, list):
        return _value(options[0], value)
    return value


# --- random messages ------------------------------------------------------------------------------------


@cache
def messages(kind: Any, version: int) -> st.SearchStrategy[Any]:
    """Objects that set only what `version` can carry."""
    present = [field for field in fields(kind) if field.exists(version)]
    return st.builds(kind, **{field.name: _field(field, version) for field in present})


def _field(field: Field, version: int) -> st.SearchStrategy[Any]:
    values = _codec(field.codec, version)
    nullable = field.nullable_since is not None and version >= field.nullable_since
    return st.none() | values if nullable else values


def _codec(codec: FieldCodec[Any], version: int) -> st.SearchStrategy[Any]:
    if isinstance(codec, Array):
        return st.lists(_codec(codec._element, version), max_size=3)
    if isinstance(codec, Struct):
        return messages(codec._kind, version)  # type: ignore[arg-type]  # classes are hashable
    if isinstance(codec, String):
        return st.text(max_size=5) | st.text(min_size=125, max_size=130)
    if isinstance(codec, Blob):
        return st.binary(max_size=5) | st.binary(min_size=120, max_size=140)
    return _fixed(codec)


def _fixed(codec: FieldCodec[Any]) -> st.SearchStrategy[Any]:
    if isinstance(codec, Uuid):
        return st.binary(min_size=16, max_size=16)
    if codec is boolean:
        return st.booleans()
    assert isinstance(codec, Fixed)
    if codec is float64:
        return st.floats(allow_nan=False)
    if codec is uint16:
        return st.integers(0, (1 << 16) - 1)
    bits = {"b": 7, "h": 15, "i": 31, "q": 63}[codec.unpack]
    return st.integers(-(1 << bits), (1 << bits) - 1)
