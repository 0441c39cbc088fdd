"""Values with types: Avro and JSON to Arrow by ours and by what can be installed, per CPU second.

An order has a text, whole and decimal numbers, a time, an optional text and a list. Everybody begins with the
Arrow column of bytes that a consumer has, and ends with an Arrow column or table. Avro values have the frame
of a registry. `pyruhvro` knows no frames: taking them off is part of what it is measured with.
"""

from __future__ import annotations

import importlib
import json
import random
from collections.abc import Callable, Iterator, Sequence
from io import BytesIO
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.harness import Case, Effort, Measure, Peer, benchmark, rate, version_of
from ottla.kernels import hasten
from ottla.schemas.framing import with_frame
from ottla.schemas.registry import SchemaText
from ottla.schemas.schema import Schema

AVRO: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "item", "type": "string"},
        {"name": "price", "type": "double"},
        {"name": "count", "type": "int"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
    ],
}
JSON_TYPE = pa.struct(
    {
        "id": pa.int64(),
        "item": pa.string(),
        "price": pa.float64(),
        "count": pa.int64(),
        "at": pa.int64(),
        "note": pa.string(),
        "tags": pa.list_(pa.string()),
    }
)
CHUNK_ROWS = 30_000
"""About what a chunk of 2 MB has, the default size of a fetch."""
SCHEMA_ID = 1
CONFLUENT_TARGET, ARROW_TARGET = 20.0, 1.0

Convert = Callable[[pa.Array], object]


@benchmark("schemas-avro")
def avro(effort: Effort) -> Iterator[Case]:
    """Framed values of Avro."""
    hasten()
    schema = Schema.avro(AVRO)
    column = pa.array([with_frame(SCHEMA_ID, schema.value(row)) for row in orders()], pa.binary())
    registry = _OneSchema(SchemaText("AVRO", json.dumps(AVRO)))
    ours = Schema.avro(AVRO, registry=registry)  # type: ignore[arg-type]  # readers ask for ids only
    expected = ours.decode(column).values
    confluent = _confluent(json.dumps(AVRO))
    peers = [
        _peer("confluent-kafka", lambda: confluent, column, expected, CONFLUENT_TARGET),
        _peer("fastavro", lambda: _fastavro, column, expected, None),
        _peer("pyruhvro", _pyruhvro, column, expected, ARROW_TARGET),
        Peer("polars-avro", version_of("polars-avro") or "", note="reads files only, no values without one"),
    ]
    yield Case(
        f"avro to arrow, {CHUNK_ROWS} orders",
        "values/s",
        _measure(lambda column: ours.decode(column), column),
        peers,
        effort.rounds,
    )


@benchmark("schemas-json")
def json_values(effort: Effort) -> Iterator[Case]:
    """Texts of JSON."""
    texts = [json.dumps({**row, "at": int(row["at"])}).encode() for row in orders()]
    column = pa.array(texts, pa.binary())
    ours = Schema.json(JSON_TYPE)
    expected = ours.decode(column).values
    peers = [
        _peer(name, lambda convert=convert: convert, column, expected, target)  # type: ignore[misc]
        for name, convert, target in (
            ("pyarrow", _pyarrow_json, None),
            ("polars", _polars, None),
            ("duckdb", _duckdb, None),
            ("msgspec", _msgspec, ARROW_TARGET),
            ("orjson", _orjson, ARROW_TARGET),
        )
    ]
    measure = _measure(lambda column: ours.decode(column), column)
    yield Case(f"json to arrow, {CHUNK_ROWS} orders", "values/s", measure, peers, effort.rounds)


def orders() -> list[dict[str, Any]]:
    """Rows, the same each time."""
    chance = random.Random(20)
    return [
        {
            "id": chance.randrange(1 << 40),
            "item": f"item-{chance.randrange(1000)}",
            "price": round(chance.random() * 100, 2),
            "count": chance.randrange(1, 9),
            "at": 1_700_000_000_000_000 + number,
            "note": f"note {number}" if chance.random() < 0.3 else None,
            "tags": [f"tag{chance.randrange(9)}" for _ in range(chance.randrange(3))],
        }
        for number in range(CHUNK_ROWS)
    ]


class _OneSchema:
    """A registry with one schema."""

    def __init__(self, schema: SchemaText) -> None:
        self._schema = schema

    def by_id(self, schema_id: int) -> SchemaText:
        """The schema."""
        assert schema_id == SCHEMA_ID
        return self._schema


def _measure(convert: Convert, column: pa.Array) -> Measure:
    return rate(lambda: convert(column), len(column))


def _peer(
    name: str, load: Callable[[], Convert], column: pa.Array, expected: pa.Array, target: float | None
) -> Peer:
    version = version_of(name)
    if version is None:
        return Peer(name, note="not installed", target=target)
    convert = load()
    _check(name, convert(column), expected)
    return Peer(name, version, _measure(convert, column), target=target)


def _check(name: str, made: Any, expected: pa.Array) -> None:
    """Everybody finds the same orders."""
    table = pa.table(made)
    for field in ("id", "item", "count", "note"):
        found = pa.chunked_array(table[field].chunks).to_pylist()
        if found != pc.struct_field(expected, field).to_pylist():
            raise RuntimeError(f"{name} has other values of {field}")


def _rows_to_arrow(rows: Sequence[Any]) -> pa.Table:
    return pa.Table.from_struct_array(pa.array(rows, JSON_TYPE))


# --- Avro


def _confluent(schema: str) -> Convert:
    from confluent_kafka.schema_registry import Schema as TheirSchema
    from confluent_kafka.schema_registry import SchemaRegistryClient
    from confluent_kafka.schema_registry.avro import AvroDeserializer
    from confluent_kafka.serialization import MessageField, SerializationContext

    registry: Any = SchemaRegistryClient.new_client({"url": "mock://"})
    registry.register_schema("orders-value", TheirSchema(schema, "AVRO"))
    decode: Any = AvroDeserializer(registry, schema)
    context: Any = SerializationContext("orders", MessageField.VALUE)
    kind = Schema.avro(schema).type
    return lambda column: pa.Table.from_struct_array(
        pa.array([decode(value, context) for value in column.to_pylist()], kind)
    )


def _fastavro(column: pa.Array) -> pa.Table:
    import fastavro

    parsed = fastavro.parse_schema(AVRO)
    rows = [fastavro.schemaless_reader(BytesIO(value[5:]), parsed) for value in column.to_pylist()]
    return pa.Table.from_struct_array(pa.array(rows, Schema.avro(AVRO).type))


def _pyruhvro() -> Convert:
    decode = importlib.import_module("pyruhvro").deserialize_array
    text = json.dumps(AVRO)
    return lambda column: decode([value[5:] for value in column.to_pylist()], text)


# --- JSON


def _lines(column: pa.Array) -> bytes:
    return b"\n".join(column.to_pylist())


def _pyarrow_json(column: pa.Array) -> pa.Table:
    from pyarrow import json as parser

    options = parser.ParseOptions(explicit_schema=pa.schema(list(JSON_TYPE)))
    return parser.read_json(pa.BufferReader(_lines(column)), parse_options=options)


def _polars(column: pa.Array) -> pa.Table:
    import polars

    return polars.read_ndjson(BytesIO(_lines(column))).to_arrow()


def _duckdb(column: pa.Array) -> pa.Table:
    import duckdb

    texts = pa.table({"text": column.cast(pa.string())})
    structure = json.dumps(
        {
            "id": "BIGINT",
            "item": "VARCHAR",
            "price": "DOUBLE",
            "count": "BIGINT",
            "at": "BIGINT",
            "note": "VARCHAR",
            "tags": ["VARCHAR"],
        }
    )
    with duckdb.connect() as connection:
        connection.register("texts", texts)
        made = connection.sql(f"select unnest(json_transform(text, '{structure}')) from texts")
        return made.to_arrow_table()


def _msgspec(column: pa.Array) -> pa.Table:
    import msgspec

    decode = msgspec.json.Decoder().decode
    return _rows_to_arrow([decode(value) for value in column.to_pylist()])


def _orjson(column: pa.Array) -> pa.Table:
    loads = importlib.import_module("orjson").loads
    return _rows_to_arrow([loads(value) for value in column.to_pylist()])
