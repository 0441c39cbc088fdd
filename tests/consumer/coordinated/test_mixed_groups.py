"""One group of our members and of other clients, on the embedded broker and on Apache Kafka.

A client that cannot be had here is named in a skip, after the others have been through it all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from typing import Any

import pytest

from ottla import Admin, EmbeddedBroker
from ottla.admin import NewTopic
from tests.consumer.coordinated.foreign_members import FOREIGN, OF_0_9, ForeignMember, Ours, java_member
from tests.consumer.coordinated.mixed_group import PARTITIONS, MixedGroup
from tests.scale import sized
from tools.peers import KAFKA_0_9, KAFKA_4, RealKafka

STRATEGIES = ["range", "roundrobin", "sticky", "cooperative-sticky"]

Members = Mapping[str, Callable[..., ForeignMember]]


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as one:
        yield one


@pytest.fixture
def groups() -> Iterator[Callable[..., MixedGroup]]:
    """Makes groups that end with the test."""
    with ExitStack() as stack:

        def make(bootstrap: str, topic: str, **more: Any) -> MixedGroup:
            group = MixedGroup(bootstrap, topic, **more)
            stack.callback(group.close)
            return group

        yield make


def clients(strategy: str) -> Members:
    """Those that have the strategy; for each, another one is the first, and leads."""
    names = [name for name, (_, has) in FOREIGN.items() if strategy in has]
    turn = STRATEGIES.index(strategy)
    return {name: FOREIGN[name][0] for name in names[turn:] + names[:turn]}


def check_mixed(group: MixedGroup, strategy: str, others: Members, **more: Any) -> None:
    """Another client first, then ours and the rest; the first ones leave, and in the end ours is alone."""
    first, *rest = others
    group.produce()
    group.join(first, others[first], strategy)
    if first not in group.missing:
        group.settle()
    group.join("ours", Ours, strategy, **more)
    for name in rest:
        group.join(name, others[name], strategy)
    group.settle()
    group.produce()
    group.join("ours too", Ours, strategy, **more)
    group.settle()
    group.leave([first])
    group.settle()
    group.produce()
    group.leave(["ours"])
    group.settle()
    group.produce()
    group.leave(rest)
    group.settle()
    end(group)


def end(group: MixedGroup) -> None:
    group.check_each_record_was_read_once()
    group.close()
    if group.missing:
        pytest.skip("; ".join(f"{name} cannot be had here: {why}" for name, why in group.missing.items()))


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_each_record_is_read_once_in_a_mixed_group(
    broker: EmbeddedBroker, groups: Callable[..., MixedGroup], strategy: str
) -> None:
    broker.create_topic(strategy, PARTITIONS)
    check_mixed(groups(broker.bootstrap, strategy), strategy, clients(strategy))


@pytest.mark.parametrize("strategy", sized(STRATEGIES[-1:], STRATEGIES))
@pytest.mark.parametrize("version", [KAFKA_4])
def test_each_record_is_read_once_on_apache_kafka(
    real_kafka: Callable[[str], RealKafka], groups: Callable[..., MixedGroup], version: str, strategy: str
) -> None:
    bootstrap, topic = real_kafka(version).bootstrap, f"mixed-{strategy}"
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics(NewTopic(topic, PARTITIONS, 1))
    check_mixed(groups(bootstrap, topic), strategy, clients(strategy))


@pytest.mark.parametrize("version", [KAFKA_0_9])
def test_each_record_is_read_once_on_kafka_0_9(
    real_kafka: Callable[[str], RealKafka], groups: Callable[..., MixedGroup], version: str
) -> None:
    kafka, old = real_kafka(version), dict[str, Any](broker_version="0.9")
    for strategy in ("range", "roundrobin"):
        topic = f"mixed-{strategy}"
        with Admin(bootstrap_servers=kafka.bootstrap, zookeeper_connect=kafka.zookeeper, **old) as admin:
            admin.create_topics(NewTopic(topic, PARTITIONS, 1))
        check_mixed(groups(kafka.bootstrap, topic, **old), strategy, OF_0_9, **old)


def test_a_group_rolls_from_range_to_cooperative_sticky(
    broker: EmbeddedBroker, groups: Callable[..., MixedGroup]
) -> None:
    """By two rounds of restarts, one member at a time: both strategies, then the new one (KIP-429)."""
    broker.create_topic("rolled", PARTITIONS)
    group = groups(broker.bootstrap, "rolled")
    kinds: Members = {"ours": Ours, "ours too": Ours, "java": java_member(KAFKA_4)}
    for name, make in kinds.items():
        group.join(f"{name}: range", make, "range")
    group.settle()
    before = "range"
    for strategy in ("cooperative-sticky,range", "cooperative-sticky"):
        for name, make in kinds.items():
            group.produce()
            group.leave([f"{name}: {before}"])
            group.join(f"{name}: {strategy}", make, strategy)
            group.settle()
        before = strategy
    end(group)
