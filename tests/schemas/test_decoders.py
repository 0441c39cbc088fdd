"""Bytes of Avro, Protobuf, JSON and MessagePack become columns; what cannot be decoded says why."""

from __future__ import annotations

import json
import pickle
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgpack  # type: ignore[import-untyped]
import pyarrow as pa
import pytest

from ottla import ConfigError
from ottla.schemas import SchemaFiles
from ottla.schemas.avro import AvroDecoder
from ottla.schemas.framing import framed, message_indexes
from ottla.schemas.json_values import JsonDecoder, arrow_type, reason
from ottla.schemas.msgpack import MsgpackDecoder
from ottla.schemas.protobuf import ProtobufDecoder, message_class
from tests.schemas.registry_server import avro, descriptors

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "text", "type": ["null", "string"], "default": None},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "more", "type": {"type": "map", "values": "int"}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["a", "b"]}},
        {"name": "key", "type": {"type": "string", "logicalType": "uuid"}},
    ],
}
ROW: dict[str, Any] = {
    "id": 7,
    "text": "x",
    "at": datetime(2026, 1, 31, tzinfo=UTC),
    "price": Decimal("1.25"),
    "tags": ["p", "q"],
    "more": {"n": 1},
    "kind": "b",
    "key": "00000000-0000-0000-0000-000000000001",
}


def test_avro_becomes_columns_and_says_what_is_wrong() -> None:
    decoder = pickle.loads(pickle.dumps(AvroDecoder(json.dumps(ORDER))))
    good = avro(ORDER, ROW)
    values, reasons = decoder.decode(pa.array([good, None, good[:3], good + b"\0\0"]))
    first, *others = values.to_pylist()
    assert first == {**ROW, "more": [("n", 1)]}
    assert others == [None, None, None]
    assert reasons[0].as_py() is reasons[1].as_py() is None
    assert "it ends in the middle of a field, after 3 bytes" in reasons[2].as_py()
    assert f"2 bytes are left at position {len(good)}" in reasons[3].as_py()


def test_avro_of_older_and_newer_writers_is_read_by_one_schema(tmp_path: Path) -> None:
    old = {"type": "record", "name": "R", "fields": [{"name": "id", "type": "int"}]}
    new = {
        "type": "record",
        "name": "R",
        "fields": [
            {"name": "extra", "type": "string"},
            {"name": "id", "type": "long"},
            {"name": "n", "type": "int", "default": 9},
        ],
    }
    reader = {"type": "record", "name": "R", "fields": new["fields"][1:]}
    (tmp_path / "1.avsc").write_text(json.dumps(old))
    (tmp_path / "2.avsc").write_text(json.dumps(new))
    decoder = AvroDecoder(json.dumps(reader), SchemaFiles(tmp_path))
    rows = [b"\0\0\0\0\1" + avro(old, {"id": 1}), b"\0\0\0\0\2" + avro(new, {"extra": "e", "id": 2, "n": 3})]
    values, reasons = decoder.decode(pa.array([*rows, b"\0\0\0\0\3\2", b'{"id": 1}']))
    assert values.to_pylist() == [{"id": 1, "n": 9}, {"id": 2, "n": 3}, None, None]
    assert "has no 3.avsc" in reasons[2].as_py()
    assert "there is no frame of a schema registry" in reasons[3].as_py()
    assert """begins with '{"id"'""" in reasons[3].as_py()


@pytest.mark.parametrize(
    "schema",
    [
        '{"type": "record"',
        '{"type": "record", "name": "R", "fields": [{"name": "a", "type": ["int", "string"]}]}',
        '{"type": "record", "name": "R", "fields": [{"name": "a", "type": ["null", "R"]}]}',
        '{"type": "nothing"}',
        5_000 * '{"type": "array", "items": ' + '"int"' + 5_000 * "}",
    ],
)
def test_a_schema_that_has_no_columns_is_refused(schema: str) -> None:
    with pytest.raises(ConfigError, match="schema of avro"):
        AvroDecoder(schema)


def test_protobuf_becomes_columns_and_says_what_is_wrong(tmp_path: Path) -> None:
    data = descriptors()
    order = message_class(data, "shop.Order")
    made = order(id=3, items=[{"price": 1.5}], kind=1, at={"seconds": 60}, more={"n": 2})
    rows = [made.SerializeToString(), b"", None, b"\x0a"]
    values, reasons = pickle.loads(pickle.dumps(ProtobufDecoder(data, "shop.Order"))).decode(pa.array(rows))
    assert values.to_pylist() == [
        {
            "id": 3,
            "text": None,
            "items": [{"price": 1.5}],
            "kind": "GIFT",
            "at": datetime(1970, 1, 1, 0, 1, tzinfo=UTC),
            "more": [("n", 2)],
        },
        {"id": 0, "text": None, "items": [], "kind": "NONE", "at": None, "more": []},
        None,
        None,
    ]
    assert "not a message shop.Order" in reasons[3].as_py()
    in_frame = ProtobufDecoder(data, "shop.Order", SchemaFiles(tmp_path))
    values, reasons = in_frame.decode(pa.array([b"\0\0\0\0\1\2\2" + rows[0], rows[0]]))
    assert values[0]["id"].as_py() == 3
    assert "no frame" in reasons[1].as_py()
    with pytest.raises(ConfigError, match=r"there are .*shop\.Order"):
        message_class(data, "shop.Ordre")


def test_frames() -> None:
    assert framed(b"\0\0\0\1\0xyz") == (256, b"xyz")
    assert message_indexes(b"\0rest") == ((0,), b"rest")
    assert message_indexes(b"\4\2\4rest") == ((1, 2), b"rest")


def test_json_says_the_field_and_the_position() -> None:
    item = pa.struct([pa.field("price", pa.float64()), pa.field("count", pa.int32())])
    kind = pa.struct([pa.field("id", pa.int64()), pa.field("items", pa.list_(item))])
    assert reason(b'{"id": 1, "items": [{"price": 2}], "unknown": []}', kind) is None
    for text, words in {
        b'{"id": 1, "items": [{"price": 1}, {"price": "free"}]}': 'field items[1].price: "free" is no number',
        b'{"id": 1.5}': "field id: 1.5 is no whole number",
        b'{"items": [{"count": 3000000000}]}': "field items[0].count: 3000000000 is no number of 32 bits",
        b'{"items": 3}': "field items: 3 is no array",
        b"[1]": "[1] is no object",
        b'{"id": 1,, "x"': 'at position 9, near \'{"id": 1,, "x"\'',
        b'{"id": \xff}': "not UTF-8: byte 0xff at position 7",
        b'{"id": ' + 5_000 * b"1" + b"}": "JSON that is not read: Exceeds the limit (4300 digits)",
        b'{"id": ' + 5_000 * b"[" + 5_000 * b"]" + b"}": "JSON that is not read: maximum recursion depth",
    }.items():
        assert words in str(reason(text, kind))
    values, reasons = JsonDecoder(kind).decode(pa.array([b'{"id": 5}', b"{"]))
    assert values.to_pylist() == [{"id": 5, "items": None}, None]
    assert "not JSON" in reasons[1].as_py()


def test_json_schema_has_columns() -> None:
    schema = {
        "$defs": {"item": {"type": "object", "properties": {"n": {"type": ["integer", "null"]}}}},
        "properties": {
            "items": {"type": "array", "items": {"$ref": "#/$defs/item"}},
            "name": {"oneOf": [{"type": "null"}, {"type": "string"}]},
            "more": {"type": "object", "additionalProperties": {"type": "number"}},
        },
    }
    item = pa.struct([pa.field("n", pa.int64())])
    assert arrow_type(schema) == pa.struct(
        [
            pa.field("items", pa.list_(item)),
            pa.field("name", pa.string()),
            pa.field("more", pa.map_(pa.string(), pa.float64())),
        ]
    )
    for wrong in (
        {"type": ["string", "integer"]},
        {"$ref": "#/$defs/x"},
        {"$defs": {"a": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"},
    ):
        with pytest.raises(ConfigError, match="JSON Schema"):
            arrow_type(wrong)


def test_msgpack_becomes_columns() -> None:
    decoder = MsgpackDecoder(pa.struct([pa.field("id", pa.int64())]))
    values, reasons = decoder.decode(
        pa.array([msgpack.packb({"id": 4}), b"\xc1", msgpack.packb({"id": "x"})])
    )
    assert values.to_pylist() == [{"id": 4}, None, None]
    assert "not MessagePack" in reasons[1].as_py()
    assert 'field id: "x" is no whole number' in reasons[2].as_py()
