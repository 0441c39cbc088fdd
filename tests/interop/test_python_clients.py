"""kafka-python's and aiokafka's own clients against our server side of the wire on a loopback socket."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioTopicPartition

from ottla.records.builder import Stamp, encode
from ottla.records.compression import Codec
from tests.interop.peers import kafka_python
from tests.interop.rows import Row, formats_of, our_rows, producible, sample, table
from tests.interop.stub_broker import PRODUCER_ID, TOPIC, StubBroker
from tests.kafka_python import kafka

pytestmark = pytest.mark.timeout(20, func_only=True)
WAIT_SECONDS = 120
ROOM = 10_000_000

all_codecs = pytest.mark.parametrize("codec", Codec, ids=lambda codec: codec.label)


@pytest.fixture
def broker() -> Iterator[StubBroker]:
    with StubBroker() as broker:
        yield broker


def setting(codec: Codec) -> str | None:
    return None if codec is Codec.NONE else codec.label


def accepted(rows: list[Row]) -> list[Row]:
    """The rows that both producers take: not those without key and value."""
    kept = [row for row in producible(rows) if row.key is not None or row.value is not None]
    return [row._replace(offset=at) for at, row in enumerate(kept)]


def row_of(record: Any) -> Row:
    headers = tuple(record.headers)
    return Row(record.offset, record.timestamp, record.timestamp_type, record.key, record.value, headers)


def rows_as_stored(broker: StubBroker) -> list[Row]:
    """What was produced, with the offsets that the broker assigned."""
    rows = [row for data in broker.produced for row in our_rows(data)]
    return [row._replace(offset=at) for at, row in enumerate(rows)]


# ---- kafka-python


@all_codecs
@pytest.mark.parametrize("idempotent", [False, True], ids=["plain", "idempotent"])
def test_we_read_what_kafka_pythons_producer_sends(
    broker: StubBroker, codec: Codec, idempotent: bool
) -> None:
    kafka_python().skip_unless_it_can(2, codec)
    rows = accepted(sample(2, copies=2))
    producer = kafka.KafkaProducer(
        bootstrap_servers=broker.address,
        compression_type=setting(codec),
        enable_idempotence=idempotent,
        acks="all",
        linger_ms=200,
        batch_size=1_000_000,
        max_request_size=ROOM,
    )
    try:
        futures = [
            producer.send(
                TOPIC,
                key=row.key,
                value=row.value,
                partition=0,
                timestamp_ms=row.timestamp,
                headers=list(row.headers),
            )
            for row in rows
        ]
        assert [future.get(timeout=WAIT_SECONDS).offset for future in futures] == [row.offset for row in rows]
    finally:
        producer.close(timeout=WAIT_SECONDS)
    assert {pair for data in broker.produced for pair in formats_of(data)} == {(2, codec)}
    producer_ids = {int.from_bytes(data[43:51], "big", signed=True) for data in broker.produced}
    assert producer_ids == {PRODUCER_ID if idempotent else -1}
    assert rows_as_stored(broker) == rows


@all_codecs
def test_kafka_pythons_consumer_reads_what_we_write(broker: StubBroker, codec: Codec) -> None:
    kafka_python().skip_unless_it_can(2, codec)
    rows = sample(2, first_offset=50, copies=5)
    broker.load(encode(table(rows), codec=codec, batch_bytes=200_000, stamp=Stamp(base_offset=50)))
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=broker.address, enable_auto_commit=False, check_crcs=True, group_id=None
    )
    try:
        partition = kafka.TopicPartition(TOPIC, 0)
        consumer.assign([partition])
        consumer.seek(partition, 50)
        received: list[Any] = []
        while len(received) < len(rows):
            polled = consumer.poll(timeout_ms=WAIT_SECONDS * 1000)
            assert polled
            received += polled[partition]
        assert consumer.end_offsets([partition]) == {partition: 95}
    finally:
        consumer.close()
    assert [row_of(record) for record in received] == rows


# ---- aiokafka


def run(work: Callable[[], Awaitable[Any]]) -> Any:
    async def bounded() -> Any:
        async with asyncio.timeout(WAIT_SECONDS):
            return await work()

    return asyncio.run(bounded())


@all_codecs
@pytest.mark.parametrize("idempotent", [False, True], ids=["plain", "idempotent"])
def test_we_read_what_aiokafkas_producer_sends(broker: StubBroker, codec: Codec, idempotent: bool) -> None:
    rows = accepted(sample(2, copies=2))

    async def send() -> list[int]:
        producer = AIOKafkaProducer(
            bootstrap_servers=broker.address,
            compression_type=setting(codec),
            enable_idempotence=idempotent,
            acks="all",
            linger_ms=200,
            max_batch_size=1_000_000,
            max_request_size=ROOM,
        )
        async with producer:
            futures = [
                await producer.send(
                    TOPIC,
                    key=row.key,
                    value=row.value,
                    partition=0,
                    timestamp_ms=row.timestamp,
                    headers=list(row.headers),
                )
                for row in rows
            ]
            return [(await future).offset for future in futures]

    assert run(send) == [row.offset for row in rows]
    assert {pair for data in broker.produced for pair in formats_of(data)} == {(2, codec)}
    producer_ids = {int.from_bytes(data[43:51], "big", signed=True) for data in broker.produced}
    assert producer_ids == {PRODUCER_ID if idempotent else -1}
    assert rows_as_stored(broker) == rows


@all_codecs
def test_aiokafkas_consumer_reads_what_we_write(broker: StubBroker, codec: Codec) -> None:
    rows = sample(2, first_offset=50, copies=5)
    broker.load(encode(table(rows), codec=codec, batch_bytes=200_000, stamp=Stamp(base_offset=50)))

    async def receive() -> list[Any]:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=broker.address, enable_auto_commit=False, check_crcs=True, group_id=None
        )
        async with consumer:
            partition = AioTopicPartition(TOPIC, 0)
            consumer.assign([partition])
            consumer.seek(partition, 50)
            assert await consumer.end_offsets([partition]) == {partition: 95}
            return [await consumer.getone() for _ in rows]

    assert [row_of(record) for record in run(receive)] == rows
