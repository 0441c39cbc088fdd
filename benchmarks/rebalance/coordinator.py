"""50 members of every kind of group, on our broker and on Kafka 4: the same clients, the same settings.

Members are in 8 processes and share 100 partitions. All join at once; one more joins and leaves, three times,
and one is killed, three times, of which the median counts, because a heartbeat may be due now or in a second.
A kill counts from the kill: the session is part of it. Sessions last 6 s, heartbeats are 1 s apart, and the
broker does not wait for more members of a new group (group.initial.rebalance.delay.ms is 0). Groups in
ZooKeeper need no broker's help, and Kafka 4 has none. A share group is well again when every member delivers
and no record waits.
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

from benchmarks.broker.processes import free_port
from benchmarks.broker.processes import started as started_server
from benchmarks.harness import version_of
from benchmarks.rebalance.churn import DEADLINE_S, Size
from benchmarks.rebalance.group import Cluster, Event, Group, dealt, started
from benchmarks.rebalance.hosts import Command, ours
from benchmarks.rebalance.traffic import Traffic
from ottla import Admin
from ottla.admin import NewTopic
from ottla.client.client_config import ClientConfig
from ottla.zookeeper.server import ServerSettings, ZooKeeperServer
from tools.peers import KAFKA_4, RealKafka

FULL = Size(members=50, partitions=100, processes=8)
QUICK = Size(members=10, partitions=20, processes=5)
MAGIC = 2
TIMES = 3  # that one more joins and leaves, and that one is killed
HEAP_MB = 512
SESSION_MS, HEARTBEAT_MS = "6000", "1000"
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.session.timeout.ms": SESSION_MS,
    "group.consumer.min.session.timeout.ms": SESSION_MS,
    "group.consumer.heartbeat.interval.ms": HEARTBEAT_MS,
    "group.consumer.min.heartbeat.interval.ms": HEARTBEAT_MS,
    "group.share.session.timeout.ms": SESSION_MS,
    "group.share.min.session.timeout.ms": SESSION_MS,
    "group.share.heartbeat.interval.ms": HEARTBEAT_MS,
    "group.share.min.heartbeat.interval.ms": HEARTBEAT_MS,
}
"""Of both brokers."""


class Kind(NamedTuple):
    """How members of a kind of group are started. In a share group partitions have no owners."""

    command: Command
    properties: dict[str, str]
    has_owners: bool = True


class Broker(NamedTuple):
    """A running broker; `zookeeper` is empty if it has none."""

    client: ClientConfig
    zookeeper: str = ""

    @property
    def bootstrap(self) -> dict[str, str]:
        """Its address as a property of clients."""
        return {"bootstrap.servers": ",".join(map(str, self.client.bootstrap))}


@contextlib.contextmanager
def our_broker() -> Iterator[Broker]:
    """Our broker, with a ZooKeeper."""
    with tempfile.TemporaryDirectory(prefix="ottla-rebalance-") as directory:
        settings = ServerSettings(fsync=False)
        with ZooKeeperServer(Path(directory, "zookeeper"), settings=settings) as zookeeper:
            port = free_port()
            command = [sys.executable, "-m", "ottla", "broker", "start", "--port", str(port)]
            command += ["--data-dir", str(Path(directory, "data"))]
            for name, value in {"zookeeper.connect": zookeeper.connect, **SETTINGS}.items():
                command += ["--set", f"{name}={value}"]
            with started_server("ottla", version_of("ottla") or "", command, port) as server:
                yield Broker(_client(server.bootstrap), zookeeper.connect)


@contextlib.contextmanager
def kafka_broker() -> Iterator[Broker]:
    """Kafka 4, which has no ZooKeeper. Raises Unavailable."""
    with RealKafka(KAFKA_4, heap_mb=HEAP_MB, is_measured=True, properties=SETTINGS) as kafka:
        yield Broker(_client(kafka.bootstrap))


def _client(bootstrap: str) -> ClientConfig:
    return ClientConfig.from_properties({"bootstrap.servers": bootstrap})


PROTOCOLS: Mapping[str, Mapping[str, str]] = {
    "classic": {"session.timeout.ms": SESSION_MS, "heartbeat.interval.ms": HEARTBEAT_MS},
    "consumer": {"group.protocol": "consumer"},
}


def our_kinds(broker: Broker) -> dict[str, Kind]:
    """Every kind of group that the broker can have, of our members."""
    kinds = _coordinated(broker, "grouped")
    kinds["share"] = Kind(ours("share"), broker.bootstrap, has_owners=False)
    if broker.zookeeper:
        properties = {"zookeeper.connect": broker.zookeeper, "auto.offset.reset": "smallest"}
        kinds["zookeeper"] = Kind(ours("classic"), properties)
    return kinds


def librdkafkas_kinds(broker: Broker) -> dict[str, Kind]:
    """Groups of librdkafka's members, if it is installed."""
    return _coordinated(broker, "confluent") if version_of("confluent-kafka") else {}


def _coordinated(broker: Broker, members: str) -> dict[str, Kind]:
    common = {**broker.bootstrap, "auto.offset.reset": "earliest"}
    return {name: Kind(ours(members), {**common, **own}) for name, own in PROTOCOLS.items()}


def come_and_go(broker: Broker, kind: Kind, size: Size) -> dict[str, Event]:
    """All join, one more joins and leaves a few times, and as many are killed, one after the other."""
    topic = f"rebalance-{uuid.uuid4().hex[:8]}"
    with Admin(broker.bootstrap) as admin:
        admin.create_topics(NewTopic(topic, size.partitions))
    with Traffic(broker.client, topic, size.partitions, magic=MAGIC) as traffic:
        group = Group(
            Cluster(broker.client, kind.properties, MAGIC), traffic, size.partitions, kind.has_owners
        )
        with started(group, kind.command, topic, size.processes, {}) as hosts:
            names = [f"m{number:02}" for number in range(size.members)]
            alone = dict(zip(names[-TIMES:], hosts[-TIMES:], strict=True))  # each in its process
            homes = dealt(names[:-TIMES], hosts[:-TIMES]) | alone
            events = {"all join at once": _event(group, partial(group.join, homes))}
            joins, leaves = [], []
            for number in range(TIMES):
                name = f"n{number:02}"
                joins.append(_event(group, partial(group.join, {name: hosts[0]})))
                leaves.append(_event(group, partial(group.leave, name)))
            events["one more joins"], events["it leaves"] = _median(joins), _median(leaves)
            events["one is killed"] = _median([_event(group, partial(group.kill, name)) for name in alone])
    return events


def _median(events: list[Event]) -> Event:
    ordered = sorted(events, key=lambda event: (not event.outcome.is_settled, event.outcome.settled_s))
    return ordered[len(ordered) // 2]


def _event(group: Group, happen: Callable[[], None]) -> Event:
    since_s = time.monotonic()
    happen()
    return Event(group.settle(since_s, DEADLINE_S))
