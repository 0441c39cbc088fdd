"""librdkafka, through confluent-kafka, against our server side of the wire on a loopback socket.

It has no record builder to call, so its producer's requests are captured and its consumer is served. Its
behaviour is steered by the versions that a broker lists: with those of Kafka 0.10 and 0.9 it writes and
reads message formats 1 and 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    TIMESTAMP_NOT_AVAILABLE,
    Consumer,
    Producer,
    TopicPartition,
)

from ottla.records.builder import Stamp, encode
from ottla.records.compression import Codec
from tests.interop.broker_versions import NEW, OF_KAFKA_0_9, OF_KAFKA_0_10
from tests.interop.rows import (
    FORMAT_IDS,
    FORMATS,
    NO_TIMESTAMP_TYPE,
    Row,
    codec_of,
    entries,
    formats_of,
    our_rows,
    producible,
    sample,
    table,
)
from tests.interop.stub_broker import PRODUCER_ID, TOPIC, StubBroker

pytestmark = pytest.mark.timeout(20, func_only=True)
WAIT_SECONDS = 120

all_formats = pytest.mark.parametrize(("magic", "codec"), FORMATS, ids=FORMAT_IDS)
all_codecs = pytest.mark.parametrize("codec", Codec, ids=lambda codec: codec.label)

BROKER_OF_FORMAT = {0: OF_KAFKA_0_9, 1: OF_KAFKA_0_10, 2: NEW}
QUIET = {"log_level": 3, "log.connection.close": False}
SETTINGS_OF_FORMAT: dict[int, dict[str, Any]] = {
    0: QUIET | {"api.version.request": False, "broker.version.fallback": "0.9.0.1"},
    1: QUIET,
    2: QUIET,
}


@pytest.fixture
def broker(request: pytest.FixtureRequest) -> Iterator[StubBroker]:
    magic = request.node.callspec.params.get("magic", 2) if hasattr(request.node, "callspec") else 2
    with StubBroker(BROKER_OF_FORMAT[magic]) as broker:
        yield broker


def send(address: str, rows: list[Row], magic: int = 2, **settings: Any) -> None:
    """Produce all rows; returns when every one is acknowledged."""
    failures: list[Any] = []
    producer = Producer(
        {
            "bootstrap.servers": address,
            "linger.ms": 200,
            "message.max.bytes": 10_000_000,
            **SETTINGS_OF_FORMAT[magic],
            **{name.replace("_", "."): value for name, value in settings.items()},
        }
    )
    for row in rows:
        optional: dict[str, Any] = {} if row.timestamp is None else {"timestamp": row.timestamp}
        if row.headers:
            optional["headers"] = list(row.headers)
        producer.produce(
            TOPIC,
            key=row.key,
            value=row.value,
            partition=0,
            on_delivery=lambda error, _: failures.append(error) if error else None,
            **optional,
        )
    assert producer.flush(WAIT_SECONDS) == 0
    assert failures == []


def receive(address: str, count: int, magic: int = 2, offset: int = 0, **settings: Any) -> list[Row]:
    """Consume so many records by assignment, without a group."""
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "unused",
            "enable.auto.commit": False,
            "check.crcs": True,
            **SETTINGS_OF_FORMAT[magic],
            **{name.replace("_", "."): value for name, value in settings.items()},
        }
    )
    try:
        consumer.assign([TopicPartition(TOPIC, 0, offset)])
        messages = consumer.consume(count, WAIT_SECONDS)
    finally:
        consumer.close()
    assert [message.error() for message in messages if message.error()] == []
    return [_row(message) for message in messages]


def _row(message: Any) -> Row:
    kind, timestamp = message.timestamp()
    # Its types are Kafka's plus 1.
    has_timestamp = kind != TIMESTAMP_NOT_AVAILABLE
    return Row(
        message.offset(),
        timestamp if has_timestamp else None,
        kind - 1 if has_timestamp else NO_TIMESTAMP_TYPE,
        message.key(),
        message.value(),
        tuple(message.headers() or ()),
    )


@all_formats
def test_we_read_what_its_producer_sends(broker: StubBroker, magic: int, codec: Codec) -> None:
    rows = producible(sample(magic))
    send(broker.address, rows, magic, compression_type=codec.label)
    (data,) = broker.produced
    assert formats_of(data) == {(magic, codec)}
    assert our_rows(data) == rows


@all_formats
def test_its_consumer_reads_what_we_write(broker: StubBroker, magic: int, codec: Codec) -> None:
    rows = producible(sample(magic))
    broker.load(encode(table(rows), magic=magic, codec=codec))
    assert receive(broker.address, len(rows), magic) == rows


@all_formats
def test_its_consumer_reads_many_of_our_batches(broker: StubBroker, magic: int, codec: Codec) -> None:
    rows = producible(sample(magic, first_offset=1_000, copies=30))
    batches = encode(
        table(rows), magic=magic, codec=codec, batch_bytes=10_000, stamp=Stamp(base_offset=1_000)
    )
    broker.load(batches)
    assert receive(broker.address, len(rows), magic, offset=1_000) == rows


@all_codecs
def test_its_consumer_starts_inside_our_batch(broker: StubBroker, codec: Codec) -> None:
    rows = sample(2)
    broker.load(encode(table(rows), codec=codec))
    assert receive(broker.address, 4, offset=5) == rows[5:]


@all_codecs
def test_we_read_the_many_batches_of_its_idempotent_producer(broker: StubBroker, codec: Codec) -> None:
    rows = producible(sample(2, copies=30))
    settings: dict[str, Any] = {
        "enable_idempotence": True,
        "batch_num_messages": 10,
        "compression_type": codec.label,
    }
    send(broker.address, rows, **settings)
    assert ("InitProducerId", 4) in broker.calls
    batches = [bytes(entry) for data in broker.produced for entry in entries(data)]
    assert len(batches) >= 27
    assert {codec_of(batch) for batch in batches} == {codec}
    assert {int.from_bytes(batch[43:51], "big") for batch in batches} == {PRODUCER_ID}
    # Offsets in a producer's batches count from 0, so only the rest of each row is as sent.
    received = [row for data in broker.produced for row in our_rows(data)]
    assert [row._replace(offset=at) for at, row in enumerate(received)] == rows


@all_codecs
def test_its_consumer_reads_our_transactional_batches(broker: StubBroker, codec: Codec) -> None:
    rows = sample(2, copies=3)
    stamp = Stamp(producer_id=77, producer_epoch=3, base_sequence=0, transactional=True)
    broker.load(encode(table(rows), codec=codec, stamp=stamp, batch_bytes=50_000))
    assert receive(broker.address, len(rows), isolation_level="read_committed") == rows


def test_what_it_produces_it_gets_back(broker: StubBroker) -> None:
    rows = producible(sample(2, copies=3))
    send(broker.address, rows, compression_type="zstd")
    assert receive(broker.address, len(rows), offset=OFFSET_BEGINNING) == rows


def test_its_consumer_learns_the_end_of_the_log_and_waits_for_more(broker: StubBroker) -> None:
    rows = sample(2, copies=2)
    first, second = rows[:9], rows[9:]
    broker.load(encode(table(first)))
    settings = {
        "bootstrap.servers": broker.address,
        "group.id": "unused",
        "enable.auto.commit": False,
        **QUIET,
    }
    consumer = Consumer({**settings, "enable.partition.eof": True})
    try:
        consumer.assign([TopicPartition(TOPIC, 0, OFFSET_END)])
        end = consumer.poll(WAIT_SECONDS)
        assert end is not None
        assert end.offset() == 9
        broker.load(encode(table(second), stamp=Stamp(base_offset=9)))
        assert [_row(message) for message in consumer.consume(9, WAIT_SECONDS)] == second
    finally:
        consumer.close()


def test_it_speaks_the_newest_versions_that_both_have(broker: StubBroker) -> None:
    rows = producible(sample(2))
    send(broker.address, rows)
    receive(broker.address, len(rows), offset=OFFSET_BEGINNING)
    assert {("ApiVersions", 3), ("Metadata", 13), ("Produce", 10), ("Fetch", 16)} <= set(broker.calls)
