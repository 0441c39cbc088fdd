"""Avro to Arrow and back: with one schema, or with each value's own schema from a registry.

A value is decoded with the schema that it was written with and brought into the reader's schema by Avro's
rules, so that schemas may change over time. Values that were written with the reader's schema are decoded
column by column; all others, and those that cannot be decoded, one by one by fastavro.
"""

from __future__ import annotations

import io
import json
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ottla.model.errors import ConfigError, OttlaError
from ottla.schemas.avro_columns import column_reader, read_column
from ottla.schemas.decoded import DecodedValues, Undecodable, decoded_one_by_one, spread
from ottla.schemas.framing import HEADER_BYTES, frame_ids, framed
from ottla.schemas.registry import Kept, Schemas, SchemaText

_PRIMITIVES: dict[str, pa.DataType] = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
}
_LOGICAL: dict[str, pa.DataType] = {
    "date": pa.date32(),
    "timestamp-millis": pa.timestamp("us", tz="UTC"),
    "timestamp-micros": pa.timestamp("us", tz="UTC"),
    "local-timestamp-millis": pa.timestamp("us"),
    "local-timestamp-micros": pa.timestamp("us"),
}
NO_ROWS = np.zeros(0, np.int64)
_UNUSED = {"uuid", "time-millis", "time-micros", "duration"}
"""Logical types whose values stay as they are stored."""


class AvroDecoder:
    """Values of one reader schema. With `schemas`, values are framed, and each names its writer's schema."""

    def __init__(self, schema: str, schemas: Schemas | None = None, *, skip_bytes: int = 0) -> None:
        check_installed()
        self._schema = schema
        self._schemas = schemas
        self._skip_bytes = skip_bytes
        self._reader = parsed(schema)
        self._type = arrow_type(self._reader)
        self._columns = column_reader(self._reader)
        self._writers: Kept[Any] = Kept(time.monotonic)

    @property
    def type(self) -> pa.DataType:
        """The reader schema's type."""
        return self._type

    def decode(self, column: pa.Array) -> DecodedValues:
        """Decode a column of bytes."""
        rows = self._columnar_rows(column) if self._columns is not None else NO_ROWS
        values = None
        if rows.size:
            assert self._columns is not None
            skipped = self._skip_bytes if self._schemas is None else HEADER_BYTES
            chosen = column if rows.size == len(column) else column.take(pa.array(rows))
            try:
                values, failed = read_column(chosen, self._columns, skipped)
                rows, values = (rows[~failed], values.filter(~failed)) if failed.any() else (rows, values)
            except pa.ArrowInvalid:  # a text that is not UTF-8
                values = None
        if values is None:
            return decoded_one_by_one(column, self._type, self.row)
        values = values.cast(self._type) if values.type != self._type else values
        if rows.size == len(column):
            return DecodedValues(values, pa.nulls(len(column), pa.string()))
        return self._merged(column, values, rows)

    def _columnar_rows(self, column: pa.Array) -> npt.NDArray[np.int64]:
        """The rows that were written with the reader's schema, as far as their frames say."""
        if column.null_count:
            rows = np.flatnonzero(~column.is_null().to_numpy(zero_copy_only=False))
        else:
            rows = np.arange(len(column))
        if self._schemas is None or not rows.size:
            return rows
        ids = frame_ids(column if rows.size == len(column) else column.take(pa.array(rows)))
        if (ids == ids[0]).all():  # the usual case
            return rows if ids[0] >= 0 and self._is_own(int(ids[0])) else NO_ROWS
        same = [number for number in np.unique(ids).tolist() if number >= 0 and self._is_own(number)]
        return rows[np.isin(ids, same)]

    def lookup(self, column: pa.Array) -> Callable[[], None] | None:
        """A function that asks the registry for the schemas of values; None if all are known."""
        if self._schemas is None:
            return None
        ids = np.unique(frame_ids(column.drop_null())).tolist()
        missing = [number for number in ids if number >= 0 and number not in self._writers]
        return partial(self._learn, missing) if missing else None

    def _learn(self, schema_ids: Iterable[int]) -> None:
        for number in schema_ids:
            with suppress(OttlaError):  # reported for each value
                self._writer(number)

    def _is_own(self, schema_id: int) -> bool:
        try:
            return bool(self._writer(schema_id) == self._reader)
        except OttlaError:
            return False  # reported for each value

    def _merged(self, column: pa.Array, values: pa.Array, rows: npt.NDArray[np.int64]) -> DecodedValues:
        """Return the values that were decoded together, and the others one by one."""
        others = np.setdiff1d(np.arange(len(column)), rows)
        made = decoded_one_by_one(column.take(pa.array(others)), self._type, self.row)
        order = np.empty(len(column), np.int64)
        order[rows] = np.arange(rows.size)
        order[others] = rows.size + np.arange(others.size)
        whole = pa.concat_arrays([values, made.values]).take(pa.array(order))
        return DecodedValues(whole, spread(made.reasons, others, len(column)))

    def __reduce__(self) -> tuple[Any, ...]:
        return _remade, (self._schema, self._schemas, self._skip_bytes)

    def row(self, value: bytes) -> Any:
        """Decode one value. Raises Undecodable, and what fastavro raises."""
        writer, payload = self._reader, value[self._skip_bytes :]
        if self._schemas is not None:
            schema_id, payload = framed(value)
            writer = self._writer(schema_id)
        return row_of(payload, writer, self._reader)

    def _writer(self, schema_id: int) -> Any:
        schemas = self._schemas
        assert schemas is not None
        return self._writers.get(schema_id, lambda: parsed_with_references(schemas.by_id(schema_id), schemas))


def _remade(schema: str, schemas: Schemas | None, skip_bytes: int) -> AvroDecoder:
    return AvroDecoder(schema, schemas, skip_bytes=skip_bytes)


def avro_bytes(row: Any, parsed_schema: Any) -> bytes:
    """A row in Avro's binary form. Raises Undecodable for one that does not fit the schema."""
    import fastavro

    stream = io.BytesIO()
    try:
        fastavro.schemaless_writer(stream, parsed_schema, row)
    except Exception as error:  # noqa: BLE001 - it has many kinds
        raise Undecodable(f"the row does not fit its schema: {error or type(error).__name__}") from None
    return stream.getvalue()


def row_of(payload: bytes, writer: Any, reader: Any = None) -> Any:
    """A value of the writer's schema, as the reader's schema has it. Raises Undecodable."""
    import fastavro

    stream = io.BytesIO(payload)
    try:
        made = fastavro.schemaless_reader(stream, writer, reader)
    except EOFError:
        raise Undecodable(f"it ends in the middle of a field, after {len(payload)} bytes") from None
    left = len(payload) - stream.tell()
    if left:
        raise Undecodable(f"{left} bytes are left at position {stream.tell()}, after the last field")
    return made


def check_installed() -> None:
    """Raise ConfigError if fastavro is not installed."""
    try:
        import fastavro  # noqa: F401
    except ImportError as error:
        raise ConfigError("Avro needs fastavro: pip install 'ottla[schemas]'") from error


def parsed(schema: str, named: dict[str, Any] | None = None) -> Any:
    """The schema as fastavro wants it. Raises ConfigError."""
    import fastavro

    try:
        return fastavro.parse_schema(_plain(json.loads(schema)), named_schemas={} if named is None else named)
    except (ValueError, KeyError, TypeError, RecursionError, fastavro.schema.SchemaParseException) as error:
        raise ConfigError(f"schema of avro: {error or type(error).__name__}") from None


def parsed_with_references(schema: SchemaText, schemas: Schemas) -> Any:
    """A schema of a registry, with those that it names. Raises Undecodable for one that is not Avro."""
    if schema.kind != "AVRO":
        raise Undecodable(f"its schema is one of {schema.kind}, not Avro")
    named: dict[str, Any] = {}
    for reference in schema.references:
        other = schemas.referenced(reference)
        for nested in other.references:
            parsed(schemas.referenced(nested).text, named)
        parsed(other.text, named)
    return parsed(schema.text, named)


def _plain(node: Any) -> Any:
    """Return the schema without logical types whose values Arrow does not accept from fastavro."""
    if isinstance(node, list):
        return [_plain(item) for item in node]
    if not isinstance(node, dict):
        return node
    dropped = {"logicalType"} if node.get("logicalType") in _UNUSED else set()
    return {name: _plain(value) for name, value in node.items() if name not in dropped}


def arrow_type(schema: Any, named: dict[str, pa.DataType] | None = None) -> pa.DataType:
    """The Arrow type of a parsed schema. Raises ConfigError for unions of several types and for recursion."""
    known = {} if named is None else named
    if isinstance(schema, list):
        return arrow_type(_only_type(schema), known)
    if isinstance(schema, dict):
        return _complex_type(schema, known)
    kind = _PRIMITIVES.get(schema) or known.get(schema)
    if kind is None:
        raise ConfigError(f"schema of avro: {schema} contains itself, or is not there")
    return kind


def _only_type(union: list[Any]) -> Any:
    others = [branch for branch in union if branch != "null"]
    if len(others) != 1:
        raise ConfigError("schema of avro: a union of several types has no column type; keep one and null")
    return others[0]


def _complex_type(schema: dict[str, Any], known: dict[str, pa.DataType]) -> pa.DataType:
    logical = schema.get("logicalType")
    if logical == "decimal":
        return pa.decimal128(schema["precision"], schema.get("scale", 0))
    if logical in _LOGICAL:
        return _LOGICAL[logical]
    made = _MAKERS.get(schema["type"])
    return arrow_type(schema["type"], known) if made is None else made(schema, known)


def _record(schema: dict[str, Any], known: dict[str, pa.DataType]) -> pa.DataType:
    fields = [pa.field(field["name"], arrow_type(field["type"], known)) for field in schema["fields"]]
    known[schema["name"]] = pa.struct(fields)
    return known[schema["name"]]


def _named(kind: pa.DataType) -> Maker:
    def made(schema: dict[str, Any], known: dict[str, pa.DataType]) -> pa.DataType:
        known[schema["name"]] = kind
        return kind

    return made


Maker = Callable[[dict[str, Any], dict[str, pa.DataType]], pa.DataType]
_MAKERS: dict[str, Maker] = {
    "record": _record,
    "error": _record,
    "enum": _named(pa.string()),
    "fixed": _named(pa.binary()),
    "array": lambda schema, known: pa.list_(arrow_type(schema["items"], known)),
    "map": lambda schema, known: pa.map_(pa.string(), arrow_type(schema["values"], known)),
}
