"""The same stores on Apache Kafka: 0.9, with a real ZooKeeper beside it, and 4.x."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ottla.client.config import ClientConfig
from ottla.client.metadata import ClusterMetadata
from ottla.fetching import TopicAndPartition
from ottla.model.error_codes import Code
from ottla.offsets import DualOffsets, KafkaOffsets, OffsetAndMetadata, OffsetCommitFailed, ZooKeeperOffsets
from ottla.zookeeper.kazoo_session import KazooSettings, KazooZooKeeperSession
from tools.peers import KAFKA_0_9, KAFKA_4, RealKafka, Unavailable

T0, T1 = TopicAndPartition("t", 0), TopicAndPartition("t", 1)


@pytest.fixture(scope="module", params=[KAFKA_0_9, KAFKA_4])
def kafka(request: pytest.FixtureRequest) -> Iterator[RealKafka]:
    try:
        with RealKafka(request.param, properties={"num.partitions": "2"}) as one:
            with ClusterMetadata(config(one)) as metadata:
                metadata.partitions("t")  # asking makes it
            yield one
    except Unavailable as error:
        pytest.skip(f"Kafka {request.param} cannot be run here: {error}")


def config(kafka: RealKafka) -> ClientConfig:
    pin = {"broker.version": "0.9"} if kafka.version == KAFKA_0_9 else {}
    return ClientConfig.from_properties({"bootstrap.servers": kafka.bootstrap, **pin})


def test_positions_are_stored_refused_and_found(kafka: RealKafka) -> None:
    with KafkaOffsets(config(kafka), timeout_ms=60_000) as offsets:
        assert offsets.fetch("g", [T0, T1]) == {}
        offsets.commit("g", {T0: OffsetAndMetadata(17, "a note")})
        with pytest.raises(OffsetCommitFailed, match="'g': offsets of t-1") as raised:
            offsets.commit("g", {T0: OffsetAndMetadata(18), T1: OffsetAndMetadata(1, "x" * 5000)})
        assert raised.value.failures == {T1: Code.OFFSET_METADATA_TOO_LARGE}
        assert offsets.fetch("g", [T0, T1]) == offsets.fetch_all("g") == {T0: OffsetAndMetadata(18)}
        assert offsets.fetch_all("nobody") == {}


def test_a_group_moves_from_zookeeper_to_kafka(kafka: RealKafka) -> None:
    if not kafka.zookeeper:
        pytest.skip("this Kafka has no ZooKeeper")
    with (
        KazooZooKeeperSession(KazooSettings(kafka.zookeeper)) as session,
        KafkaOffsets(config(kafka), timeout_ms=60_000) as in_kafka,
    ):
        in_zookeeper = ZooKeeperOffsets(session)
        in_zookeeper.commit("moving", {T0: OffsetAndMetadata(3), T1: OffsetAndMetadata(4)})
        both = DualOffsets(in_kafka, in_zookeeper)
        positions = both.fetch("moving", [T0, T1])
        both.commit("moving", positions | {T1: OffsetAndMetadata(5)})
        expected = {T0: OffsetAndMetadata(3), T1: OffsetAndMetadata(5)}
        assert in_kafka.fetch("moving", [T0, T1]) == in_zookeeper.fetch("moving", [T0, T1]) == expected
