"""Schema on readers and writers: typed columns, rows of several kinds, and Confluent's own serializers."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import random
import threading
from collections.abc import Callable
from itertools import islice
from typing import Any, cast

import msgspec
import pyarrow as pa
import pydantic
import pytest
from confluent_kafka.schema_registry import Schema as TheirSchema
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2

from ottla import (
    ConfigError,
    EmbeddedBroker,
    PartitionConsumer,
    Producer,
    Schema,
    Undecodable,
    aio,
)
from ottla.broker.loop_broker import LoopBroker
from ottla.schemas.avro import AvroDecoder
from ottla.schemas.decoded import decoded_one_by_one
from ottla.schemas.framing import with_frame
from ottla.schemas.json_values import JsonDecoder
from ottla.schemas.protobuf import message_class
from ottla.schemas.registry import Reference, RegistryFailed, Schemas, SchemaText
from tests.scale import sized

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "item", "type": "string"},
        {"name": "count", "type": ["null", "int"], "default": None},
    ],
}
ORDER_JSON = {
    "title": "Order",
    "type": "object",
    "properties": {"item": {"type": "string"}, "count": {"type": "integer"}},
}
ARROW = pa.schema({"item": pa.string(), "count": pa.int64()})
CONTEXT = SerializationContext("orders", MessageField.VALUE)
TEA = {"item": "tea", "count": 2}


def order_descriptors() -> bytes:
    file = descriptor_pb2.FileDescriptorProto(name="order.proto", syntax="proto3")
    message = file.message_type.add(name="Order")
    for number, (name, kind) in enumerate([("item", 9), ("count", 3)], 1):
        message.field.add(name=name, number=number, label=1, type=kind)
    return descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString()


@dataclasses.dataclass
class Order:
    item: str
    count: int | None = None


@dataclasses.dataclass
class Basket:
    orders: list[Order]
    first: Order | None = None


class OrderModel(pydantic.BaseModel):
    item: str
    count: int | None = None


class OrderStruct(msgspec.Struct):
    item: str
    count: int | None = None


class TheirRegistry:
    """Confluent's own registry in memory, as our clients use a registry."""

    def __init__(self) -> None:
        self.client = SchemaRegistryClient.new_client({"url": "mock://"})

    def by_id(self, schema_id: int) -> SchemaText:
        found = self.client.get_schema(schema_id)
        return SchemaText(found.schema_type or "AVRO", found.schema_str or "")

    def latest(self, subject: str) -> SchemaText:
        found = self.client.get_latest_version(subject).schema
        return SchemaText(found.schema_type or "AVRO", found.schema_str or "")

    def referenced(self, reference: Reference) -> SchemaText:
        found = self.client.get_version(reference.subject, reference.version).schema
        return SchemaText(found.schema_type or "AVRO", found.schema_str or "")

    def register(self, subject: str, schema: SchemaText) -> int:
        return int(self.client.register_schema(subject, TheirSchema(schema.text, schema.kind)))


@pytest.fixture
def registry() -> TheirRegistry:
    return TheirRegistry()


def theirs_of_avro(registry: TheirRegistry) -> tuple[Any, Any]:
    text = json.dumps(ORDER)
    return AvroSerializer(registry.client, text), AvroDeserializer(registry.client)


def theirs_of_json(registry: TheirRegistry) -> tuple[Any, Any]:
    text = json.dumps(ORDER_JSON)
    return JSONSerializer(text, registry.client), JSONDeserializer(text)


OURS: dict[str, Callable[[TheirRegistry], Schema]] = {
    "avro": lambda registry: Schema.avro(ORDER, registry=registry, subject="orders-value"),
    "json": lambda registry: Schema.json(ORDER_JSON, registry=registry, subject="orders-value"),
}
THEIRS = {"avro": theirs_of_avro, "json": theirs_of_json}


@pytest.mark.parametrize("form", OURS)
def test_confluents_serializers_and_ours_read_each_other(registry: TheirRegistry, form: str) -> None:
    ours = OURS[form](registry)
    serializer, deserializer = THEIRS[form](registry)
    assert ours.row(serializer(TEA, CONTEXT)) == TEA
    assert deserializer(ours.value(TEA), CONTEXT) == TEA


def test_confluents_protobuf_and_ours_read_each_other(registry: TheirRegistry) -> None:
    made = message_class(order_descriptors(), "Order")
    settings = {"use.deprecated.format": False}
    serializer = ProtobufSerializer(made, registry.client, settings)
    deserializer = ProtobufDeserializer(made, settings, registry.client)
    ours = Schema.protobuf(order_descriptors(), registry=registry, subject="orders-value")
    assert ours.row(serializer(made(**TEA), CONTEXT)) == TEA
    assert deserializer(ours.value(TEA), CONTEXT) == made(**TEA)


@pytest.mark.parametrize("kind", [dict, Order, OrderModel, OrderStruct])
def test_rows_are_what_the_application_wants(kind: Any) -> None:
    schema = Schema.avro(ORDER, rows=kind)
    row = schema.row(schema.value(kind(**TEA)))
    assert row == kind(**TEA)
    assert type(row) is kind


def test_dataclasses_inside_of_others() -> None:
    kind = pa.struct(list(ARROW))
    schema = Schema.json(pa.schema({"orders": pa.list_(kind), "first": kind}), rows=Basket)
    basket = Basket([Order("tea", 2), Order("cake")], Order("milk"))
    assert schema.row(schema.value(basket)) == basket
    with pytest.raises(ConfigError, match="dataclass"):
        Schema.json(ARROW, rows=int)


def test_columns_are_typed_and_bad_values_stand_apart() -> None:
    schema = Schema.json(ARROW)
    with EmbeddedBroker() as broker:
        with Producer(bootstrap_servers=broker.bootstrap, value_serializer=schema) as producer:
            producer.send("orders", TEA)
            producer.send("orders", None)
            table = pa.table({"value": pa.array([{"item": "cake", "count": None}], pa.struct(list(ARROW)))})
            producer.send_batch("orders", table).result(30)
        with Producer(bootstrap_servers=broker.bootstrap) as producer:
            producer.send("orders", b'{"item": 3}').result(30)
        with PartitionConsumer(bootstrap_servers=broker.bootstrap, value_deserializer=schema) as consumer:
            reader = consumer.consume_partition("orders", 0, "earliest")
            messages = list(islice(reader, 4))
            assert [message.value for message in messages[:3]] == [TEA, None, {"item": "cake", "count": None}]
            with pytest.raises(Undecodable, match="field item: 3"):
                assert messages[3].value
            reader.seek(0)
            chunks = list(reader.chunks(timeout=1))
        rows = [row for chunk in chunks for row in chunk.table.to_pylist()]
        refused = [row for chunk in chunks for row in chunk.decoded().refused.to_pylist()]
    assert chunks[0].table.schema.field("value").type == pa.struct(list(ARROW))
    assert [(row["offset"], row["value"]) for row in rows] == [
        (0, TEA),
        (1, None),
        (2, {"item": "cake", "count": None}),
    ]
    assert [(row["offset"], row["value"]) for row in refused] == [(3, b'{"item": 3}')]
    assert "item" in refused[0]["reason"]


def test_the_asyncio_clients_take_schemas_too() -> None:
    schema = Schema.avro(ORDER)

    async def work(bootstrap: str) -> Any:
        async with aio.Producer(bootstrap_servers=bootstrap, value_serializer=schema) as producer:
            await producer.send("orders", TEA)
        async with aio.PartitionConsumer(bootstrap_servers=bootstrap, value_deserializer=schema) as consumer:
            reader = await consumer.consume_partition("orders", 0, "earliest")
            async for chunk in reader.chunks(timeout=30):
                return chunk.table["value"].to_pylist()

    with EmbeddedBroker() as broker:
        assert asyncio.run(work(broker.bootstrap)) == [TEA]


class Noting:
    """A registry that notes the threads which ask it."""

    def __init__(self, registry: Schemas) -> None:
        self._registry = registry
        self.threads: set[int] = set()

    def __getattr__(self, name: str) -> Any:
        self.threads.add(threading.get_ident())
        return getattr(self._registry, name)


@pytest.mark.parametrize("is_group", [False, True])
def test_a_registry_does_not_block_the_loop(registry: TheirRegistry, *, is_group: bool) -> None:
    told = Noting(registry)

    async def work(broker: LoopBroker) -> list[Any]:
        writer = Schema.avro(ORDER, registry=told, subject="orders-value")
        reader = Schema.avro(ORDER, registry=told)
        settings = {"bootstrap_servers": broker.bootstrap}
        async with aio.Producer(settings, value_serializer=writer) as producer:
            await asyncio.gather(*[producer.send("orders", TEA) for _ in range(3)])
        if is_group:
            async with aio.GroupConsumer(
                "orders", settings, group_id="g", auto_offset_reset="earliest", value_deserializer=reader
            ) as group:
                chunk = await group.poll()
                assert chunk is not None
                return chunk.table["value"].to_pylist()
        async with aio.PartitionConsumer(settings, value_deserializer=reader) as consumer:
            await consumer.consume_partition("orders", 0, "earliest")
            async for message in consumer:
                return [message.value] * 3
        return []

    async def on_a_loop() -> list[Any]:
        async with EmbeddedBroker.aio() as broker:
            return await work(broker)

    assert asyncio.run(on_a_loop()) == [TEA] * 3
    assert told.threads
    assert threading.get_ident() not in told.threads


def test_a_registry_that_fails_is_not_asked_for_each_value() -> None:
    class Failing:
        asked = 0

        def by_id(self, schema_id: int) -> SchemaText:
            self.asked += 1
            raise RegistryFailed(f"no {schema_id}")

    failing = Failing()
    schema = Schema.avro(ORDER, registry=cast("Schemas", failing))
    values, reasons = schema.decode(pa.array([with_frame(7, b"x")] * 100, pa.binary()))
    assert values.null_count == 100
    assert "no 7" in reasons[99].as_py()
    assert failing.asked == 1


def test_a_writer_says_what_is_missing(registry: TheirRegistry) -> None:
    with pytest.raises(ConfigError, match="subject"):
        Schema.avro(ORDER, registry=registry).value(TEA)
    with pytest.raises(Undecodable, match="does not fit"):
        Schema.avro(ORDER).value({"item": 3})
    with pytest.raises(ConfigError, match="there is no schema"):
        Schema.avro()


# --- decoded together as one by one

RANDOM = {
    "type": "record",
    "name": "Random",
    "fields": [
        {"name": "long", "type": "long"},
        {"name": "text", "type": ["null", "string"]},
        {"name": "inner", "type": ["null", ORDER]},
        {"name": "number", "type": "double"},
        {"name": "small", "type": "float"},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "flag", "type": "boolean"},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["a", "b"]}},
        {"name": "hash", "type": {"type": "fixed", "name": "Hash", "size": 3}},
        {"name": "data", "type": "bytes"},
        {"name": "words", "type": {"type": "array", "items": "string"}},
        {"name": "lists", "type": ["null", {"type": "array", "items": {"type": "array", "items": "int"}}]},
        {"name": "counts", "type": {"type": "map", "values": ["null", "long"]}},
    ],
}


def random_row(chance: random.Random) -> dict[str, Any]:
    text = "".join(chance.choice("aé☃😀") for _ in range(chance.randrange(6)))
    return {
        "long": chance.choice([0, -1, 2**63 - 1, -(2**63), chance.getrandbits(40)]),
        "text": chance.choice([None, text]),
        "inner": chance.choice([None, {"item": text, "count": chance.choice([None, -5])}]),
        "number": chance.random(),
        "small": 0.5,
        "day": chance.randrange(-1000, 20_000),
        "at": chance.getrandbits(41),
        "flag": chance.random() < 0.5,
        "kind": chance.choice("ab"),
        "hash": chance.randbytes(3),
        "data": chance.randbytes(chance.randrange(4)),
        "words": [text] * chance.randrange(3),
        "lists": chance.choice([None, [[1] * chance.randrange(4), [], [-2]]]),
        "counts": {f"k{number}": chance.choice([None, number]) for number in range(chance.randrange(4))},
    }


@pytest.mark.parametrize("seed", range(sized(3, 300)))
def test_avro_is_decoded_together_as_one_by_one(seed: int) -> None:
    chance = random.Random(seed)
    schema = Schema.avro(RANDOM)
    values: list[bytes | None] = [schema.value(random_row(chance)) for _ in range(200)]
    for _ in range(20):
        number = chance.randrange(len(values))
        value = values[number] or b"x"
        at = chance.randrange(len(value))
        damaged = value[:at] + chance.randbytes(chance.randrange(3)) + value[at + chance.randrange(2) :]
        values[number] = chance.choice([None, b"", damaged])
    column = pa.array([b"left out", *values], pa.binary())[1:]
    decoder = AvroDecoder(json.dumps(RANDOM))
    together, alone = decoder.decode(column), decoded_one_by_one(column, decoder.type, decoder.row)
    assert together.values.equals(alone.values)
    assert together.reasons.equals(alone.reasons)


@pytest.mark.parametrize("seed", range(sized(3, 300)))
def test_json_is_decoded_together_as_one_by_one(seed: int) -> None:
    chance = random.Random(seed)
    kind = pa.struct(
        {"a": pa.int64(), "b": pa.string(), "c": pa.list_(pa.float64()), "d": pa.struct({"e": pa.bool_()})}
    )
    texts: list[bytes | None] = []
    for _ in range(200):
        row = {
            "a": chance.getrandbits(50),
            "b": "é\n☃"[: chance.randrange(4)],
            "c": [0.5, 2.0],
            "d": {"e": True},
        }
        for name in [name for name in row if chance.random() < 0.2]:
            row[name] = None
        texts.append(json.dumps(row | {"more": 1}, ensure_ascii=chance.random() < 0.5).encode())
    strange = [
        None,
        b"",
        b"{}",
        b"[]",
        b"{} {}",
        b"null",
        b'{"a": "x"}',
        b'{"a": 1.5}',
        b"{\n}",
        b'{"b": "\xff"}',
    ]
    for _ in range(chance.randrange(12)):
        texts[chance.randrange(len(texts))] = chance.choice(strange)
    column = pa.array([b"left out", *texts], pa.binary())[1:]
    decoder = JsonDecoder(kind)
    together, alone = decoder.decode(column), decoded_one_by_one(column, kind, decoder.row)
    assert together.values.to_pylist() == alone.values.to_pylist()
    assert together.reasons.equals(alone.reasons)
