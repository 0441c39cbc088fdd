"""JSON to Arrow: with a JSON Schema, or an Arrow type; and why a value is not what the type says.

Texts are parsed together, by Arrow. If one of them is refused, they are halved until only a few are left,
which are parsed one by one. A reason names the field and what is there, as in `items[2].price: 'free' is no
number`.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from datetime import date, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa

from ottla.model.errors import ConfigError
from ottla.schemas.decoded import DecodedValues, Undecodable, decoded_one_by_one, path_of, spread
from ottla.schemas.framing import HEADER_BYTES, frame_ids, framed

FEW = 32
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
        if not _is_parsed_together(self._type):
            return decoded_one_by_one(column, self._type, self.row)
        if column.null_count:
            rows = np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False))
            made = self.decode(column.drop_null())
            return DecodedValues(*(spread(part, rows, len(column)) for part in made))
        parts = list(self._decoded(column))
        if len(parts) == 1:
            return parts[0]
        return DecodedValues(
            pa.concat_arrays([part.values for part in parts] or [pa.nulls(0, self._type)]),
            pa.concat_arrays([part.reasons for part in parts] or [pa.nulls(0, pa.string())]),
        )

    def _decoded(self, column: pa.Array) -> Iterator[DecodedValues]:
        if len(column) <= FEW:
            yield decoded_one_by_one(column, self._type, self.row)
            return
        values = self._parsed_together(column)
        if values is not None:
            yield DecodedValues(values, pa.nulls(len(column), pa.string()))
            return
        half = len(column) // 2
        yield from self._decoded(column[:half])
        yield from self._decoded(column[half:])

    def _parsed_together(self, column: pa.Array) -> pa.Array | None:
        """Return the values; None if one of them may not be of the type."""
        import pyarrow.compute as pc
        import pyarrow.json as parser

        texts = column
        if self._is_framed:
            if (frame_ids(column) < 0).any():
                return None
            texts = pc.binary_slice(column, HEADER_BYTES)
        if not _are_objects(texts):
            return None
        ends = pa.array([0, len(texts)], pa.int32())
        lines = pc.binary_join(pa.ListArray.from_arrays(ends, texts), b"\n")[0].as_buffer()
        options = parser.ParseOptions(
            explicit_schema=pa.schema(list(self._type)), unexpected_field_behavior="ignore"
        )
        try:
            table = parser.read_json(pa.BufferReader(lines), parse_options=options)
            table.validate(full=True)
        except pa.ArrowInvalid:
            return None
        if table.num_rows != len(texts):
            return None
        return table.to_struct_array().combine_chunks()

    def row(self, value: bytes) -> Any:
        """Decode one value. Raises Undecodable."""
        made = parsed(framed(value).payload if self._is_framed else value)
        check_type(made, self._type)
        return made


def _is_parsed_together(kind: pa.DataType) -> bool:
    """Whether Arrow's parser and `check_type` agree about a type."""
    if pa.types.is_struct(kind):
        return kind.num_fields > 0 and all(_is_field_of_parser(field.type) for field in kind)
    return False


def _is_field_of_parser(kind: pa.DataType) -> bool:
    if pa.types.is_list(kind):
        return _is_field_of_parser(kind.value_type)
    return kind in {pa.string(), pa.int64(), pa.float64(), pa.bool_()} or _is_parsed_together(kind)


def _are_objects(texts: pa.Array) -> bool:
    """Whether each text begins and ends with a brace, so that each text is exactly one value."""
    offsets = np.frombuffer(texts.buffers()[1], np.int32)[texts.offset : texts.offset + len(texts) + 1]
    content = texts.buffers()[2]
    if content is None or not (np.diff(offsets) > 1).all():
        return False
    data = np.frombuffer(content, np.uint8)
    return bool((data[offsets[:-1]] == ord("{")).all() and (data[offsets[1:] - 1] == ord("}")).all())


def json_bytes(row: Any) -> bytes:
    """Return a row as a JSON text. Raises Undecodable if JSON cannot express it."""
    try:
        return json.dumps(row, ensure_ascii=False, separators=(",", ":"), default=_plain).encode()
    except (TypeError, ValueError) as error:
        raise Undecodable(f"the row has no form in JSON: {error}") from None


def _plain(value: object) -> str:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, date | time | Decimal | UUID):
        return value.isoformat() if isinstance(value, date | time) else str(value)
    raise TypeError(f"{type(value).__name__} is no value of JSON")


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
    except (ValueError, RecursionError) as error:  # thousands of digits, or of brackets
        raise Undecodable(f"JSON that is not read: {error}") from None


def reason(value: bytes, kind: pa.DataType) -> str | None:
    """Return why the bytes are not JSON of this type; None if they are."""
    try:
        check_type(parsed(value), kind, any_text=True)
    except (Undecodable, RecursionError) as error:
        return str(error)
    return None


def check_type(
    value: Any, kind: pa.DataType, path: tuple[str | int, ...] = (), *, any_text: bool = False
) -> None:
    """Raise Undecodable for the first field that is not of its type. Fields that are missing are null.

    With `any_text`, any value is accepted where a text is expected, as in Spark.
    """
    if value is None or pa.types.is_null(kind):
        return
    if pa.types.is_nested(kind):
        _check_nested(value, kind, path, any_text=any_text)
    elif pa.types.is_integer(kind):
        is_whole = isinstance(value, int) and not isinstance(value, bool)
        _check(is_whole, value, "whole number", path)
        limit = 1 << (kind.bit_width - 1)
        _check(-limit <= value < limit, value, f"number of {kind.bit_width} bits", path)
    elif pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        _check(isinstance(value, int | float) and not isinstance(value, bool), value, "number", path)
    elif pa.types.is_boolean(kind):
        _check(isinstance(value, bool), value, "boolean", path)
    elif pa.types.is_string(kind) and not any_text:
        _check(isinstance(value, str), value, "text", path)


def _check_nested(value: Any, kind: pa.DataType, path: tuple[str | int, ...], *, any_text: bool) -> None:
    is_list = pa.types.is_list(kind)
    _check(isinstance(value, list if is_list else dict), value, "array" if is_list else "object", path)
    if is_list:
        for number, item in enumerate(value):
            check_type(item, kind.value_type, (*path, number), any_text=any_text)
    elif pa.types.is_map(kind):
        for name, content in value.items():
            check_type(content, kind.item_type, (*path, name), any_text=any_text)
    else:
        for field in kind:
            check_type(value.get(field.name), field.type, (*path, field.name), any_text=any_text)


def _check(is_right: bool, value: Any, wanted: str, path: tuple[str | int, ...]) -> None:  # noqa: FBT001
    if not is_right:
        where = f"field {path_of(path)}: " if path else ""
        raise Undecodable(f"{where}{json.dumps(value, ensure_ascii=False):.60} is no {wanted}")


# --- JSON Schema


def arrow_type(
    schema: Mapping[str, Any], root: Mapping[str, Any] | None = None, depth: int = 0
) -> pa.DataType:
    """Return the Arrow type of a JSON Schema. Raises ConfigError for a schema without a column type."""
    root = schema if root is None else root
    if depth > 50:
        raise ConfigError("JSON Schema: it contains itself, so it has no column type")
    if "$ref" in schema:
        return arrow_type(_referenced(str(schema["$ref"]), root), root, depth + 1)
    for word in ("oneOf", "anyOf"):
        if word in schema:
            others = [choice for choice in schema[word] if choice.get("type") != "null"]
            if len(others) != 1:
                raise ConfigError(f"JSON Schema: {word} of several types has no column type")
            return arrow_type(others[0], root, depth + 1)
    kind = schema.get("type", "object" if "properties" in schema else "string")
    if isinstance(kind, list):
        kinds = [choice for choice in kind if choice != "null"]
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
    return pa.struct([pa.field(name, arrow_type(field, root, depth + 1)) for name, field in fields.items()])


def _referenced(reference: str, root: Mapping[str, Any]) -> Mapping[str, Any]:
    node: Any = root
    for name in reference.removeprefix("#/").split("/"):
        node = node.get(name) if isinstance(node, Mapping) else None
    if not reference.startswith("#/") or not isinstance(node, Mapping):
        raise ConfigError(f"JSON Schema: $ref {reference} is not in the schema")
    return node


def json_schema(kind: pa.DataType) -> dict[str, Any]:
    """The JSON Schema of an Arrow type. Every field may be missing."""
    if pa.types.is_struct(kind):
        return {"type": "object", "properties": {field.name: json_schema(field.type) for field in kind}}
    if pa.types.is_map(kind):
        return {"type": "object", "additionalProperties": json_schema(kind.item_type)}
    if pa.types.is_list(kind):
        return {"type": "array", "items": json_schema(kind.value_type)}
    if pa.types.is_integer(kind):
        return {"type": "integer"}
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return {"type": "number"}
    return {"type": "boolean" if pa.types.is_boolean(kind) else "string"}
