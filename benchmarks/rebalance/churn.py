"""Members come and go: how long partitions are not read, and what that costs ZooKeeper.

A group of Kafka 0.9.0.1's members and a group of ours have the same broker, the same ZooKeeper and Kafka's
default settings. 20 members in 5 processes share 64 partitions. All join at once; one more joins; it leaves;
one is killed, which counts from when ZooKeeper gave up its session. Then the case in which nothing has to
change: 9 members have 8 partitions, and another one joins that gets none.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from benchmarks.consume_scala import kafka_tool
from benchmarks.rebalance.group import (
    Cluster,
    Event,
    Group,
    Obituary,
    dealt,
    observer,
    requests_received,
    started,
)
from benchmarks.rebalance.hosts import Command
from benchmarks.rebalance.traffic import Traffic

DEADLINE_S = 60.0
DEATH_S = 30.0


@dataclass(frozen=True)
class Size:
    """How much of it."""

    members: int
    partitions: int
    processes: int


FULL = Size(members=20, partitions=64, processes=5)
QUICK = Size(members=6, partitions=16, processes=3)
SPARE = Size(members=9, partitions=8, processes=3)


def new_topic(zookeeper: str, partitions: int) -> str:
    """By Kafka's own tool, so that a broker has it when this returns."""
    topic = f"rebalance-{uuid.uuid4().hex[:8]}"
    where = ["--zookeeper", zookeeper, "--topic", topic]
    sizes = [f"--partitions={partitions}", "--replication-factor=1"]
    kafka_tool("kafka.admin.TopicCommand", "--create", *where, *sizes)
    return topic


def churn(cluster: Cluster, command: Command, size: Size) -> dict[str, Event]:
    """All join, one more, it leaves, one is killed."""
    topic = new_topic(cluster.zookeeper, size.partitions)
    with Traffic(cluster.client, topic, size.partitions, magic=cluster.magic) as traffic:
        group = Group(cluster, traffic, size.partitions)
        # The last process has one member alone, which is killed.
        with started(group, command, topic, size.processes, {}) as hosts:
            names = [f"m{number:02}" for number in range(size.members)]
            homes = dealt(names[:-1], hosts[:-1]) | {names[-1]: hosts[-1]}
            events = {"all join at once": _event(group, partial(group.join, homes))}
            events["one more joins"] = _event(group, partial(group.join, {"n00": hosts[0]}))
            events["it leaves"] = _event(group, partial(group.leave, "n00"))
            with observer(cluster.zookeeper) as session:
                obituary = Obituary(session, group.name, names[-1])
                events["one is killed"] = _event(group, partial(_kill, group, names[-1], obituary))
    return events


def newcomer(cluster: Cluster, command: Command) -> Event:
    """One joins a group in which there is nothing to have."""
    topic = new_topic(cluster.zookeeper, SPARE.partitions)
    with Traffic(cluster.client, topic, SPARE.partitions, magic=cluster.magic) as traffic:
        group = Group(cluster, traffic, SPARE.partitions)
        with started(group, command, topic, SPARE.processes, {}) as hosts:
            names = [f"m{number:02}" for number in range(SPARE.members)]
            group.join(dealt(names, hosts))
            group.settle(time.monotonic(), DEADLINE_S)
            return _event(group, partial(group.join, {"n00": hosts[0]}))


def _kill(group: Group, name: str, obituary: Obituary) -> float:
    group.kill(name)
    return obituary.wait(DEATH_S)


def _event(group: Group, happen: Callable[[], float | None]) -> Event:
    """Let it happen; what it returns is when it did, if that is not now."""
    before = group.rebalances()
    requests = requests_received(group.cluster.zookeeper)
    since_s = time.monotonic()
    since_s = happen() or since_s
    outcome = group.settle(since_s, DEADLINE_S)
    requests = requests_received(group.cluster.zookeeper) - requests
    after = group.rebalances()
    rebalances = sum(count - before.get(name, 0) for name, count in after.items()) / len(after)
    return Event(outcome, rebalances, requests)
