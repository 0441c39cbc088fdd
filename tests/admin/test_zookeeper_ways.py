"""What is written to ZooKeeper for old brokers, and classic groups, on a ZooKeeper in memory."""

from __future__ import annotations

import json
import random

import pytest

from ottla.admin import GroupKind, NewPartitions, NewTopic, TopicAndPartition
from ottla.admin.zookeeper_groups import ZooKeeperGroups
from ottla.admin.zookeeper_topics import CLIENTS, TOPICS, ZooKeeperTopics
from ottla.model.error_codes import Code
from ottla.model.errors import ConfigError, KafkaError, Unsupported
from ottla.zookeeper import paths
from ottla.zookeeper.broker_znodes import BrokerRegistration, Endpoint, encode_broker
from ottla.zookeeper.consumer_znodes import (
    ConsumerRegistration,
    PartitionOwner,
    SubscriptionPattern,
    encode_owner,
    encode_registration,
)
from ottla.zookeeper.memory_session import MemoryZooKeeper
from ottla.zookeeper.session import CreateMode, ZooKeeperSession

MEMBER = "billing_host-7.example-1700000000000-abcdef01"


@pytest.fixture
def session() -> ZooKeeperSession:
    """With three brokers of 0.9."""
    one = MemoryZooKeeper().session()
    one.connect()
    for number in range(3):
        register(one, number, version=2)
    return one


def register(session: ZooKeeperSession, broker_id: int, *, version: int) -> None:
    registration = BrokerRegistration((Endpoint("127.0.0.1", 9092 + broker_id),), 0, version=version)
    session.create_with_parents(paths.broker(broker_id), encode_broker(registration), CreateMode.EPHEMERAL)


@pytest.fixture
def topics(session: ZooKeeperSession) -> ZooKeeperTopics:
    return ZooKeeperTopics(session, random.Random(7))


def refused(code: Code, says: str) -> pytest.RaisesExc[KafkaError]:
    return pytest.RaisesExc(KafkaError, match=says, check=lambda error: error.code == code)


def test_a_topic_is_its_configs_and_its_assignment(
    session: ZooKeeperSession, topics: ZooKeeperTopics
) -> None:
    wanted = NewTopic("orders", partitions=4, replication_factor=2, configs={"retention.ms": 1000})
    topics.create(wanted, validate_only=True)
    assert topics.names() == ()
    topics.create(wanted, validate_only=False)
    assert session.get("/config/topics/orders").data == b'{"version":1,"config":{"retention.ms":"1000"}}'
    written = json.loads(session.get("/brokers/topics/orders").data)
    assert written["version"] == 1
    assert sorted(written["partitions"]) == ["0", "1", "2", "3"]
    leaders = [written["partitions"][number][0] for number in sorted(written["partitions"])]
    assert leaders[:3] == [(leaders[0] + step) % 3 for step in range(3)]
    # Creation is told by the topic itself: a note of changed configs is for topics that are there.
    assert session.exists("/config/changes") is None


def test_what_kafka_would_not_take_is_not_written(session: ZooKeeperSession, topics: ZooKeeperTopics) -> None:
    topics.create(NewTopic("a.b", partitions=1, replication_factor=1), validate_only=False)
    with refused(Code.TOPIC_ALREADY_EXISTS, "'a.b'"):
        topics.create(NewTopic("a.b", partitions=1, replication_factor=1), validate_only=False)
    with refused(Code.INVALID_TOPIC_EXCEPTION, "'a_b' collides with 'a.b'"):
        topics.create(NewTopic("a_b", partitions=1, replication_factor=1), validate_only=False)
    with refused(
        Code.INVALID_REPLICATION_FACTOR, r"replication factor 4, and the brokers \[0, 1, 2\] are up"
    ):
        topics.create(NewTopic("t", partitions=1, replication_factor=4), validate_only=False)
    with refused(Code.INVALID_CONFIG, "did you mean retention.ms"):
        topics.create(NewTopic("t", 1, 1, configs={"retenton.ms": 1}), validate_only=False)
    with refused(Code.INVALID_REPLICA_ASSIGNMENT, r"brokers \[9\] are not up"):
        topics.create(NewTopic("t", assignment={0: [9]}), validate_only=False)
    with refused(Code.INVALID_REPLICA_ASSIGNMENT, "same number of replicas"):
        topics.create(NewTopic("t", assignment={0: [0], 1: [1, 2]}), validate_only=False)
    with pytest.raises(ConfigError, match="a topic has 1 to 255 characters"):
        topics.create(NewTopic("a/b", 1, 1), validate_only=False)
    with pytest.raises(Unsupported, match="give partitions and replication_factor"):
        topics.create(NewTopic("t", partitions=1), validate_only=False)
    assert topics.names() == ("a.b",)
    assert session.children("/config/topics") == ("a.b",)


def test_partitions_are_added_where_the_first_replica_would_be_next(topics: ZooKeeperTopics) -> None:
    topics.create(NewTopic("t", assignment={0: [1, 2], 1: [2, 0]}), validate_only=False)
    assert topics.add_partitions(NewPartitions("t", 4), validate_only=True) == 4
    assert topics.add_partitions(NewPartitions("t", 4), validate_only=False) == 4
    assert topics.add_partitions(NewPartitions("t", 5, [[0, 1]]), validate_only=False) == 5
    with refused(Code.INVALID_PARTITIONS, "has 5 partitions, and 5 is not more"):
        topics.add_partitions(NewPartitions("t", 5), validate_only=False)
    with refused(Code.INVALID_REPLICA_ASSIGNMENT, "1 new partitions of 2 replicas each are expected"):
        topics.add_partitions(NewPartitions("t", 6, [[0]]), validate_only=False)
    with refused(Code.UNKNOWN_TOPIC_OR_PARTITION, "'missing'"):
        topics.add_partitions(NewPartitions("missing", 6), validate_only=False)
    with refused(Code.INVALID_PARTITIONS, "internal to Kafka"):
        topics.add_partitions(NewPartitions("__consumer_offsets", 99), validate_only=False)


def test_a_topic_is_marked_for_deletion(session: ZooKeeperSession, topics: ZooKeeperTopics) -> None:
    topics.create(NewTopic("t", 1, 1), validate_only=False)
    topics.delete("t")
    assert session.get("/admin/delete_topics/t").data == b""
    assert topics.marked_for_deletion() == {"t"}
    with refused(Code.INVALID_REQUEST, "marked for deletion already.*delete.topic.enable=false"):
        topics.delete("t")
    with refused(Code.UNKNOWN_TOPIC_OR_PARTITION, "'missing'"):
        topics.delete("missing")
    with refused(Code.INVALID_TOPIC_EXCEPTION, "internal to Kafka"):
        topics.delete("__consumer_offsets")


def test_changed_configs_are_written_and_noted(session: ZooKeeperSession, topics: ZooKeeperTopics) -> None:
    topics.create(NewTopic("t", 1, 1, configs={"flush.ms": 5, "retention.ms": 6}), validate_only=False)
    topics.alter_configs(TOPICS, "t", {"flush.ms": None, "segment.ms": "7"}, validate_only=False)
    assert topics.configs(TOPICS, "t") == {"retention.ms": "6", "segment.ms": "7"}
    note = session.get("/config/changes/config_change_0000000000").data
    assert note == b'{"version":1,"entity_type":"topics","entity_name":"t"}'
    topics.alter_configs(CLIENTS, "billing", {"producer_byte_rate": "1000"}, validate_only=False)
    assert topics.configs(CLIENTS, "billing") == {"producer_byte_rate": "1000"}
    note = session.get("/config/changes/config_change_0000000001").data
    assert note == b'{"version":1,"entity_type":"clients","entity_name":"billing"}'
    topics.alter_configs(TOPICS, "t", {"flush.ms": "1"}, validate_only=True)
    for wrong in ({"flush.ms": "soon"}, {"flush.mss": None}, {"cleanup.policy": "keep"}):
        with pytest.raises(KafkaError, match="INVALID_CONFIG"):
            topics.alter_configs(TOPICS, "t", wrong, validate_only=False)
    with refused(Code.UNKNOWN_TOPIC_OR_PARTITION, "'missing'"):
        topics.configs(TOPICS, "missing")
    with pytest.raises(Unsupported, match=r"server\.properties"):
        topics.configs("brokers", "1")
    assert len(session.children("/config/changes")) == 2


def test_brokers_of_0_8_get_the_note_that_they_read(
    session: ZooKeeperSession, topics: ZooKeeperTopics
) -> None:
    register(session, 3, version=1)
    topics.create(NewTopic("t", 1, 1), validate_only=False)
    topics.alter_configs(TOPICS, "t", {"flush.ms": "1"}, validate_only=False)
    assert session.get("/config/changes/config_change_0000000000").data == b'"t"'


@pytest.fixture
def groups(session: ZooKeeperSession) -> ZooKeeperGroups:
    """One group with a member that owns a partition, and offsets of two."""
    registration = ConsumerRegistration({"orders": 2}, SubscriptionPattern.STATIC, 0)
    path = paths.consumer("billing", MEMBER)
    session.create_with_parents(path, encode_registration(registration), CreateMode.EPHEMERAL)
    owner = encode_owner(PartitionOwner(MEMBER, 1))
    session.create_with_parents(paths.owner("billing", "orders", 1), owner, CreateMode.EPHEMERAL)
    for number in range(2):
        session.create_with_parents(paths.offset("billing", "orders", number), b"%d" % (5 + number))
    session.create_with_parents(paths.owners("idle"), b"")
    return ZooKeeperGroups(session)


def test_classic_groups_are_described(groups: ZooKeeperGroups) -> None:
    assert [(one.group_id, one.state) for one in groups.listings()] == [
        ("billing", "Stable"),
        ("idle", "Empty"),
    ]
    found = groups.describe("billing")
    assert (found.kind, found.state) == (GroupKind.ZOOKEEPER, "Stable")
    (member,) = found.members
    assert (member.member_id, member.host) == (MEMBER, "host-7.example")
    assert member.subscription == ("orders",)
    assert member.assignment == (TopicAndPartition("orders", 1),)
    assert groups.describe("idle").members == ()
    assert groups.topics("billing") == ("orders",)
    with refused(Code.GROUP_ID_NOT_FOUND, "'missing' in ZooKeeper"):
        groups.describe("missing")


def test_offsets_change_only_while_nobody_reads(session: ZooKeeperSession, groups: ZooKeeperGroups) -> None:
    first, second = TopicAndPartition("orders", 0), TopicAndPartition("orders", 1)
    assert {place: one.offset for place, one in groups.offsets("billing").items()} == {first: 5, second: 6}
    for change in (
        lambda: groups.write_offsets("billing", {first: 1}),
        lambda: groups.delete_offsets("billing", [first]),
        lambda: groups.delete("billing"),
    ):
        with refused(Code.NON_EMPTY_GROUP, f"members {MEMBER}.*stop them first"):
            change()
    session.delete(paths.consumer("billing", MEMBER))
    groups.write_offsets("billing", {first: 1})
    assert session.get("/consumers/billing/offsets/orders/0").data == b"1"
    groups.delete_offsets("billing", [first])
    assert session.children("/consumers/billing/offsets/orders") == ("1",)
    groups.delete_offsets("billing", [second, TopicAndPartition("never", 0)])
    assert session.children("/consumers/billing/offsets") == ()
    groups.delete("billing")
    assert session.exists("/consumers/billing") is None


def test_damaged_znodes_do_not_hide_the_rest(session: ZooKeeperSession, groups: ZooKeeperGroups) -> None:
    session.set(paths.consumer("billing", MEMBER), b"{")
    session.set(paths.owner("billing", "orders", 1), b"nobody")
    (member,) = groups.describe("billing").members
    assert (member.subscription, member.assignment) == ((), ())
