"""The same stores on Apache Kafka: 0.9, with a real ZooKeeper beside it, and 4.x."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ottla.client.client_config import ClientConfig
from ottla.client.metadata import ClusterMetadata
from ottla.model.error_codes import Code
from ottla.model.errors import OffsetCommitFailed
from ottla.model.topic_partition import TopicAndPartition
from ottla.offsets import DualOffsets, KafkaOffsets, OffsetAndMetadata, ZooKeeperOffsets
from ottla.zookeeper.kazoo_session import KazooSettings, KazooZooKeeperSession
from tools.peers import KAFKA_0_9, KAFKA_4, RealKafka

T0, T1 = TopicAndPartition("stored", 0), TopicAndPartition("stored", 1)


@pytest.fixture(scope="module", params=[KAFKA_0_9, KAFKA_4])
def kafka(request: pytest.FixtureRequest, real_kafka: Callable[[str], RealKafka]) -> RealKafka:
    kafka = real_kafka(request.param)
    with ClusterMetadata(config(kafka)) as metadata:
        metadata.partitions(T0.topic)  # asking makes it
    return kafka


def config(kafka: RealKafka) -> ClientConfig:
    pin = {"broker.version": "0.9"} if kafka.version == KAFKA_0_9 else {}
    return ClientConfig.from_properties({"bootstrap.servers": kafka.bootstrap, **pin})


def test_positions_are_stored_refused_and_found(kafka: RealKafka) -> None:
    with KafkaOffsets(config(kafka), timeout=60) as offsets:
        assert offsets.fetch("stored", [T0, T1]) == {}
        offsets.commit("stored", {T0: OffsetAndMetadata(17, "a note")})
        with pytest.raises(OffsetCommitFailed, match="'stored': offsets of stored-1") as raised:
            offsets.commit("stored", {T0: OffsetAndMetadata(18), T1: OffsetAndMetadata(1, "x" * 5000)})
        assert raised.value.failures == {T1: Code.OFFSET_METADATA_TOO_LARGE}
        assert offsets.fetch("stored", [T0, T1]) == offsets.fetch_all("stored") == {T0: OffsetAndMetadata(18)}
        assert offsets.fetch_all("nobody") == {}


def test_a_group_moves_from_zookeeper_to_kafka(kafka: RealKafka) -> None:
    if not kafka.zookeeper:
        pytest.skip("this Kafka has no ZooKeeper")
    with (
        KazooZooKeeperSession(KazooSettings(kafka.zookeeper)) as session,
        KafkaOffsets(config(kafka), timeout=60) as in_kafka,
    ):
        in_zookeeper = ZooKeeperOffsets(session)
        in_zookeeper.commit("stored-moving", {T0: OffsetAndMetadata(3), T1: OffsetAndMetadata(4)})
        both = DualOffsets(in_kafka, in_zookeeper)
        positions = both.fetch("stored-moving", [T0, T1])
        both.commit("stored-moving", positions | {T1: OffsetAndMetadata(5)})
        expected = {T0: OffsetAndMetadata(3), T1: OffsetAndMetadata(5)}
        assert (
            in_kafka.fetch("stored-moving", [T0, T1])
            == in_zookeeper.fetch("stored-moving", [T0, T1])
            == expected
        )
