"""Avro and Protobuf in SQL, search and the console: by a registry over HTTP, and by files."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import descriptor_pb2

import ottla
from ottla import EmbeddedBroker, Producer
from ottla.console.server import ConsoleServer
from ottla.schemas.json_texts import JsonTexts
from ottla.schemas.protobuf import message_class
from ottla.schemas.registry import RegistryFailed, SchemaRegistry
from tests.cli.kafka.conftest import ours
from tests.console.visitor import Visitor
from tests.schemas.registry_server import Registry, avro, descriptors, in_frame, registry
from tests.waiting import wait_for

OLD: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "user", "type": "string"},
        {"name": "amount", "type": "int"},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["NONE", "GIFT"]}},
    ],
}
NEW: dict[str, Any] = {
    **OLD,
    "fields": [
        *OLD["fields"],
        {"name": "made", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "seal", "type": "bytes"},
        {"name": "note", "type": ["null", "string", "int"]},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
    ],
}
AT = datetime(2026, 11, 18, 3, 0, tzinfo=UTC)
RECORDS = 40


def row(number: int) -> dict[str, Any]:
    order = {"user": f"user-{number % 3}", "amount": number, "kind": "GIFT" if number % 2 else "NONE"}
    later = {"made": AT, "day": date(2026, 11, 18), "price": Decimal("12.50"), "seal": b"\xff\0"}
    return {**order, **later, "note": number, "tags": ["a", "b"]}


def serialized(data: bytes) -> str:
    """The last file of a descriptor set, as a registry gives it: imports of Protobuf itself are not there."""
    file = descriptor_pb2.FileDescriptorSet.FromString(data).file[-1]
    return base64.b64encode(file.SerializeToString()).decode()


@pytest.fixture(scope="module")
def schemas() -> Iterator[Registry]:
    proto = serialized(descriptors())
    answers = {
        "/schemas/ids/1": {"schema": json.dumps(OLD)},
        "/schemas/ids/2": {"schema": json.dumps(NEW)},
        "/schemas/ids/3": {"schema": '"string"'},
        "/schemas/ids/4": {"schema": "message Order {}", "schemaType": "PROTOBUF"},
        "/schemas/ids/4?format=serialized": {"schema": proto, "schemaType": "PROTOBUF"},
        "/schemas/ids/5": {"schema": "{}", "schemaType": "JSON"},
    }
    with registry(answers) as server:
        yield server


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedBroker]:
    """orders: Avro of two versions with Avro keys, and a value of an unknown schema; sales: Protobuf; …"""
    order = message_class(descriptors(), "shop.Order")
    with EmbeddedBroker() as broker, Producer(bootstrap_servers=broker.bootstrap) as producer:
        for number in range(RECORDS):
            new = number >= RECORDS // 2
            value = in_frame(2, avro(NEW, row(number))) if new else in_frame(1, avro(OLD, row(number)))
            key = in_frame(3, avro("string", f"table {number % 4}"))
            producer.send("orders", value, key=key, partition=0)
            sale = order(id=number + 2**60, kind=1, at={"seconds": 60}, items=[{"price": 1.5}])
            producer.send("sales", in_frame(4, b"\x02\x02" + sale.SerializeToString()), partition=0)
            producer.send("notes", in_frame(5, json.dumps({"n": number}).encode()), partition=0)
            producer.send("bare", avro(OLD, row(number)), partition=0)
            producer.send("plain", json.dumps({"user": "ann", "n": number}), partition=0)
        producer.send("orders", in_frame(99, b"?"), key=b"\xff", partition=0)
        producer.flush()
        yield broker


def rows(cluster: EmbeddedBroker, query: str, schemas: str) -> list[dict[str, Any]]:
    return ottla.sql(query, schemas=schemas, bootstrap_servers=cluster.bootstrap).to_pylist()


def test_fields_of_avro_have_the_types_of_their_schemas(cluster: EmbeddedBroker, schemas: Registry) -> None:
    query = (
        'select amount, "user", kind, made, day, price, seal, note, tags->>0 as tag, key from orders'
        " where kind = 'GIFT' and key = 'table 3' and made > '2026-11-18T00:00:00Z' order by amount limit 1"
    )
    assert rows(cluster, query, schemas.url) == [
        {
            "amount": 23,
            "user": "user-2",
            "kind": "GIFT",
            "made": AT,
            "day": date(2026, 11, 18),
            "price": Decimal("12.50"),
            "seal": b"\xff\0",
            "note": "23",
            "tag": "a",
            "key": "table 3",
        }
    ]
    counts = "select count(*) as rows, count(amount) as decoded, count(made) as new from orders"
    assert rows(cluster, counts, schemas.url) == [
        {"rows": RECORDS + 1, "decoded": RECORDS, "new": RECORDS // 2}
    ]
    unknown = rows(cluster, "select raw_value from orders where amount is null", schemas.url)
    assert unknown == [{"raw_value": in_frame(99, b"?")}]


def test_protobuf_and_json_in_a_frame(cluster: EmbeddedBroker, schemas: Registry) -> None:
    query = "select id, kind, \"at\" as made, items->0->>'price' as price from sales order by id limit 1"
    assert rows(cluster, query, schemas.url) == [
        {"id": 2**60, "kind": "GIFT", "made": datetime(1970, 1, 1, 0, 1, tzinfo=UTC), "price": "1.5"}
    ]
    assert rows(cluster, "select sum(n)::int as n from notes", schemas.url) == [{"n": sum(range(RECORDS))}]
    assert rows(cluster, "select count(*) as n from plain where \"user\" = 'ann'", schemas.url) == [
        {"n": RECORDS}
    ]


def test_files_decode_values_without_a_frame(cluster: EmbeddedBroker, tmp_path: Path) -> None:
    (tmp_path / "bare-value.avsc").write_text(json.dumps(OLD))
    (tmp_path / "4.desc").write_bytes(descriptors())
    query = "select sum(amount)::int as n from bare where kind = 'GIFT'"
    assert rows(cluster, query, str(tmp_path)) == [{"n": sum(range(1, RECORDS, 2))}]
    assert rows(cluster, "select count(id) as n from sales", str(tmp_path)) == [{"n": RECORDS}]


def test_search_prints_what_it_decodes(cluster: EmbeddedBroker, schemas: Registry) -> None:
    at = ("-b", cluster.bootstrap, "--schemas", schemas.url)
    found = ours("search", "orders", "--where", "amount = 30", "--format", "json", *at)
    assert found.code == 0, found.complaints
    line = json.loads(found.printed)
    assert (line["key"], line["encoding"]) == ("table 2", "utf-8")
    assert json.loads(line["value"])["price"] == "12.50"
    assert ours("search", "orders", "--contains", "user-1", "-n", "1", *at).printed.startswith(
        '0:1\ttable 1\t{"user": "user-1", "amount": 1'
    )
    assert "amount" in ours("sql", "select amount from orders limit 1", "--format", "tsv", *at).printed


def test_the_console_shows_what_it_decodes(cluster: EmbeddedBroker, schemas: Registry) -> None:
    with ConsoleServer({"bootstrap.servers": cluster.bootstrap}, schemas=schemas.url) as console:
        console.start()
        wait_for(lambda: console.snapshot.at, "the first look")
        visitor = Visitor(console.url)
        _, text, *_ = visitor.ask("GET", "/topics/orders/messages?partition=0&offset=25")
        assert "&#34;price&#34;: &#34;12.50&#34;" in text
        assert "table 1" in text
        _, text, *_ = visitor.ask("GET", "/topics/orders/download?where=amount+%3D+31")
        assert json.loads(json.loads(text)["value"])["amount"] == 31
    with ConsoleServer(
        {"bootstrap.servers": cluster.bootstrap}, schemas="http://a:s3cret@127.0.0.1:1"
    ) as console:
        console.start()
        _, text, *_ = Visitor(console.url).ask("GET", "/topics/orders/messages?partition=0&offset=25")
        assert "Values are not decoded" in text
        assert "s3cret" not in text


def test_a_registry_that_fails_is_an_error_of_the_query_and_asked_again_later(
    cluster: EmbeddedBroker, schemas: Registry
) -> None:
    with pytest.raises(RegistryFailed, match=r"127\.0\.0\.1"):
        rows(cluster, "select * from orders", "http://127.0.0.1:1")
    now = [0.0]
    texts = JsonTexts(SchemaRegistry(schemas.url), lambda: now[0])
    value = in_frame(1, avro(OLD, row(7)))
    schemas.failures = 3
    for _ in range(2):
        with pytest.raises(RegistryFailed, match="503"):
            texts.text(value)
    now[0] = 31
    assert json.loads(texts.text(value).text)["amount"] == 7
