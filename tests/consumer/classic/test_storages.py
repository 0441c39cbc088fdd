"""Where offsets are kept, and groups that change it; clusters that ZooKeeper does not know."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest

from ottla import Admin, EmbeddedBroker, Producer
from ottla.admin import NewTopic
from ottla.client.client_config import ClientConfig
from ottla.consumer.classic import Whitelist
from ottla.model.topic_partition import TopicAndPartition
from ottla.offsets import KafkaOffsets
from ottla.zookeeper.kazoo_session import KazooZooKeeperSession
from tests.consumer.classic.conftest import Connectors
from tests.consumer.classic.reading import Reader, member, offsets, seen_by, written
from tests.fetching.traffic import Writer
from tests.waiting import wait_for
from tools.peers import KAFKA_4, RealKafka


def in_kafka(bootstrap: str, group: str, topic: str) -> dict[int, int]:
    config = ClientConfig.from_properties({"bootstrap.servers": bootstrap})
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
        shown = {name: str(value).lower() for name, value in storage.items()}  # type: ignore[attr-defined]
        one = connector(**shown)
        readers.append(member(one, topic))
        wait_for(lambda: set(seen_by(readers)) == written(writer.ends, topic), f"phase {count} has read all")
        one.shutdown()
        readers[-1].join()
    assert set(seen_by(readers).values()) == {1}
    assert offsets(zookeeper, name, topic) == dict.fromkeys(range(4), 20)
    assert in_kafka(broker.bootstrap, name, topic) == dict.fromkeys(range(4), 30)


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
    assert in_kafka(broker.bootstrap, name, topic)[1] == 4
    assert offsets(zookeeper, name, topic).get(1) == (4 if dual == "true" else None)
    one.shutdown()
    (again,) = connector(offsets_storage="kafka", dual_commit_enabled=dual).create_message_streams(
        {topic: 1}
    )[topic]
    assert next(again).offset == 4


@pytest.fixture(scope="module", params=["ottla", KAFKA_4])
def bootstrap(request: pytest.FixtureRequest, real_kafka: Callable[[str], RealKafka]) -> Iterator[str]:
    """Of a cluster that has no ZooKeeper."""
    if request.param == "ottla":
        with EmbeddedBroker() as broker:
            yield broker.bootstrap
    else:
        yield real_kafka(request.param).bootstrap


@pytest.mark.parametrize("storage", ["zookeeper", "kafka"])
def test_zookeeper_for_the_group_only(
    connector: Connectors, bootstrap: str, name: str, storage: str, zookeeper: KazooZooKeeperSession
) -> None:
    """Brokers are told by bootstrap.servers and asked for topics; new ones are found by asking again."""
    settings = {
        "bootstrap_servers": bootstrap,
        "rebalance_watchdog_ms": 500,
        "offsets_storage": storage,
        "dual_commit_enabled": False,
    }
    one, two = connector(consumer_id="a", **settings), connector(consumer_id="b", **settings)
    with Admin(bootstrap_servers=bootstrap) as admin, Producer(bootstrap_servers=bootstrap) as producer:
        admin.create_topics(NewTopic(name, 4, 1))
        readers = [member(one, name)]
        readers.append(Reader(two.create_message_streams_by_filter(Whitelist(f"{name}.*"))))
        wait_for(lambda: one.metrics().owned_partitions == 2, "they share")
        admin.create_topics(NewTopic(f"{name}-later", 2, 1))
        numbers = [str(number) for number in range(30)]
        rows = pa.table({"key": numbers, "value": numbers})
        for topic in (name, f"{name}-later"):
            producer.send_batch(topic, rows).result(60)
        wait_for(lambda: len(seen_by(readers)) == 60, "all is read, of the new topic too")
        assert two.metrics().owned_partitions == 4
        two.shutdown()
        wait_for(lambda: one.metrics().owned_partitions == 4, "the one that stays has its whole topic")
        producer.send_batch(name, rows).result(60)
        wait_for(lambda: len(seen_by(readers)) == 90, "all is read")
        assert set(seen_by(readers).values()) == {1}
        one.shutdown()
    stored = in_kafka(bootstrap, name, name) if storage == "kafka" else offsets(zookeeper, name, name)
    assert sum(stored.values()) == 60
    for reader in readers:
        reader.join()


def test_kafkas_own_topics_are_for_those_who_ask(connector: Connectors, bootstrap: str, name: str) -> None:
    in_kafka(bootstrap, name, name)  # makes them
    for exclude in (True, False):
        one = connector(bootstrap_servers=bootstrap, exclude_internal_topics=exclude)
        one.create_message_streams_by_filter(Whitelist("__consumer_offsets"))
        assert (one.metrics().owned_partitions == 0) == exclude
        one.shutdown()
