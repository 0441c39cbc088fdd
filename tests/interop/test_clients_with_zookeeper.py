"""All of our clients on the oldest and on the newest Apache Kafka that has a ZooKeeper: 0.8.2 and 3.9."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from ottla import Admin, GroupConsumer, PartitionConsumer, Producer, SimpleConsumer, TopicAndPartition, replay
from ottla.admin import GroupKind, NewTopic
from ottla.client.zookeeper_metadata import ZooKeeperMetadata
from ottla.consumer.classic import ConsumerConnector
from ottla.consumer.simple import FetchRequestBuilder
from ottla.model.errors import LocalProtocolError
from ottla.zookeeper.kazoo_session import KazooSettings, KazooZooKeeperSession
from tests.consumer.classic.reading import member, seen_by
from tests.waiting import wait_for
from tools.peers import KAFKA_0_8, KAFKA_3, RealKafka, Unavailable

TOPIC = "orders"
COUNT = 300
VALUES = {b"%d" % number for number in range(COUNT)}
WAIT_MS = 60_000


@pytest.fixture(scope="module", params=[KAFKA_0_8, KAFKA_3])
def kafka(request: pytest.FixtureRequest) -> Iterator[RealKafka]:
    try:
        with RealKafka(request.param, with_zookeeper=True) as server:
            fill(server)
            yield server
    except Unavailable as reason:
        pytest.skip(f"Kafka {request.param} cannot be had: {str(reason).splitlines()[0]}")


def settings(kafka: RealKafka, **more: object) -> dict[str, Any]:
    """Old brokers cannot tell what they are."""
    known = {"broker_version": "0.8.2"} if kafka.version == KAFKA_0_8 else {}
    return {"bootstrap_servers": kafka.bootstrap, **known, **more}


def versions(kafka: RealKafka) -> dict[str, Any]:
    return {name: value for name, value in settings(kafka).items() if name == "broker_version"}


def fill(kafka: RealKafka) -> None:
    with Producer(settings(kafka)) as producer:  # 0.8 tells of no broker before there is a topic
        producer.send("first", b"made by asking for it").result(60)
    with Admin(settings(kafka, zookeeper_connect=kafka.zookeeper)) as admin:
        admin.create_topics(NewTopic(TOPIC, 3, 1))
    with Producer(settings(kafka)) as producer:
        for number in range(100):
            producer.send(TOPIC, b"%d" % number, b"%d" % number)
        numbers = [str(number) for number in range(100, COUNT)]
        producer.send_batch(TOPIC, pa.table({"key": numbers, "value": numbers})).result(60)


def test_a_replay_has_everything(kafka: RealKafka) -> None:
    with replay(TOPIC, **settings(kafka)) as everything:
        assert sorted(everything.to_table()["value"].to_pylist()) == sorted(VALUES)


def test_partitions_of_choice(kafka: RealKafka) -> None:
    with PartitionConsumer(settings(kafka)) as consumer:
        for partition in consumer.partitions(TOPIC):
            consumer.consume_partition(TOPIC, partition, "earliest")
        messages = consumer.messages(timeout=WAIT_MS / 1000)
        found = [next(messages) for _ in range(COUNT)]
    assert {one.value for one in found} == VALUES


def test_the_low_level_consumer(kafka: RealKafka) -> None:
    with SimpleConsumer("127.0.0.1", kafka.port, **versions(kafka)) as consumer:
        request = FetchRequestBuilder().add_fetch(TOPIC, 0, 0, 1 << 20).build()
        found = list(consumer.fetch(request).message_set(TOPIC, 0))
        (end,) = consumer.get_offsets_before(TopicAndPartition(TOPIC, 0), -1)
    assert [one.offset for one in found] == list(range(end))


def test_a_group_of_a_coordinator(kafka: RealKafka) -> None:
    given = settings(kafka, auto_offset_reset="earliest")
    with GroupConsumer(TOPIC, given, group_id="modern") as consumer:
        if kafka.version == KAFKA_0_8:
            with pytest.raises(LocalProtocolError, match="JoinGroup"):
                consumer.poll(WAIT_MS / 1000)
            return
        messages = consumer.messages()
        assert {next(messages).value for _ in range(COUNT)} == VALUES
        consumer.commit()
    with Admin(settings(kafka)) as admin:
        lag = admin.group_lag("modern")
    assert (lag.total, len(lag.partitions)) == (0, 3)


@pytest.mark.parametrize("storage", ["zookeeper", "kafka"])
def test_a_classic_group(kafka: RealKafka, storage: str) -> None:
    """Two members share the partitions; the one that stays goes on where the other stopped."""
    topic = f"classic-{storage}"
    with Admin(settings(kafka, zookeeper_connect=kafka.zookeeper)) as admin:
        admin.create_topics(NewTopic(topic, 3, 1))
    given = {
        "zookeeper.connect": kafka.zookeeper,
        "auto.offset.reset": "smallest",
        "offsets.storage": storage,
        "group.id": storage,
    }
    with (
        ConsumerConnector(given, **versions(kafka)) as one,
        ConsumerConnector(given, **versions(kafka)) as two,
        Producer(settings(kafka)) as producer,
    ):
        readers = [member(one, topic), member(two, topic)]
        for count in (100, 200):
            numbers = [str(number) for number in range(100)]
            producer.send_batch(topic, pa.table({"key": numbers, "value": numbers})).result(60)
            wait_for(lambda count=count: len(seen_by(readers)) == count, "all is read")
            if count == 100:
                assert {one.metrics().owned_partitions, two.metrics().owned_partitions} == {1, 2}
                two.shutdown()
                wait_for(lambda: one.metrics().owned_partitions == 3, "the other has all")
        assert set(seen_by(readers).values()) == {1}
        one.commit_offsets()
        with Admin(settings(kafka, zookeeper_connect=kafka.zookeeper)) as admin:
            lag = admin.group_lag(storage, kind=GroupKind.ZOOKEEPER)
        assert (lag.total, len(lag.partitions)) == (0, 3)
        one.shutdown()
    for reader in readers:
        reader.join()


def test_the_cluster_as_zookeeper_tells_it(kafka: RealKafka) -> None:
    session = KazooZooKeeperSession(KazooSettings(kafka.zookeeper))
    session.connect()
    try:
        view = ZooKeeperMetadata(session).view()
    finally:
        session.close()
    assert [one.port for one in view.brokers.values()] == [kafka.port]
