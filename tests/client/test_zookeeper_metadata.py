"""The cluster as its znodes tell it, in every form that Kafka 0.8 to 3.9 writes them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ottla.client.zookeeper_metadata import ZooKeeperMetadata
from ottla.model.address import Address
from ottla.model.cluster_view import NO_CONTROLLER, NO_LEADER, BrokerNode, PartitionLeader, PartitionView
from ottla.model.error_codes import Code
from ottla.model.errors import BrokerUnreachable
from ottla.security.security_protocol import SecurityProtocol
from ottla.zookeeper import paths
from ottla.zookeeper.broker_znodes import (
    BrokerRegistration,
    Controller,
    Endpoint,
    encode_broker,
    encode_cluster_id,
    encode_controller,
)
from ottla.zookeeper.memory_session import MemorySession, MemoryZooKeeper
from ottla.zookeeper.topic_znodes import (
    PartitionStateZnode,
    TopicAssignment,
    encode_assignment,
    encode_partition_state,
)

TOPIC_ID = "AAECAwQFBgcICQoLDA0ODw"


@pytest.fixture
def session() -> Iterator[MemorySession]:
    session = MemoryZooKeeper().session()
    session.connect()
    yield session
    session.close()


@pytest.fixture
def cluster(session: MemorySession) -> MemorySession:
    """Two brokers, of 0.8 and of 3.9; a topic of two partitions, one of them without a leader."""
    one = BrokerRegistration((Endpoint("kafka-1", 9092),), 1, version=1)
    secure = Endpoint("kafka-2", 9093, "EXTERNAL", "SASL_SSL")
    two = BrokerRegistration((Endpoint("kafka-2", 9092), secure), 1, version=5, rack="r2")
    session.create_with_parents(paths.broker(1), encode_broker(one))
    session.create_with_parents(paths.broker(2), encode_broker(two))
    session.create_with_parents(paths.CONTROLLER, encode_controller(Controller(2)))
    session.create_with_parents(paths.CLUSTER_ID, encode_cluster_id("the-cluster"))
    assignment = TopicAssignment({0: (2, 1), 1: (1, 2), 2: (1,)}, version=3, topic_id=TOPIC_ID)
    session.create_with_parents(paths.topic("orders"), encode_assignment(assignment))
    led = encode_partition_state(PartitionStateZnode(2, 7, 1, (2,)))
    session.create_with_parents(paths.partition_state("orders", 0), led)
    unled = encode_partition_state(PartitionStateZnode(-1, 9, 1, ()))
    session.create_with_parents(paths.partition_state("orders", 1), unled)
    return session


def test_brokers_topics_and_leaders(cluster: MemorySession) -> None:
    view = ZooKeeperMetadata(cluster).view(now_ms=5.0)
    assert view.brokers == {1: BrokerNode(1, "kafka-1", 9092), 2: BrokerNode(2, "kafka-2", 9092, "r2")}
    assert view.controller_id == 2
    assert view.cluster_id == "the-cluster"
    assert view.is_whole
    assert view.fetched_at_ms == 5.0
    assert view.leader_of("orders", 0) == PartitionLeader(view.brokers[2], 7)
    assert view.topics["orders"].topic_id == bytes(range(16))
    _, unled, unborn = view.topics["orders"].partitions
    assert unled == PartitionView(1, NO_LEADER, 9, (1, 2), (), Code.LEADER_NOT_AVAILABLE)
    assert unborn == PartitionView(2, NO_LEADER, -1, (1,), (), Code.LEADER_NOT_AVAILABLE)


def test_the_endpoint_of_our_protocol_is_taken(cluster: MemorySession) -> None:
    secure = ZooKeeperMetadata(cluster, protocol=SecurityProtocol.SASL_SSL)
    assert secure.bootstrap() == (Address("kafka-2", 9093),)
    assert ZooKeeperMetadata(cluster).bootstrap() == (Address("kafka-1", 9092), Address("kafka-2", 9092))
    with pytest.raises(BrokerUnreachable, match="no broker with a SSL endpoint"):
        ZooKeeperMetadata(cluster, protocol=SecurityProtocol.SSL).bootstrap()


def test_topics_can_be_named(cluster: MemorySession) -> None:
    view = ZooKeeperMetadata(cluster).view(["orders", "none"])
    assert not view.is_whole
    assert view.topics["none"].error == Code.UNKNOWN_TOPIC_OR_PARTITION
    assert view.topics["orders"].error == Code.NONE


def test_nothing_is_there_yet(session: MemorySession) -> None:
    view = ZooKeeperMetadata(session).view()
    assert (view.brokers, view.topics) == ({}, {})
    assert view.controller_id == NO_CONTROLLER
    assert view.cluster_id is None


def test_what_cannot_be_read_is_left_out(cluster: MemorySession, caplog: pytest.LogCaptureFixture) -> None:
    for path in (
        paths.broker(1),
        paths.CONTROLLER,
        paths.CLUSTER_ID,
        paths.partition_state("orders", 0),
    ):
        cluster.set(path, b"{")
    cluster.create_with_parents(paths.topic("broken"), b"[]")
    view = ZooKeeperMetadata(cluster).view()
    assert set(view.brokers) == {2}
    assert view.controller_id == NO_CONTROLLER
    assert view.topics["broken"].error == Code.UNKNOWN_SERVER_ERROR
    assert view.leader_of("orders", 0) is None
    assert {paths.broker(1), paths.topic("broken")} <= {
        path for path in (paths.broker(1), paths.topic("broken")) if path in caplog.text
    }


def test_foreign_nodes_are_no_brokers_and_no_topics(
    cluster: MemorySession, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("backup", "99999999999", "4294967296", "²"):
        cluster.create_with_parents(f"{paths.BROKER_IDS}/{name}", b"{}")
    cluster.create_with_parents(f"{paths.TOPICS}/orders (copy)", b"{}")
    view = ZooKeeperMetadata(cluster).view()
    assert set(view.brokers) == {1, 2}
    assert set(view.topics) == {"orders"}
    assert f"{paths.TOPICS}/orders (copy)" in caplog.text
