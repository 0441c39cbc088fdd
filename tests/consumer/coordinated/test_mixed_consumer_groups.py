"""One consumer group (KIP-848) of our members and of other clients, and a group that changes its protocol.

A client that cannot be had here is named in a skip, after the others have been through it all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from ottla import Admin, EmbeddedBroker
from ottla.admin import NewTopic
from ottla.wire.api.consumer_group_describe import ConsumerGroupDescribeRequest
from tests.broker.wire_client import Client
from tests.consumer.coordinated.foreign_members import FOREIGN, Confluent, ForeignMember, Ours
from tests.consumer.coordinated.member_process import CONSUMER
from tests.consumer.coordinated.mixed_group import PARTITIONS, MixedGroup
from tests.scale import nightly
from tests.waiting import wait_for
from tools.peers import KAFKA_4, RealKafka

Groups = Callable[..., MixedGroup]
Members = dict[str, Callable[..., ForeignMember]]


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as one:
        yield one


@pytest.fixture
def groups() -> Iterator[Groups]:
    """Makes groups that end with the test."""
    with ExitStack() as stack:

        def make(bootstrap: str, topic: str, **more: Any) -> MixedGroup:
            group = MixedGroup(bootstrap, topic, **more)
            stack.callback(group.close)
            return group

        yield make


def end(group: MixedGroup) -> None:
    group.check_each_record_was_read_once()
    group.close()
    if group.missing:
        pytest.skip("; ".join(f"{name} cannot be had here: {why}" for name, why in group.missing.items()))


def member_types(broker: EmbeddedBroker, topic: str) -> set[int]:
    """Which protocols the members speak: 0 classic, 1 consumer."""
    with Client.of(broker.bootstrap) as client:
        answer = client.call(ConsumerGroupDescribeRequest(group_ids=[f"group-of-{topic}"]), 1)
    return {member.member_type for member in answer.groups[0].members}


def is_stable(broker: EmbeddedBroker, topic: str) -> bool:
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        return admin.describe_groups(f"group-of-{topic}").state == "Stable"


def kind_of(broker: EmbeddedBroker, topic: str) -> str:
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        return {one.group_id: one.group_type for one in admin.list_groups()}[f"group-of-{topic}"]


def test_each_record_is_read_once_in_a_mixed_consumer_group(broker: EmbeddedBroker, groups: Groups) -> None:
    broker.create_topic("together", PARTITIONS)
    group = groups(broker.bootstrap, "together")
    others = {name: FOREIGN[name][0] for name in ("librdkafka", "java", "franz-go")}
    group.produce()
    group.join("ours", Ours, CONSUMER)
    group.settle()
    for name, make in others.items():
        group.join(name, make, CONSUMER)
    group.settle()
    group.produce()
    group.join("ours too", Ours, CONSUMER)
    group.settle()
    assert member_types(broker, "together") == {1}
    group.leave(["ours"])
    group.settle()
    group.produce()
    group.leave(["librdkafka"])
    group.settle()
    group.produce()
    end(group)


@nightly("shows that the test is right, not our broker")
def test_each_record_is_read_once_in_a_consumer_group_on_apache_kafka(
    real_kafka: Callable[[str], RealKafka], groups: Groups
) -> None:
    bootstrap = real_kafka(KAFKA_4).bootstrap
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics(NewTopic("consumer-protocol", PARTITIONS, 1))
    group = groups(bootstrap, "consumer-protocol")
    group.produce()
    group.join("ours", Ours, CONSUMER)
    group.join("librdkafka", Confluent, CONSUMER)
    group.settle()
    group.produce()
    group.leave(["librdkafka"])
    group.settle()
    end(group)


def test_a_live_group_rolls_from_classic_to_consumer_and_back(broker: EmbeddedBroker, groups: Groups) -> None:
    """One member at a time, while records come: nothing is lost, nothing is read twice."""
    broker.create_topic("rolled", PARTITIONS)
    group = groups(broker.bootstrap, "rolled")
    members: dict[str, Callable[..., ForeignMember]] = {
        "ours": Ours,
        "ours too": Ours,
        "librdkafka": Confluent,
    }
    for name, make in members.items():
        group.join(f"{name}: range", make, "range")
    group.settle()
    before = "range"
    for strategy in (CONSUMER, "range"):
        for name, make in members.items():
            group.produce()
            group.leave([f"{name}: {before}"])
            group.join(f"{name}: {strategy}", make, strategy)
            group.settle()
            # Who is behind the group's epoch when it becomes classic again, is out, as in Kafka.
            wait_for(lambda: is_stable(broker, "rolled"), "all members are in the group's epoch")
        assert kind_of(broker, "rolled") == ("consumer" if strategy == CONSUMER else "classic")
        before = strategy
    end(group)
