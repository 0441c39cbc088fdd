"""50 members of every kind of group, on our broker and on Kafka 4: the same clients, the same settings.

Members are in 6 processes and share 100 partitions. All join at once, one more joins, it leaves, one is
killed, which counts from the kill: the session is part of it. Sessions last 6 s, heartbeats are 1 s apart,
and the broker does not wait for more members of a new group (group.initial.rebalance.delay.ms is 0). Groups
in ZooKeeper need no broker's help, and Kafka 4 has none. Share groups are not here: nobody owns a partition.
"""

from __future__ import annotations

import contextlib
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

from benchmarks.broker.contenders import ottla_command
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

FULL = Size(members=50, partitions=100, processes=6)
QUICK = Size(members=10, partitions=20, processes=3)
MAGIC = 2
HEAP_MB = 512
SESSION_MS, HEARTBEAT_MS = "6000", "1000"
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.session.timeout.ms": SESSION_MS,
    "group.consumer.min.session.timeout.ms": SESSION_MS,
    "group.consumer.heartbeat.interval.ms": HEARTBEAT_MS,
    "group.consumer.min.heartbeat.interval.ms": HEARTBEAT_MS,
}
"""Of both brokers."""

Kind = tuple[Command, dict[str, str]]


@contextlib.contextmanager
def our_kinds() -> Iterator[tuple[ClientConfig, dict[str, Kind]]]:
    """Our broker with a ZooKeeper, and how members of each kind find it."""
    with tempfile.TemporaryDirectory(prefix="ottla-rebalance-") as directory:
        settings = ServerSettings(fsync=False)
        with ZooKeeperServer(Path(directory, "zookeeper"), settings=settings) as zookeeper:
            port = free_port()
            command = ottla_command(port, str(Path(directory, "data")))
            for name, value in {"zookeeper.connect": zookeeper.connect, **SETTINGS}.items():
                command += ["--set", f"{name}={value}"]
            with started_server("ottla", version_of("ottla") or "", command, port) as server:
                in_zookeeper = {"zookeeper.connect": zookeeper.connect, "auto.offset.reset": "smallest"}
                by_name = {"zookeeper": (ours("classic"), in_zookeeper), **_coordinated(server.bootstrap)}
                yield ClientConfig.from_properties({"bootstrap.servers": server.bootstrap}), by_name


@contextlib.contextmanager
def kafkas_kinds() -> Iterator[tuple[ClientConfig, dict[str, Kind]]]:
    """The same on Kafka 4, without ZooKeeper. Raises Unavailable."""
    with RealKafka(KAFKA_4, heap_mb=HEAP_MB, is_measured=True, properties=SETTINGS) as kafka:
        client = ClientConfig.from_properties({"bootstrap.servers": kafka.bootstrap})
        yield client, _coordinated(kafka.bootstrap)


def _coordinated(bootstrap: str) -> dict[str, Kind]:
    """Members of groups with a coordinator: ours, and librdkafka's if it is installed."""
    members = {"": ours("grouped")} | (
        {", librdkafka": ours("confluent")} if version_of("confluent-kafka") else {}
    )
    protocols: Mapping[str, dict[str, str]] = {
        "classic": {"session.timeout.ms": SESSION_MS, "heartbeat.interval.ms": HEARTBEAT_MS},
        "consumer": {"group.protocol": "consumer"},
    }
    common = {"bootstrap.servers": bootstrap, "auto.offset.reset": "earliest"}
    return {
        f"{protocol}{who}": (command, {**common, **properties})
        for who, command in members.items()
        for protocol, properties in protocols.items()
    }


def come_and_go(client: ClientConfig, kind: Kind, size: Size) -> dict[str, Event]:
    """All join, one more, it leaves, one is killed."""
    command, properties = kind
    topic = f"rebalance-{uuid.uuid4().hex[:8]}"
    with Admin(bootstrap_servers=",".join(map(str, client.bootstrap))) as admin:
        admin.create_topics(NewTopic(topic, size.partitions))
    with Traffic(client, topic, size.partitions, magic=MAGIC) as traffic:
        group = Group(Cluster(client, properties, MAGIC), traffic, size.partitions)
        with started(group, command, topic, size.processes, {}) as hosts:
            names = [f"m{number:02}" for number in range(size.members)]
            homes = dealt(names[:-1], hosts[:-1]) | {names[-1]: hosts[-1]}  # alone in its process
            events = {"all join at once": _event(group, partial(group.join, homes))}
            events["one more joins"] = _event(group, partial(group.join, {"n00": hosts[0]}))
            events["it leaves"] = _event(group, partial(group.leave, "n00"))
            events["one is killed"] = _event(group, partial(group.kill, names[-1]))
    return events


def _event(group: Group, happen: Callable[[], None]) -> Event:
    since_s = time.monotonic()
    happen()
    return Event(group.settle(since_s, DEADLINE_S))
