"""The embedded broker beside a real ZooKeeper: taken for one of 0.9, and two groups under one name."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ottla import Producer, aio
from ottla.admin import (
    Admin,
    GroupKind,
    NewPartitions,
    NewTopic,
    StoredOffset,
    TopicAndPartition,
    topic_resource,
)
from ottla.broker.embedded import EmbeddedBroker
from ottla.model.errors import AdminErrors, BrokerUnreachable, KafkaError
from ottla.zookeeper import paths
from ottla.zookeeper.consumer_znodes import ConsumerRegistration, SubscriptionPattern, encode_registration
from ottla.zookeeper.kazoo_session import KazooSettings, KazooZooKeeperSession
from ottla.zookeeper.server import ZooKeeperServer
from ottla.zookeeper.session import CreateMode
from ottla.zookeeper.zookeeper_errors import ZooKeeperConnectionLost
from tests.both_faces import FACES, opened
from tests.waiting import wait_for


@pytest.fixture(scope="module")
def keeper(zookeeper_server: ZooKeeperServer) -> str:
    """zookeeper.connect with a chroot in which there is nothing."""
    return f"{zookeeper_server.connect}/both-kinds"


@pytest.fixture(scope="module")
def broker(keeper: str) -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(properties={"zookeeper.connect": keeper, "offsets.topic.num.partitions": "1"}) as one:
        yield one


@pytest.fixture(params=FACES)
def admin(broker: EmbeddedBroker, keeper: str, request: pytest.FixtureRequest) -> Iterator[Admin]:
    settings = {"bootstrap_servers": broker.bootstrap, "zookeeper_connect": keeper}
    with opened(request.param, Admin, aio.Admin, **settings) as one:
        yield one


def test_orders_that_are_left_in_zookeeper_are_carried_out(
    broker: EmbeddedBroker, keeper: str, admin: Admin, name: str
) -> None:
    one = topic_resource(name)
    with Admin(zookeeper_connect=keeper, broker_version="0.9") as old:
        assert [node.port for node in old.describe_cluster().brokers] == [broker.port]
        old.create_topics(NewTopic(name, 2, 1, configs={"flush.ms": 5}))
        old.create_partitions(NewPartitions(name, 3))
        wait_for(lambda: len(admin.describe_topics(name).partitions) == 3)
        assert admin.describe_configs(one)["flush.ms"].value == "5"
        old.alter_configs(one, {"flush.ms": None, "segment.ms": 77_000})
        assert set(old.describe_configs(one)) == {"segment.ms"}
        wait_for(lambda: admin.describe_configs(one)["segment.ms"].value == "77000")
        old.delete_topics(name)
    wait_for(lambda: name not in admin.list_topics())


def test_a_name_stands_for_the_group_that_has_members(
    broker: EmbeddedBroker, keeper: str, admin: Admin, name: str
) -> None:
    admin.create_topics(NewTopic(name, 2, 1))
    with Producer(bootstrap_servers=broker.bootstrap) as producer:
        for number in range(20):
            producer.send(name, b"x", partition=number % 2)
    first, second = TopicAndPartition(name, 0), TopicAndPartition(name, 1)
    admin.alter_group_offsets(name, {first: 3, second: 4}, kind=GroupKind.ZOOKEEPER)
    lag = admin.group_lag(name)  # there is only this one as yet
    assert (lag.group.kind, lag.total) == (GroupKind.ZOOKEEPER, 13)
    admin.alter_group_offsets(name, {first: 9}, kind=GroupKind.KAFKA)
    assert admin.describe_groups(name).kind is GroupKind.KAFKA  # neither has members
    assert [row.kind for row in admin.list_groups() if row.group_id == name] == [
        GroupKind.KAFKA,
        GroupKind.ZOOKEEPER,
    ]
    with KazooZooKeeperSession(KazooSettings(keeper, connection_timeout_ms=20_000)) as session:
        registration = encode_registration(ConsumerRegistration({name: 1}, SubscriptionPattern.STATIC))
        path = paths.consumer(name, f"{name}_here-1-a")
        session.create_with_parents(path, registration, CreateMode.EPHEMERAL)
        assert admin.describe_groups(name).kind is GroupKind.ZOOKEEPER
        rows = admin.group_lag([name])[name].partitions
        assert [(row.committed, row.stored_in) for row in rows] == [
            (9, GroupKind.KAFKA),  # the larger one, as nothing says which of them the member uses
            (4, GroupKind.ZOOKEEPER),
        ]
        assert rows[0].stored == (StoredOffset(GroupKind.KAFKA, 9), StoredOffset(GroupKind.ZOOKEEPER, 3))
        # What its owner writes into ZooKeeper is what it uses.
        owner = paths.owner(name, name, 0)
        session.create_with_parents(owner, f"{name}_here-1-a-0".encode(), CreateMode.EPHEMERAL)
        session.set(paths.offset(name, name, 0), b"5")
        (row, _) = admin.group_lag(name).partitions
        assert (row.committed, row.stored_in) == (5, GroupKind.ZOOKEEPER)
        assert row.stored == (
            StoredOffset(GroupKind.KAFKA, 9),
            StoredOffset(GroupKind.ZOOKEEPER, 5, is_used=True),
        )
        session.set(paths.offset(name, name, 0), b"10")
        (row, _) = admin.group_lag(name).partitions
        assert row.stored == (
            StoredOffset(GroupKind.KAFKA, 9, is_used=False),
            StoredOffset(GroupKind.ZOOKEEPER, 10, is_used=True),
        )
        with pytest.raises(KafkaError, match="stop them first"):
            admin.reset_group_offsets(name, name, "earliest")
    strange = f"{name} / of many"  # no classic group can be called so
    admin.alter_group_offsets(strange, {first: 9})
    assert admin.group_lag(strange).total == 1
    admin.delete_groups(name, kind=GroupKind.ZOOKEEPER)
    assert [row.kind for row in admin.list_groups() if row.group_id == name] == [GroupKind.KAFKA]


def test_a_broker_of_0_8_2_knows_groups_by_their_offsets(
    broker: EmbeddedBroker, keeper: str, admin: Admin, name: str
) -> None:
    admin.create_topics(NewTopic(name, 2, 1))
    place = TopicAndPartition(name, 1)
    with Admin(bootstrap_servers=broker.bootstrap, zookeeper_connect=keeper, broker_version="0.8.2") as old:
        wait_for(lambda: name in old.list_topics())  # the broker tells ZooKeeper of it a moment later
        old.alter_group_offsets(name, {place: 0}, kind=GroupKind.KAFKA)
        assert old.group_offsets(name) == admin.group_offsets(name)
        assert (old.describe_groups(name).state, old.group_lag(name).total) == ("Empty", 0)
        with pytest.raises(KafkaError, match="GROUP_ID_NOT_FOUND"):
            old.describe_groups("missing")
        old.alter_group_offsets(f"{name}-classic", {place: 0}, kind=GroupKind.ZOOKEEPER)
        assert {one.kind for one in old.list_groups()} == {GroupKind.ZOOKEEPER}
        assert f"{name}-classic" in {one.group_id for one in old.list_groups()}


def test_a_zookeeper_that_is_not_there_is_told_in_time(broker: EmbeddedBroker, keeper: str) -> None:
    nowhere = "127.0.0.1:1"
    hasty = {"zookeeper.connection.timeout.ms": 300}
    with (
        Admin(hasty, zookeeper_connect=nowhere) as admin,
        pytest.raises(ZooKeeperConnectionLost, match=r"at 127\.0\.0\.1:1 answered within 300 ms"),
    ):
        admin.list_topics()
    with (
        Admin(zookeeper_connect=f"{keeper}/nothing-here") as admin,
        pytest.raises(BrokerUnreachable, match=r"the chroot of zookeeper.connect is not the brokers'"),
    ):
        admin.list_topics()
    with Admin(hasty, bootstrap_servers=broker.bootstrap, zookeeper_connect=nowhere) as admin:
        assert admin.list_topics() is not None  # what needs no ZooKeeper works without it
        with pytest.raises(AdminErrors, match="1 of 2 failed: no ZooKeeper server") as caught:
            admin.list_groups()
        assert list(caught.value.results) == ["broker 0"]
