"""`GroupConsumer(group_protocol="consumer")` on the embedded broker: what an application sees of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from ottla import Admin, ConfigError, EmbeddedBroker, GroupConsumer, KafkaError
from ottla.consumer.coordinated.broker_assigned_member import BrokerAssignedMember
from ottla.consumer.coordinated.member_config import MemberConfig
from ottla.model.error_codes import Code
from ottla.model.topic_partition import TopicAndPartition
from ottla.wire.api.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    HeartbeatAssignment,
    HeartbeatTopicPartitions,
)
from tests.naming import new_topic
from tests.waiting import wait_for

Consumers = Callable[..., GroupConsumer]


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(properties={"group.consumer.heartbeat.interval.ms": "50"}) as one:
        yield one


@pytest.fixture
def topic(broker: EmbeddedBroker, request: pytest.FixtureRequest) -> str:
    return new_topic(broker, request, 4)


@pytest.fixture
def consumer(broker: EmbeddedBroker, topic: str) -> Iterator[Consumers]:
    with ExitStack() as stack:

        def make(topics: Any = None, **more: Any) -> GroupConsumer:
            settings: dict[str, Any] = {
                "bootstrap_servers": broker.bootstrap,
                "group_protocol": "consumer",
            }
            settings |= {"auto_offset_reset": "earliest", "retry_backoff_ms": 10, "fetch_wait_max_ms": 50}
            wanted = topic if topics is None else topics
            made = GroupConsumer(wanted, group_id=f"group-of-{topic}", **(settings | more))
            return stack.enter_context(made)

        yield make


def share(count: int, *members: GroupConsumer) -> None:
    """Poll until every member has `count` partitions."""

    def is_shared() -> bool:
        for member in members:
            member.poll(0.01)
        return all(len(member.assignment) == count for member in members)

    wait_for(is_shared, f"each of {len(members)} members has {count} partitions")


def test_members_share_and_take_over(consumer: Consumers) -> None:
    first = consumer()
    share(4, first)
    second = consumer()
    share(2, first, second)
    first.close()
    share(4, second)
    assert "stable" in repr(second)


def test_a_partition_that_came_and_went_while_the_application_was_busy() -> None:
    """The broker waits until the member says that it has not got it, or the group stands still."""
    topic_id = bytes(16)
    config = MemberConfig(group_id="g", assignors=(), is_broker_assigned=True)
    member = BrokerAssignedMember(config, ["t"], lambda _: 0.0, "m")
    member.set_topic_names({topic_id: "t"})
    member.polled(0)

    def beat(now_ms: float, *assigned: int) -> list[int] | None:
        """What a heartbeat says that the member owns; the answer assigns these."""
        due = member.next_request(now_ms)
        assert due is not None
        request = due.build(1)
        assert isinstance(request, ConsumerGroupHeartbeatRequest)
        rows = [HeartbeatTopicPartitions(topic_id=topic_id, partitions=list(assigned))] if assigned else None
        assignment = None if rows is None else HeartbeatAssignment(topic_partitions=rows)
        response = ConsumerGroupHeartbeatResponse(
            member_id="m", member_epoch=1, heartbeat_interval_ms=100, assignment=assignment
        )
        member.answered(response, now_ms)
        told = request.topic_partitions
        return None if told is None else [number for row in told for number in row.partitions]

    assert beat(0, 0) == []
    assert beat(100, 0, 1) == [0], "the application is about to take it"
    beat(200, 0)
    member.change_done()
    assert beat(201) == [0]
    assert beat(301) is None, "everything is said"


def test_a_static_member_gets_its_partitions_back(consumer: Consumers) -> None:
    first, second = consumer(group_instance_id="one"), consumer(group_instance_id="two")
    share(2, first, second)
    had, epoch = first.assignment, second.membership.generation
    first.close()
    again = consumer(group_instance_id="one")
    share(2, again, second)
    assert (again.assignment, second.membership.generation) == (had, epoch)


def test_two_static_members_of_one_name(consumer: Consumers) -> None:
    share(4, consumer(group_instance_id="one"))
    other = consumer(group_instance_id="one")
    with pytest.raises(KafkaError, match=re.escape("give each its own")) as caught:
        wait_for(lambda: other.poll(0.01), "it is refused")
    assert caught.value.code == Code.UNRELEASED_INSTANCE_ID


def test_a_member_that_does_not_poll_loses_its_partitions_and_comes_back(consumer: Consumers) -> None:
    slow, other = consumer(max_poll_interval_ms=300), consumer()
    share(2, slow, other)
    wait_for(lambda: other.poll(0.01) or len(other.assignment) == 4, "the other one has them")
    share(2, slow, other)


def test_topics_by_a_pattern_and_by_another_subscription(
    broker: EmbeddedBroker, consumer: Consumers, topic: str
) -> None:
    member = consumer(re.compile(f"{re.escape(topic)}.*"), metadata_max_age_ms=100)
    share(4, member)
    broker.create_topic(f"{topic}-more", 2)
    share(6, member)
    member.subscribe(f"{topic}-more")
    share(2, member)
    assert member.assignment == {TopicAndPartition(f"{topic}-more", number) for number in range(2)}


def test_the_assignor_that_members_wish_for(broker: EmbeddedBroker, consumer: Consumers, topic: str) -> None:
    members = [consumer(group_remote_assignor="range", client_rack="r1") for _ in range(2)]
    share(2, *members)
    parts = sorted(sorted(place.partition for place in member.assignment) for member in members)
    assert parts == [[0, 1], [2, 3]]
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        assert admin.describe_groups(f"group-of-{topic}").assignor == "range"


def test_a_restarted_broker_keeps_the_group(topic: str) -> None:
    properties = {"group.consumer.heartbeat.interval.ms": "50"}
    with EmbeddedBroker(properties=properties) as broker:
        broker.create_topic("t", 4)
        settings = {"bootstrap.servers": broker.bootstrap, "group.protocol": "consumer"}
        with GroupConsumer("t", settings, group_id=topic, retry_backoff_ms=10) as member:
            share(4, member)
            epoch = member.membership.generation
            broker.stop()
            broker.start()
            share(4, member)
            with Admin(bootstrap_servers=broker.bootstrap) as admin:
                wait_for(lambda: len(admin.describe_groups(topic).members) == 1, "the group is there")
            assert member.membership.generation == epoch


@pytest.mark.parametrize(
    "setting",
    [{"session_timeout_ms": 1000}, {"heartbeat.interval.ms": 1}, {"partition_assignment_strategy": "range"}],
)
def test_settings_that_the_broker_has_are_refused(consumer: Consumers, setting: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=r"cannot be set with group\.protocol=consumer: leave it out"):
        consumer(**setting)


def test_the_brokers_assignor_is_not_for_classic_groups(consumer: Consumers) -> None:
    with pytest.raises(ConfigError, match=r"cannot be set with group\.protocol=classic"):
        consumer(group_protocol="classic", group_remote_assignor="range")


def test_a_classic_group_that_may_not_be_upgraded(topic: str) -> None:
    with EmbeddedBroker(properties={"group.consumer.migration.policy": "disabled"}) as broker:
        broker.create_topic("t", 1)
        where = {"bootstrap.servers": broker.bootstrap}
        with (
            GroupConsumer("t", where, group_id=topic) as classic,
            GroupConsumer("t", where, group_id=topic, group_protocol="consumer") as other,
        ):
            share(1, classic)
            with pytest.raises(KafkaError, match=r"set group\.protocol=classic"):
                wait_for(lambda: other.poll(0.01), "it is refused")
