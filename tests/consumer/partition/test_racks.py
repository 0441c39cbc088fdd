"""A consumer with a rack reads from the replica that its leader names (KIP-392), and goes back from it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla import Admin, EmbeddedBroker, GroupConsumer, PartitionConsumer, Producer, TopicAndPartition
from ottla.admin import NewTopic
from ottla.model.error_codes import Code
from ottla.model.errors import ConfigError
from ottla.wire.api.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.wire.api.fetch import FetchRequest
from tests.broker.wire_client import Client
from tests.consumer.partition.conftest import Consumers
from tests.consumer.partition.rows import offsets
from tests.scale import nightly
from tests.waiting import wait_for
from tools.peers import KAFKA_3, RealKafka

SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
RACKS = {"broker.rack": "a,b,c", "replica.selector.class": SELECTOR, "default.replication.factor": "3"}
FETCH = FetchRequest.API.key
COUNT = 100


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(brokers=3, properties=RACKS) as broker:
        yield broker


@pytest.fixture
def topic(broker: EmbeddedBroker, request: pytest.FixtureRequest) -> str:
    """A topic that broker 0 leads, with records; no client of an earlier test is connected any more."""
    name = request.node.name.translate(str.maketrans("[]", "--"))
    broker.create_topic(name, 1, replication_factor=3)
    broker.move_leader(name, 0, 0)
    write(broker.bootstrap, name, COUNT)
    nodes = broker._running().nodes.values()
    wait_for(lambda: not any(node.traffic.connections for node in nodes), "the end of other connections")
    return name


def write(bootstrap: str, topic: str, count: int, first: int = 0) -> None:
    with Producer(bootstrap_servers=bootstrap) as producer:
        for number in range(first, first + count):
            producer.send(topic, b"v%d-" % number, b"k%d" % number, 0)


def fetches(broker: EmbeddedBroker) -> list[int]:
    """How many fetches each broker has got."""
    return [node.traffic.calls[FETCH] for node in broker._running().nodes.values()]


def test_a_consumer_reads_from_the_replica_of_its_rack(
    consumers: Consumers, broker: EmbeddedBroker, topic: str
) -> None:
    before = fetches(broker)
    reader = consumers(client_rack="b").consume_partition(topic, 0, "earliest")
    assert offsets(reader.messages(), COUNT) == [*range(COUNT)]
    write(broker.bootstrap, topic, 1, COUNT)
    assert offsets(reader.messages(), 1) == [COUNT]
    after = [now - then for now, then in zip(fetches(broker), before, strict=True)]
    assert after[0] == 1, "the leader is asked once, and names the replica"
    assert after[1] >= 2
    assert after[2] == 0


@pytest.mark.parametrize("rack", ["a", "elsewhere", ""])
def test_without_a_nearer_replica_the_leader_is_read(
    consumers: Consumers, broker: EmbeddedBroker, topic: str, rack: str
) -> None:
    before = fetches(broker)[1:]
    reader = consumers(client_rack=rack).consume_partition(topic, 0, "earliest")
    assert offsets(reader.messages(), COUNT) == [*range(COUNT)]
    assert fetches(broker)[1:] == before


def test_a_replica_that_dies_is_left_for_the_leader(
    consumers: Consumers, broker: EmbeddedBroker, topic: str
) -> None:
    reader = consumers(client_rack="c").consume_partition(topic, 0, "earliest")
    assert offsets(reader.messages(), COUNT) == [*range(COUNT)]
    broker.stop_broker(2)
    try:
        write(broker.bootstrap, topic, 10, COUNT)
        assert offsets(reader.messages(), 10) == [*range(COUNT, COUNT + 10)]
    finally:
        broker.heal()


def test_the_leader_decides_about_an_offset_that_a_replica_does_not_have(
    consumers: Consumers, broker: EmbeddedBroker, topic: str
) -> None:
    """A replica may be behind: with auto.offset.reset=none the reader must not get its error."""
    reader = consumers(client_rack="b", fetch_wait_max_ms=20).consume_partition(topic, 0, "earliest")
    assert offsets(reader.messages(), COUNT) == [*range(COUNT)]
    broker.fail("Fetch", "OFFSET_OUT_OF_RANGE")
    write(broker.bootstrap, topic, 10, COUNT)
    assert offsets(reader.messages(), 10) == [*range(COUNT, COUNT + 10)]


def test_a_seek_to_the_end_is_looked_up_at_the_leader(
    consumers: Consumers, broker: EmbeddedBroker, topic: str
) -> None:
    reader = consumers(client_rack="b").consume_partition(topic, 0, "earliest")
    assert offsets(reader.messages(), COUNT) == [*range(COUNT)]
    reader.seek("latest")
    wait_for(lambda: reader.position == COUNT, "the end")
    write(broker.bootstrap, topic, 1, COUNT)
    assert offsets(reader.messages(), 1) == [COUNT]


def test_librdkafka_reads_from_the_replica_of_its_rack(broker: EmbeddedBroker, topic: str) -> None:
    confluent = pytest.importorskip("confluent_kafka")
    before = fetches(broker)[1]
    settings = {"bootstrap.servers": broker.bootstrap, "group.id": topic, "client.rack": "b"}
    consumer = confluent.Consumer(settings)
    try:
        consumer.assign([confluent.TopicPartition(topic, 0, 0)])
        got: list[int] = []
        while len(got) < COUNT:
            got += [message.offset() for message in consumer.consume(COUNT, 10)]
    finally:
        consumer.close()
    assert got == [*range(COUNT)]
    assert fetches(broker)[1] > before


def test_racks_are_told(broker: EmbeddedBroker) -> None:
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        assert [node.rack for node in admin.describe_cluster().brokers] == ["a", "b", "c"]


def test_a_group_hears_of_replicas_in_other_racks(broker: EmbeddedBroker) -> None:
    """KIP-1101: what `kafka-reassign-partitions` of Kafka does between racks is a new epoch for the group."""
    topic = TopicAndPartition("travels", 0)
    settings = {"bootstrap.servers": broker.bootstrap, "group.protocol": "consumer"}
    with Admin(bootstrap_servers=broker.bootstrap) as admin, Client.of(broker.bootstrap) as client:
        admin.create_topics(NewTopic("travels", assignment={0: [0, 1]}))
        with GroupConsumer("travels", settings, group_id="tourists") as consumer:
            wait_for(lambda: consumer.poll(timeout=0.05) or consumer.assignment == {topic}, "the assignment")
            before = consumer.membership.generation
            move = AlterPartitionReassignmentsRequest(
                topics=[
                    ReassignableTopic(
                        name="travels", partitions=[ReassignablePartition(partition_index=0, replicas=[0, 2])]
                    )
                ]
            )
            assert client.call(move).error_code == Code.NONE
            wait_for(
                lambda: consumer.poll(timeout=0.05) or consumer.membership.generation > before, "an epoch"
            )
            assert consumer.assignment == {topic}


def test_a_selector_of_ones_own_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"replica\.selector\.class.*runs no Java classes.*RackAware"):
        EmbeddedBroker(tmp_path, properties={"replica.selector.class": "com.example.Mine"})


@nightly("two brokers of Apache Kafka with a ZooKeeper")
def test_as_apache_kafka_says() -> None:
    rack = {"replica.selector.class": SELECTOR}
    with (
        RealKafka(KAFKA_3, with_zookeeper=True, properties={**rack, "broker.rack": "a"}) as first,
        RealKafka(KAFKA_3, joins=first, broker_id=2, properties={**rack, "broker.rack": "b"}),
        Admin(bootstrap_servers=first.bootstrap) as admin,
    ):
        wait_for(lambda: len(admin.describe_cluster().brokers) == 2, "both brokers")
        admin.create_topics(NewTopic("racks", 1, 2))
        write(first.bootstrap, "racks", COUNT)
        for rack_id, broker_id in (("a", 1), ("b", 2)):
            with PartitionConsumer(bootstrap_servers=first.bootstrap, client_rack=rack_id) as consumer:
                reader = consumer.consume_partition("racks", 0, "earliest")
                assert offsets(reader.messages(), COUNT) == [*range(COUNT)]
                (info,) = consumer._engine.infos()
                assert info.source is not None
                assert info.source.broker.broker_id == broker_id
