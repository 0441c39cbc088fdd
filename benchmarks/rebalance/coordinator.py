"""50 members on our broker, of three kinds: with a coordinator, ours and librdkafka's, and classic ones.

Members are in 5 processes and share 100 partitions. All join at once, one more joins, it leaves. Settings are
everybody's defaults: so a member of a coordinator group learns of a rebalance by a heartbeat, every 3 s. The
broker does not wait for more members of a new group: group.initial.rebalance.delay.ms is 0.
"""

from __future__ import annotations

import contextlib
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
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

FULL = Size(members=50, partitions=100, processes=5)
QUICK = Size(members=10, partitions=20, processes=2)
MAGIC = 2

Kind = tuple[Command, dict[str, str]]


@contextlib.contextmanager
def kinds() -> Iterator[tuple[ClientConfig, dict[str, Kind]]]:
    """A broker with a ZooKeeper, and how members of each kind find it."""
    with tempfile.TemporaryDirectory(prefix="ottla-rebalance-") as directory:
        settings = ServerSettings(fsync=False)
        with ZooKeeperServer(Path(directory, "zookeeper"), settings=settings) as zookeeper:
            port = free_port()
            command = ottla_command(port, str(Path(directory, "data")))
            command += ["--set", f"zookeeper.connect={zookeeper.connect}"]
            with started_server("ottla", version_of("ottla") or "", command, port) as server:
                brokers = {"bootstrap.servers": server.bootstrap}
                by_name: dict[str, Kind] = {
                    "GroupConsumer": (ours("grouped"), {**brokers, "auto.offset.reset": "smallest"}),
                    "ConsumerConnector": (
                        ours("classic"),
                        {"zookeeper.connect": zookeeper.connect, "auto.offset.reset": "smallest"},
                    ),
                }
                if version_of("confluent-kafka"):
                    earliest = {**brokers, "auto.offset.reset": "earliest"}
                    by_name["confluent-kafka"] = (ours("confluent"), earliest)
                yield ClientConfig.from_properties(brokers), by_name


def come_and_go(client: ClientConfig, kind: Kind, size: Size) -> dict[str, Event]:
    """All join, one more, it leaves."""
    command, properties = kind
    topic = f"rebalance-{uuid.uuid4().hex[:8]}"
    with Admin(bootstrap_servers=",".join(map(str, client.bootstrap))) as admin:
        admin.create_topics(NewTopic(topic, size.partitions))
    with Traffic(client, topic, size.partitions, magic=MAGIC) as traffic:
        group = Group(Cluster(client, properties, MAGIC), traffic, size.partitions)
        with started(group, command, topic, size.processes, {}) as hosts:
            names = [f"m{number:02}" for number in range(size.members)]
            events = {"all join at once": _event(group, partial(group.join, dealt(names, hosts)))}
            events["one more joins"] = _event(group, partial(group.join, {"n00": hosts[0]}))
            events["it leaves"] = _event(group, partial(group.leave, "n00"))
    return events


def _event(group: Group, happen: Callable[[], None]) -> Event:
    since_s = time.monotonic()
    happen()
    return Event(group.settle(since_s, DEADLINE_S))
