"""Keys and values with types: decoded in the executors, and every record that is refused says why."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import duckdb
import fastavro
import msgpack  # type: ignore[import-untyped]
import pyarrow.dataset as ds
import pytest

from ottla import EmbeddedBroker, Producer
from ottla.schemas.protobuf import message_class
from ottla.spark import Pipeline, from_avro, from_json_schema, from_protobuf
from ottla.spark.causes import cause
from tests.schemas.registry_server import descriptors

SCHEMA = {
    "type": "record",
    "name": "R",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
}
NEWER = {**SCHEMA, "fields": [{"name": "more", "type": "string"}, *SCHEMA["fields"]]}


def avro(schema: Any, row: Any) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(json.loads(json.dumps(schema))), row)
    return stream.getvalue()


def table(path: Path) -> list[dict[str, Any]]:
    rows = ds.dataset(path, partitioning="hive").to_table().to_pylist()
    query = f"select max(columns(*))::text, count(*) from '{path}/*.parquet'"
    read = duckdb.connect().execute(query).fetchall()
    assert read[0][-1] == len(rows)
    return sorted(rows, key=lambda row: row["offset"])


def pipeline(broker: EmbeddedBroker, topic: str, root: Path, **sections: Any) -> Pipeline:
    source = {"bootstrap": broker.bootstrap, "topics": [topic], "start": "earliest"}
    sink = {"format": "parquet", "path": str(root / "table")}
    letters = {"path": str(root / "bad")}
    given = {"source": source, "sink": sink, "dead_letters": letters, **sections}
    return Pipeline.of({name: value for name, value in given.items() if value})


def test_a_key_that_is_no_text_leaves_every_table_readable(
    spark: Any, broker: EmbeddedBroker, producer: Producer, topic: str, tmp_path: Path
) -> None:
    for value in (b'{"id": 1, "name": "\xff"}', b'{"id": 1', b'{"id": "one"}'):
        producer.send(topic, value, key=b"\xff\xfe", partition=0)
    producer.flush()
    decode = {"format": "json", "schema": "id long, name string"}
    pipeline(broker, topic, tmp_path, decode=decode).offline(spark)
    (good,) = table(tmp_path / "table")
    assert good["key"] == "\ufffd\ufffd"
    assert good["value"] == {"id": 1, "name": "\ufffd"}
    bad = table(tmp_path / "bad")
    assert {row["key"] for row in bad} == {b"\xff\xfe"}  # as it was
    assert "at position 8, near '{\"id\": 1'" in bad[0]["reason"]
    assert bad[1]["reason"] == 'field id: "one" is no whole number'
    strict = pipeline(broker, topic, tmp_path / "strict", decode=decode, dead_letters=None)
    with pytest.raises(Exception, match="USER_RAISED") as raised:
        strict.offline(spark)
    assert cause(str(raised.value)).startswith(f"{topic}-0 at offset ")
    assert "not JSON with the fields" in cause(str(raised.value))


def test_avro_and_msgpack_without_a_jar(
    spark: Any, broker: EmbeddedBroker, producer: Producer, topic: str, tmp_path: Path
) -> None:
    (tmp_path / "1.avsc").write_text(json.dumps(SCHEMA))
    (tmp_path / "2.avsc").write_text(json.dumps(NEWER))
    (tmp_path / "orders-value.avsc").write_text(json.dumps(SCHEMA))
    first = b"\0\0\0\0\1" + avro(SCHEMA, {"id": 1, "at": 60_000})
    second = b"\0\0\0\0\2" + avro(NEWER, {"more": "x", "id": 2, "at": 0})
    key = msgpack.packb({"user": 5})
    for value in (first, second, second[:-1], b"no frame"):
        producer.send(topic, value, key=key, partition=0)
    producer.send(topic, first, key=b"\xc1", partition=0)
    producer.flush()
    decode = {
        "format": "avro",
        "registry": str(tmp_path),
        "subject": "orders-value",
        "key": {"format": "msgpack", "schema": "user long"},
    }
    sql = "select key.user, value.*, offset from records"
    pipeline(broker, topic, tmp_path, decode=decode, transform={"sql": sql}).offline(spark)
    good = table(tmp_path / "table")
    assert [(row["user"], row["id"], row["at"].timestamp()) for row in good] == [(5, 1, 60.0), (5, 2, 0.0)]
    reasons = [row["reason"] for row in table(tmp_path / "bad")]
    for told, words in zip(
        reasons, ("in the middle of a field", "no frame", "key: not MessagePack"), strict=True
    ):
        assert words in told


def test_protobuf_csv_and_text_without_a_jar(
    spark: Any, broker: EmbeddedBroker, producer: Producer, topic: str, tmp_path: Path
) -> None:
    (tmp_path / "shop.desc").write_bytes(descriptors())
    order = message_class(descriptors(), "shop.Order")
    value = order(id=3, items=[{"price": 1.5}], kind=1).SerializeToString()
    for key, sent in ((b"eu,7", value), (b"eu,x", value), (b"us,8", b"\x0a")):
        producer.send(topic, sent, key=key, partition=0)
    producer.flush()
    decode = {
        "format": "protobuf",
        "schema_file": str(tmp_path / "shop.desc"),
        "message": "shop.Order",
        "key": {"format": "csv", "schema": "region string, user int"},
    }
    sql = "select key.*, value.id, value.kind, value.items[0].price as price, offset from records"
    pipeline(broker, topic, tmp_path, decode=decode, transform={"sql": sql}).offline(spark)
    wanted = {"region": "eu", "user": 7, "id": 3, "kind": "GIFT", "price": 1.5, "offset": 0}
    assert table(tmp_path / "table") == [wanted]
    bad_key, bad_value = table(tmp_path / "bad")
    assert bad_key["reason"] == "key: not CSV with the fields region string, user int"
    assert bad_key["key"] == b"eu,x"
    assert "not a message shop.Order" in bad_value["reason"]
    texts = pipeline(broker, topic, tmp_path / "texts", decode={"format": "text"}, dead_letters=None)
    texts.offline(spark)
    assert table(tmp_path / "texts" / "table")[2]["value"] == "\n"


def test_functions_decode_columns(spark: Any) -> None:
    data = avro(SCHEMA, {"id": 7, "at": 0})
    rows = spark.createDataFrame([(bytearray(data),), (bytearray(b"x"),)], "value binary")
    decoded = rows.select(from_avro("value", json.dumps(SCHEMA), mode="PERMISSIVE").alias("row"))
    assert [row.row and row.row.id for row in decoded.collect()] == [7, None]
    with pytest.raises(Exception, match="in the middle of a field"):
        rows.select(from_avro("value", json.dumps(SCHEMA))).collect()
    made = message_class(descriptors(), "shop.Order")(id=5).SerializeToString()
    messages = spark.createDataFrame([(bytearray(made),), (bytearray(b"\x0a"),)], "value binary")
    read = from_protobuf("value", "shop.Order", descriptors(), mode="PERMISSIVE").alias("row")
    assert [row.row and row.row.id for row in messages.select(read).collect()] == [5, None]
    with pytest.raises(Exception, match=r"not a message shop\.Order"):
        messages.select(from_protobuf("value", "shop.Order", descriptors())).collect()
    texts = spark.createDataFrame([(bytearray(b'{"n": [1, 2]}'),)], "value binary")
    schema = {"properties": {"n": {"type": "array", "items": {"type": "integer"}}}}
    (row,) = texts.select(from_json_schema("value", json.dumps(schema)).alias("row")).collect()
    assert row.row.n == [1, 2]
