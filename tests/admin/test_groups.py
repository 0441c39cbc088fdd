"""Groups that a coordinator among the embedded brokers has, with real consumers in them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import pytest
from confluent_kafka import Consumer

from ottla import Producer
from ottla.admin import Admin, CommittedOffset, GroupKind, GroupListing, OffsetMove, TopicAndPartition
from ottla.broker.embedded import EmbeddedBroker
from ottla.model.error_codes import Code
from ottla.model.errors import AdminErrors, ConfigError, KafkaError
from tests.waiting import wait_for

Places = list[TopicAndPartition]


@pytest.fixture
def places(brokers: EmbeddedBroker, topic: str) -> Places:
    """Three partitions with ten records each."""
    with Producer(bootstrap_servers=brokers.bootstrap) as producer:
        for number in range(30):
            producer.send(topic, b"x", partition=number % 3)
    return [TopicAndPartition(topic, number) for number in range(3)]


@contextmanager
def member(brokers: EmbeddedBroker, group: str, topic: str) -> Iterator[Consumer]:
    """A consumer that has joined."""
    consumer = Consumer(
        {"bootstrap.servers": brokers.bootstrap, "group.id": group, "client.id": "reader"}
        | {"auto.offset.reset": "earliest", "enable.auto.commit": False}
    )
    consumer.subscribe([topic])
    try:
        wait_for(lambda: (read := consumer.poll(0.1)) is not None and read.error() is None)
        yield consumer
    finally:
        consumer.close()


def test_a_group_with_a_member(admin: Admin, brokers: EmbeddedBroker, places: Places, name: str) -> None:
    with member(brokers, name, places[0].topic) as consumer:
        consumer.commit(asynchronous=False)
        found = admin.describe_groups(name)
        assert (found.kind, found.state, found.protocol_type) == (GroupKind.KAFKA, "Stable", "consumer")
        assert found.assignor == "range"
        assert found.coordinator in admin.describe_cluster().brokers
        (one,) = found.members
        assert (one.client_id, one.host) == ("reader", "127.0.0.1")
        assert one.assignment == tuple(places)
        assert one.subscription == (places[0].topic,)
        assert GroupListing(name, GroupKind.KAFKA, "consumer", "Stable", "classic") in admin.list_groups()
        lag = admin.group_lag(name)
        assert [row.topic_partition for row in lag.partitions] == places
        assert {row.member for row in lag.partitions} == {one}
        for refused in (
            lambda: admin.delete_groups(name),
            lambda: admin.reset_group_offsets(name, places, "earliest"),
        ):
            with pytest.raises((KafkaError, AdminErrors), match="still has members; stop them first"):
                refused()
        with pytest.raises(AdminErrors, match="GROUP_SUBSCRIBED_TO_TOPIC"):
            admin.delete_group_offsets(name, places)
    wait_for(lambda: admin.describe_groups(name).state == "Empty")


def test_offsets_are_written_read_and_forgotten(admin: Admin, places: Places, name: str) -> None:
    assert admin.group_offsets(name) == {}
    admin.alter_group_offsets(name, {places[0]: 4, places[2]: 9})
    assert admin.group_offsets(name) == {places[0]: CommittedOffset(4), places[2]: CommittedOffset(9)}
    lag = admin.group_lag(name)
    assert [(row.committed, row.end, row.lag) for row in lag.partitions] == [(4, 10, 6), (9, 10, 1)]
    assert (len(lag.partitions), lag.partitions[-1].lag) == (2, 1)
    assert lag.partitions == tuple(lag.partitions)
    assert lag.partitions[1:] == [lag.partitions[1]]
    assert lag.total == 7
    admin.delete_group_offsets(name, places[:1])
    assert set(admin.group_offsets([name])[name]) == {places[2]}
    admin.delete_groups(name)
    assert admin.group_offsets(name) == {}
    with pytest.raises(KafkaError, match="GROUP_ID_NOT_FOUND"):
        admin.describe_groups(name)


def test_resets(admin: Admin, places: Places, name: str) -> None:
    topic = places[0].topic
    admin.delete_records({places[1]: 3})
    plan = admin.reset_group_offsets(name, topic, "earliest", dry_run=True)
    assert plan == {
        places[0]: OffsetMove(None, 0, 0),
        places[1]: OffsetMove(None, 3, 3),
        places[2]: OffsetMove(None, 0, 0),
    }
    assert admin.group_offsets(name) == {}
    admin.reset_group_offsets(name, [topic], "latest")
    moved = admin.reset_group_offsets(name, places, shift_by=-8)
    assert moved == {
        places[0]: OffsetMove(10, 2, 2),
        places[1]: OffsetMove(10, 3, 2),  # its log begins there
        places[2]: OffsetMove(10, 2, 2),
    }
    assert [one.offset for one in admin.group_offsets(name).values()] == [2, 3, 2]
    assert admin.reset_group_offsets(name, places[:1], "earliest", shift_by=5)[places[0]].after == 5
    assert admin.reset_group_offsets(name, places[:1], 7)[places[0]].after == 7
    assert admin.reset_group_offsets(name, places[:1], 700) == {places[0]: OffsetMove(7, 10, 700)}
    assert (
        admin.reset_group_offsets(name, places[:1], datetime(2100, 1, 1, tzinfo=UTC))[places[0]].after == 10
    )
    with pytest.raises(ConfigError, match="to='earliest'"):
        admin.reset_group_offsets(name, places)
    with pytest.raises(AdminErrors, match="committed nothing of"):
        admin.reset_group_offsets(f"{name}-new", places, shift_by=1)
    with pytest.raises(AdminErrors, match="'missing'"):
        admin.reset_group_offsets(name, ["missing"], "earliest")


def test_a_log_whose_end_is_not_told_keeps_the_reason(
    admin: Admin, brokers: EmbeddedBroker, places: Places, name: str
) -> None:
    admin.alter_group_offsets(name, {places[0]: 4})
    brokers.fail("ListOffsets", Code.TOPIC_AUTHORIZATION_FAILED)
    (row,) = admin.group_lag(name).partitions
    assert (row.committed, row.end, row.lag) == (4, None, None)
    assert "this user may not do that with the topic" in str(row.error)


def test_of_many_each_has_its_own_outcome(admin: Admin, places: Places, name: str) -> None:
    admin.alter_group_offsets(name, {places[0]: 4})
    for call in (admin.describe_groups, admin.group_lag, admin.delete_groups):
        with pytest.raises(
            AdminErrors, match=r"1 of 2 failed: group 'missing'.*GROUP_ID_NOT_FOUND"
        ) as caught:
            call([name, "missing"])
        assert set(caught.value.results) == {name}
    with pytest.raises(AdminErrors) as caught:
        admin.alter_group_offsets(name, {places[0]: 1, TopicAndPartition("missing", 0): 1})
    assert list(caught.value.results) == [places[0]]


def test_groups_of_all_brokers_are_listed(
    admin: Admin, brokers: EmbeddedBroker, places: Places, name: str
) -> None:
    names = [f"{name}-{number}" for number in range(12)]
    for one in names:
        admin.alter_group_offsets(one, {places[0]: 1})
    assert set(names) <= {one.group_id for one in admin.list_groups()}
    brokers.fail("ListGroups", Code.CLUSTER_AUTHORIZATION_FAILED)
    with pytest.raises(AdminErrors, match=r"1 of 3 failed.*this user may not"):
        admin.list_groups()


def test_coordinators_that_move_are_followed(
    admin: Admin, brokers: EmbeddedBroker, places: Places, name: str
) -> None:
    admin.alter_group_offsets(name, {places[0]: 1})
    for api in ("OffsetFetch", "DescribeGroups", "OffsetCommit", "DeleteGroups"):
        brokers.fail(api, Code.NOT_COORDINATOR)
    assert admin.group_offsets(name) == {places[0]: CommittedOffset(1)}
    assert admin.describe_groups(name).state == "Empty"
    admin.alter_group_offsets(name, {places[0]: 2})
    admin.delete_groups(name)
    brokers.fail("OffsetFetch", Code.GROUP_AUTHORIZATION_FAILED)
    with pytest.raises(KafkaError, match=f"group '{name}'.*this user may not do that with the group"):
        admin.group_offsets(name)


def test_wrong_arguments(admin: Admin, places: Places) -> None:
    with pytest.raises(ConfigError, match="the name of a group is empty"):
        admin.describe_groups("")
    with pytest.raises(ConfigError, match="offset -5 is negative"):
        admin.alter_group_offsets("g", {places[0]: -5})
