"""A group under traffic: members in several processes, and how each event goes."""

from __future__ import annotations

import contextlib
import signal
import socket
import threading
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from benchmarks.rebalance.hosts import Command, Host, Notes, wait_until
from benchmarks.rebalance.timeline import Outcome, are_all_reading, is_shared, outcome
from benchmarks.rebalance.traffic import Traffic
from ottla.client.client_config import ClientConfig
from ottla.zookeeper import paths
from ottla.zookeeper.kazoo_session import KazooSettings, KazooZooKeeperSession

CALM_S = 1.5
"""A group whose assignment stays for this time is settled: another rebalance would have come."""
WARM_S = 120.0


@dataclass(frozen=True)
class Cluster:
    """Where groups live. `properties` are of their members, beside group.id; `magic` is of the records."""

    client: ClientConfig
    properties: Mapping[str, str]
    magic: int
    zookeeper: str = ""


@dataclass(frozen=True)
class Event:
    """How an event went, and what it cost. `rebalances` and `requests` are 0 where they are not counted."""

    outcome: Outcome
    rebalances: float = 0.0
    """Of a member, on average."""
    requests: int = 0
    """That ZooKeeper received, from anybody."""


@dataclass
class Group:
    """Used by one thread. Names of members are in `members`; who is in which process is in `homes`.

    In a share group partitions have no owners.
    """

    cluster: Cluster
    traffic: Traffic
    partitions: int
    has_owners: bool = True
    name: str = field(default_factory=lambda: f"group-{uuid.uuid4().hex[:8]}")
    notes: Notes = field(default_factory=Notes)
    members: set[str] = field(default_factory=set)
    homes: dict[str, Host] = field(default_factory=dict)

    def join(self, hosts: Mapping[str, Host], **properties: str) -> None:
        """Tell these members to join, all at once."""
        more = "".join(f" {name.replace('_', '.')}={value}" for name, value in properties.items())
        for name, host in hosts.items():
            self.homes[name] = host
            self.members.add(name)
            host.tell(f"join {name}{more}")

    def leave(self, name: str) -> None:
        """Tell this member to leave."""
        self.members.discard(name)
        self.homes[name].tell(f"leave {name}")

    def kill(self, name: str) -> None:
        """End its process, without a word."""
        self.members.discard(name)
        self.homes[name].send(signal.SIGKILL)

    def settle(self, since_s: float, deadline_s: float) -> Outcome:
        """How the event at `since_s` goes, when it is over or the time is up."""
        calm_since = None
        is_settled = is_shared if self.has_owners else are_all_reading
        end_s = time.monotonic() + deadline_s
        while time.monotonic() < end_s:
            shared = self._have_all_joined() and is_settled(
                list(self.notes.deliveries), self.traffic.written, self.members, self.partitions, since_s
            )
            now_s = time.monotonic()
            calm_since = (calm_since or now_s) if shared else None
            if calm_since is not None and now_s - calm_since > CALM_S:
                return self._outcome(since_s)
            time.sleep(0.1)
        return replace(self._outcome(since_s), is_settled=False)

    def _have_all_joined(self) -> bool:
        """Or failed to, and said so: one that gets no partition is not seen otherwise."""
        return self.members <= self.notes.joined.keys() | self.notes.failed.keys()

    def _outcome(self, since_s: float) -> Outcome:
        # The last records are on their way.
        until_s = time.monotonic() - 0.5
        written = {place: at_s for place, at_s in list(self.traffic.written.items()) if at_s < until_s - 0.5}
        deliveries = list(self.notes.deliveries)
        return outcome(deliveries, written, since_s, until_s, has_owners=self.has_owners)

    def rebalances(self) -> dict[str, int]:
        """Of each member so far."""
        self.notes.counts.clear()
        for name in self.members:
            self.homes[name].tell(f"count {name}")
        wait_until(lambda: self.members <= self.notes.counts.keys(), 30.0)
        return dict(self.notes.counts)


@contextlib.contextmanager
def started(
    group: Group, command: Command, topic: str, count: int, properties: Mapping[str, str]
) -> Iterator[list[Host]]:
    """`count` processes for members of a group; they end with the block."""
    given = {**group.cluster.properties, "group.id": group.name, **properties}
    hosts = [Host(command(topic, given), group.notes) for _ in range(count)]
    try:
        for host in hosts:
            host.wait_ready()
        _warm(group, hosts)
        yield hosts
    finally:
        for host in hosts:
            host.close()


def _warm(group: Group, hosts: Sequence[Host]) -> None:
    """Each process has a member in a group of its own for a while: code is loaded before a clock runs."""
    names = {f"warm{number}": host for number, host in enumerate(hosts)}
    for name, host in names.items():
        host.tell(f"join {name} group.id={group.name}-{name}")
    if not wait_until(
        lambda: {delivery.member for delivery in list(group.notes.deliveries)} >= names.keys(), WARM_S
    ):
        raise RuntimeError(f"{group.name}: {group.notes.failed or 'members read nothing'}")
    for name, host in names.items():
        host.tell(f"leave {name}")
    wait_until(lambda: group.notes.left.keys() >= names.keys(), WARM_S)
    group.notes.deliveries.clear()


def dealt(names: Sequence[str], hosts: Sequence[Host]) -> dict[str, Host]:
    """Members to processes, in turns."""
    return {name: hosts[number % len(hosts)] for number, name in enumerate(names)}


def requests_received(zookeeper: str) -> int:
    """By a ZooKeeper server since its start, pings among them."""
    host, _, port = zookeeper.rpartition(":")
    with socket.create_connection((host, int(port)), 10) as connection:
        connection.sendall(b"srvr")
        with connection.makefile() as answer:
            for line in answer:
                if line.startswith("Received:"):
                    return int(line.split()[1])
    raise RuntimeError(f"ZooKeeper at {zookeeper} does not say how many requests it received")


class Obituary:
    """When ZooKeeper gave up the session of a member."""

    def __init__(self, session: KazooZooKeeperSession, group: str, member: str) -> None:
        self.at_s = 0.0
        self._is_written = threading.Event()
        path = paths.consumer(group, f"{group}_{member}")
        if session.exists(path, lambda _: self._write()) is None:
            raise RuntimeError(f"{path} is not there")

    def _write(self) -> None:
        self.at_s = time.monotonic()
        self._is_written.set()

    def wait(self, deadline_s: float) -> float:
        """When it was."""
        if not self._is_written.wait(deadline_s):
            raise RuntimeError("ZooKeeper keeps a dead member")
        return self.at_s


@contextlib.contextmanager
def observer(zookeeper: str) -> Iterator[KazooZooKeeperSession]:
    """A session that looks and does not take part."""
    with KazooZooKeeperSession(KazooSettings(zookeeper, connection_timeout_ms=30_000)) as session:
        yield session
