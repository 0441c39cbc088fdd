"""Where offsets are kept, and groups that change it; clusters that ZooKeeper does not know."""

from __future__ import annotations

import pytest

from ottla import EmbeddedBroker
from ottla.classic import Health, Whitelist
from ottla.client.config import ClientConfig
from ottla.fetching import TopicAndPartition
from ottla.offsets import KafkaOffsets
from ottla.zookeeper.kazoo_session import KazooZooKeeperSession
from tests.classic.conftest import Connectors
from tests.classic.reading import Reader, member, offsets, seen_by, wait_for, written
from tests.fetching.traffic import Writer


def in_kafka(broker: EmbeddedBroker, group: str, topic: str) -> dict[int, int]:
    config = ClientConfig.from_properties({"bootstrap.servers": broker.bootstrap})
    with KafkaOffsets(config) as store:
        found = store.fetch(group, [TopicAndPartition(topic, number) for number in range(4)])
    return {place.partition: position.offset for place, position in found.items()}


def test_a_group_moves_from_zookeeper_to_kafka_without_a_step_back_or_ahead(
    connector: Connectors,
    broker: EmbeddedBroker,
    writer: Writer,
    topic: str,
    name: str,
    zookeeper: KazooZooKeeperSession,
) -> None:
    """As Kafka's documentation has it: both for a while, then Kafka alone."""
    phases = [
        {"offsets_storage": "zookeeper"},
        {"offsets_storage": "kafka", "dual_commit_enabled": True},
        {"offsets_storage": "kafka", "dual_commit_enabled": False},
    ]
    readers = []
    for count, storage in enumerate(phases, 1):
        for partition in range(4):
            writer.write(TopicAndPartition(topic, partition), 10)
        shown = {name: str(value).lower() for name, value in storage.items()}
        one = connector(**shown)
        readers.append(member(one, topic))
        wait_for(lambda: set(seen_by(readers)) == written(writer.ends, topic), f"phase {count} has read all")
        one.shutdown()
        readers[-1].join()
    assert set(seen_by(readers).values()) == {1}
    assert offsets(zookeeper, name, topic) == dict.fromkeys(range(4), 20)
    assert in_kafka(broker, name, topic) == dict.fromkeys(range(4), 30)


@pytest.mark.parametrize("dual", ["true", "false"])
def test_offsets_in_kafka(
    connector: Connectors,
    broker: EmbeddedBroker,
    writer: Writer,
    topic: str,
    name: str,
    zookeeper: KazooZooKeeperSession,
    dual: str,
) -> None:
    writer.write(TopicAndPartition(topic, 1), 10)
    one = connector(offsets_storage="kafka", dual_commit_enabled=dual, auto_commit_enable=False)
    (stream,) = one.create_message_streams({topic: 1})[topic]
    assert [next(stream).offset for _ in range(4)] == [0, 1, 2, 3]
    one.commit_offsets()
    assert in_kafka(broker, name, topic)[1] == 4
    assert offsets(zookeeper, name, topic).get(1) == (4 if dual == "true" else None)
    one.shutdown()
    (again,) = connector(offsets_storage="kafka", dual_commit_enabled=dual).create_message_streams(
        {topic: 1}
    )[topic]
    assert next(again).offset == 4


def test_zookeeper_for_the_group_only(connector: Connectors, connect: str, name: str) -> None:
    """A cluster that has no ZooKeeper: its brokers are told by bootstrap.servers and asked for topics."""
    with EmbeddedBroker() as alone, Writer(alone.bootstrap) as writer:
        alone.create_topic(name, 3)
        settings = {"bootstrap_servers": alone.bootstrap, "rebalance_watchdog_ms": 500}
        one, two = connector(consumer_id="a", **settings), connector(consumer_id="b", **settings)
        readers = [member(one, name)]
        readers.append(Reader(two.create_message_streams_by_filter(Whitelist(f"{name}.*"))))
        wait_for(lambda: one.metrics().owned_partitions == 2, "they share")
        alone.create_topic(f"{name}-later", 2)
        for topic, partitions in ((name, 3), (f"{name}-later", 2)):
            for partition in range(partitions):
                writer.write(TopicAndPartition(topic, partition), 5)
        expected = written(writer.ends, name) | written(writer.ends, f"{name}-later")
        wait_for(lambda: set(seen_by(readers)) == expected, "all is read, of the new topic too")
        assert set(seen_by(readers).values()) == {1}
        assert one.health is Health.STABLE
        for connected in (one, two):
            connected.shutdown()
        for reader in readers:
            reader.join()
