"""JSON to Arrow: with a JSON Schema, or an Arrow type; and why a value is not what the type says.

A reason names the field and what is there: `items[2].price: 'free' is no number`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from ottla.model.errors import ConfigError
from ottla.schemas.decoded import DecodedValues, Undecodable, decoded_one_by_one, path_of
from ottla.schemas.framing import framed

_BEFORE, _AFTER = 20, 20
_SIMPLE: dict[str, pa.DataType] = {
    "string": pa.string(),
    "integer": pa.int64(),
    "number": pa.float64(),
    "boolean": pa.bool_(),
    "null": pa.null(),
}


class JsonDecoder:
    """JSON texts of one type. `is_framed`: a schema registry's frame is in front."""

    def __init__(self, kind: pa.DataType, *, is_framed: bool = False) -> None:
        self._type = kind
        self._is_framed = is_framed

    @property
    def type(self) -> pa.DataType:
        """The type of the values."""
        return self._type

    def decode(self, column: pa.Array) -> DecodedValues:
        """Decode a column of bytes."""
        return decoded_one_by_one(column, self._type, self._one)

    def _one(self, value: bytes) -> Any:
        made = parsed(framed(value).payload if self._is_framed else value)
        check_type(made, self._type)
        return made


def parsed(value: bytes) -> Any:
    """The value of a JSON text. Raises Undecodable with the position and the text there."""
    try:
        text = value.decode()
    except UnicodeDecodeError as error:
        raise Undecodable(f"not UTF-8: byte 0x{value[error.start]:02x} at position {error.start}") from None
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        there = text[max(0, error.pos - _BEFORE) : error.pos + _AFTER]
        raise Undecodable(f"not JSON: {error.msg} at position {error.pos}, near {there!r}") from None


def reason(value: bytes, kind: pa.DataType) -> str | None:
    """Why the bytes are no JSON of this type; None if they are."""
    try:
        check_type(parsed(value), kind)
    except Undecodable as error:
        return str(error)
    return None


def check_type(value: Any, kind: pa.DataType, path: tuple[str | int, ...] = ()) -> None:
    """Raise Undecodable for the first field that is not of its type. Fields that are missing are null."""
    if value is None or pa.types.is_null(kind):
        return
    if pa.types.is_nested(kind):
        _check_nested(value, kind, path)
    elif pa.types.is_integer(kind):
        is_whole = isinstance(value, int) and not isinstance(value, bool)
        _check(is_whole, value, "whole number", path)
        limit = 1 << (kind.bit_width - 1)
        _check(-limit <= value < limit, value, f"number of {kind.bit_width} bits", path)
    elif pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        _check(isinstance(value, int | float) and not isinstance(value, bool), value, "number", path)
    elif pa.types.is_boolean(kind):
        _check(isinstance(value, bool), value, "boolean", path)


def _check_nested(value: Any, kind: pa.DataType, path: tuple[str | int, ...]) -> None:
    is_list = pa.types.is_list(kind)
    _check(isinstance(value, list if is_list else dict), value, "array" if is_list else "object", path)
    if is_list:
        for number, one in enumerate(value):
            check_type(one, kind.value_type, (*path, number))
    elif pa.types.is_map(kind):
        for name, one in value.items():
            check_type(one, kind.item_type, (*path, name))
    else:
        for field in kind:
            check_type(value.get(field.name), field.type, (*path, field.name))


def _check(is_right: bool, value: Any, wanted: str, path: tuple[str | int, ...]) -> None:  # noqa: FBT001
    if not is_right:
        where = f"field {path_of(path)}: " if path else ""
        raise Undecodable(f"{where}{json.dumps(value, ensure_ascii=False):.60} is no {wanted}")


# --- JSON Schema


def arrow_type(
    schema: Mapping[str, Any], root: Mapping[str, Any] | None = None, depth: int = 0
) -> pa.DataType:
    """The Arrow type of a JSON Schema. Raises ConfigError for what has no column type."""
    root = schema if root is None else root
    if depth > 50:
        raise ConfigError("JSON Schema: it contains itself, so it has no column type")
    if "$ref" in schema:
        return arrow_type(_referenced(str(schema["$ref"]), root), root, depth + 1)
    for word in ("oneOf", "anyOf"):
        if word in schema:
            others = [one for one in schema[word] if one.get("type") != "null"]
            if len(others) != 1:
                raise ConfigError(f"JSON Schema: {word} of several types has no column type")
            return arrow_type(others[0], root, depth + 1)
    kind = schema.get("type", "object" if "properties" in schema else "string")
    if isinstance(kind, list):
        kinds = [one for one in kind if one != "null"]
        if len(kinds) != 1:
            raise ConfigError(f"JSON Schema: type {kind} has no column type; keep one and null")
        kind = kinds[0]
    if kind == "array":
        return pa.list_(arrow_type(schema.get("items", {"type": "string"}), root, depth + 1))
    if kind == "object":
        return _object_type(schema, root, depth)
    return _SIMPLE[kind]


def _object_type(schema: Mapping[str, Any], root: Mapping[str, Any], depth: int) -> pa.DataType:
    fields = schema.get("properties")
    if not fields:
        more = schema.get("additionalProperties")
        return pa.map_(pa.string(), arrow_type(more if isinstance(more, dict) else {}, root, depth + 1))
    return pa.struct([pa.field(name, arrow_type(one, root, depth + 1)) for name, one in fields.items()])


def _referenced(reference: str, root: Mapping[str, Any]) -> Mapping[str, Any]:
    node: Any = root
    for name in reference.removeprefix("#/").split("/"):
        node = node.get(name) if isinstance(node, Mapping) else None
    if not reference.startswith("#/") or not isinstance(node, Mapping):
        raise ConfigError(f"JSON Schema: $ref {reference} is not in the schema")
    return node
