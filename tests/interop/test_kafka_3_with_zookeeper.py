"""All of our clients on Apache Kafka 3.9 in ZooKeeper mode, the last version that has it."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from ottla import Admin, GroupConsumer, PartitionConsumer, Producer, SimpleConsumer, TopicAndPartition, replay
from ottla.admin import GroupKind, NewTopic
from ottla.classic import ConsumerConnector
from ottla.client.zookeeper_metadata import ZooKeeperMetadata
from ottla.simple import FetchRequestBuilder
from ottla.zookeeper.kazoo_session import KazooSettings, KazooZooKeeperSession
from tools.peers import KAFKA_3, RealKafka, Unavailable

TOPIC = "orders"
COUNT = 300
VALUES = {b"%d" % number for number in range(COUNT)}
WAIT_MS = 60_000


@pytest.fixture(scope="module")
def kafka() -> Iterator[RealKafka]:
    try:
        with RealKafka(KAFKA_3, with_zookeeper=True) as server:
            fill(server)
            yield server
    except Unavailable as reason:
        pytest.skip(f"Kafka {KAFKA_3} cannot be had: {str(reason).splitlines()[0]}")


def fill(kafka: RealKafka) -> None:
    with Admin(bootstrap_servers=kafka.bootstrap) as admin:
        admin.create_topics(NewTopic(TOPIC, 3, 1))
    with Producer(bootstrap_servers=kafka.bootstrap) as producer:
        for number in range(100):
            producer.send(TOPIC, b"%d" % number, b"%d" % number, headers={"n": b"%d" % number})
        numbers = [str(number) for number in range(100, COUNT)]
        producer.send_batch(TOPIC, pa.table({"key": numbers, "value": numbers})).result(60)


def test_a_replay_has_everything(kafka: RealKafka) -> None:
    with replay(TOPIC, bootstrap_servers=kafka.bootstrap) as everything:
        assert sorted(pa.Table.from_batches(everything)["value"].to_pylist()) == sorted(VALUES)


def test_partitions_of_choice(kafka: RealKafka) -> None:
    with PartitionConsumer(bootstrap_servers=kafka.bootstrap, include_headers=True) as consumer:
        for partition in consumer.partitions(TOPIC):
            consumer.consume_partition(TOPIC, partition, "earliest")
        messages = consumer.messages(timeout_ms=WAIT_MS)
        found = [next(messages) for _ in range(COUNT)]
    assert {one.value for one in found} == VALUES
    assert all(one.headers == (("n", one.value),) for one in found if int(one.value) < 100)


def test_the_low_level_consumer(kafka: RealKafka) -> None:
    with SimpleConsumer("127.0.0.1", kafka.port) as consumer:
        request = FetchRequestBuilder().add_fetch(TOPIC, 0, 0, 1 << 20).build()
        found = list(consumer.fetch(request).message_set(TOPIC, 0))
        (end,) = consumer.get_offsets_before(TopicAndPartition(TOPIC, 0), -1)
    assert [one.offset for one in found] == list(range(end))


def test_a_group_of_a_coordinator(kafka: RealKafka) -> None:
    settings = {"bootstrap.servers": kafka.bootstrap, "auto.offset.reset": "earliest"}
    with GroupConsumer(TOPIC, "modern", settings) as consumer:
        messages = consumer.messages()
        assert {next(messages).value for _ in range(COUNT)} == VALUES
        consumer.commit()
    with Admin(bootstrap_servers=kafka.bootstrap) as admin:
        lag = admin.group_lag("modern")
    assert (lag.total, len(lag.partitions)) == (0, 3)


def test_a_classic_group(kafka: RealKafka) -> None:
    with ConsumerConnector(
        group_id="classic", zookeeper_connect=kafka.zookeeper, auto_offset_reset="smallest"
    ) as connector:
        (stream,) = connector.create_message_streams({TOPIC: 1})[TOPIC]
        messages = iter(stream)
        assert {next(messages).value for _ in range(COUNT)} == VALUES
        connector.commit_offsets()
    with Admin(bootstrap_servers=kafka.bootstrap, zookeeper_connect=kafka.zookeeper) as admin:
        lag = admin.group_lag("classic", kind=GroupKind.ZOOKEEPER)
    assert (lag.total, len(lag.partitions)) == (0, 3)


def test_the_cluster_as_zookeeper_tells_it(kafka: RealKafka) -> None:
    session = KazooZooKeeperSession(KazooSettings(kafka.zookeeper))
    session.connect()
    try:
        view = ZooKeeperMetadata(session).view()
    finally:
        session.close()
    assert [one.port for one in view.brokers.values()] == [kafka.port]
