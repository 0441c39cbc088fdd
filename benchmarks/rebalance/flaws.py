"""What goes wrong in groups that balance themselves through ZooKeeper, done on purpose to both kinds.

Split brain: a slow member, which takes 2 ms for a record and has a backlog, shares two partitions with a
quick one. The slow one is cut off from ZooKeeper (not from the broker), or its process is stopped, for longer
than its session lasts. Its partition gets a new owner. What does the old one still deliver?

Uncontrolled outcome: of two members with 8 partitions one is killed, and the node of one of its partitions is
held by somebody who is no member. The other one cannot have what it should. What is read meanwhile, and how
long does it take when the node has gone?
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.rebalance.churn import DEADLINE_S, DEATH_S, new_topic
from benchmarks.rebalance.group import Cluster, Group, Obituary, observer, started
from benchmarks.rebalance.hosts import Command, Host, wait_until
from benchmarks.rebalance.severable_line import SeverableLine
from benchmarks.rebalance.timeline import Overlap, overlap
from benchmarks.rebalance.traffic import Traffic, write
from ottla.zookeeper import paths
from ottla.zookeeper.session import CreateMode

BACKLOG = 20_000
PAUSE_MS = "2"
COMMITS = {"auto.commit.interval.ms": "200"}
OVERLAP_S = 5.0
"""How long the old owner stays cut off after the new one has begun, and how long it is watched after that."""
BLOCKED_S = 15.0
"""Kafka's gives up after four attempts with pauses of 2 s."""
RECOVERY_S = 20.0
OLD, NEW = "a", "b"

Disturb = Callable[[], None]


@dataclass(frozen=True)
class SplitBrain:
    """How a member behaved that had lost its session without knowing."""

    last_of_old_s: float
    """From the end of its session to its last delivery; negative if that was before."""
    first_of_new_s: float
    """From the end of its session to the first delivery of the new owner."""
    stale: Overlap


def cut_off(cluster: Cluster, command: Command) -> SplitBrain:
    """The old owner's connection to ZooKeeper hears nothing."""
    with SeverableLine(cluster.zookeeper) as line:
        return _split(cluster, command, lambda _: (line.cut, line.mend), line.address)


def stopped(cluster: Cluster, command: Command) -> SplitBrain:
    """The old owner's process stands still."""
    return _split(
        cluster,
        command,
        lambda host: (lambda: host.send(signal.SIGSTOP), lambda: host.send(signal.SIGCONT)),
        cluster.zookeeper,
    )


def _split(
    cluster: Cluster, command: Command, ways: Callable[[Host], tuple[Disturb, Disturb]], zookeeper: str
) -> SplitBrain:
    topic = new_topic(cluster.zookeeper, 2)
    write(cluster.client, topic, 2, BACKLOG, magic=cluster.magic)
    with Traffic(cluster.client, topic, 2, magic=cluster.magic) as traffic:
        group = Group(cluster, traffic, 2)
        with started(group, command, topic, 2, COMMITS) as (old, new), observer(cluster.zookeeper) as session:
            group.join({OLD: old}, zookeeper_connect=zookeeper, pause_ms=PAUSE_MS)
            group.join({NEW: new})
            _wait(lambda: _readers(group, 1.0) == {0: OLD, 1: NEW}, "both read")
            disturb, mend = ways(old)
            obituary = Obituary(session, group.name, OLD)
            begun_s = time.monotonic()
            disturb()
            lost_s = obituary.wait(DEATH_S)
            _wait(lambda: _first(group, NEW, 0, begun_s) is not None, "the new owner reads")
            time.sleep(OVERLAP_S)
            mend()
            time.sleep(OVERLAP_S)
            until_s = _ended_s(group, lost_s)
            seen = [
                each for each in list(group.notes.deliveries) if each.partition == 0 and each.at_s < until_s
            ]
    first = min(delivery.at_s for delivery in seen if delivery.member == NEW and delivery.at_s > begun_s)
    last = max(delivery.at_s for delivery in seen if delivery.member == OLD)
    stale = overlap(seen, OLD, NEW, begun_s)
    return SplitBrain(last - lost_s, first - lost_s, stale)


def _ended_s(group: Group, lost_s: float) -> float:
    """The new owner's last delivery: what the old one delivers behind that is its own again, by right."""
    deliveries = list(group.notes.deliveries)
    of_new = [each.at_s for each in deliveries if (each.member, each.partition) == (NEW, 0)]
    return max([*of_new, lost_s]) + 0.001


@dataclass(frozen=True)
class Blocked:
    """How a member behaved that could not have one of its partitions."""

    unread: int
    """Partitions that nobody read while the node was held, of 8."""
    recovered_s: float | None
    """From when the node had gone until all was read; None: not within `RECOVERY_S`."""


def blocked(cluster: Cluster, command: Command) -> Blocked:
    """A foreign node holds the last partition."""
    topic, partitions = new_topic(cluster.zookeeper, 8), 8
    with Traffic(cluster.client, topic, partitions, magic=cluster.magic) as traffic:
        group = Group(cluster, traffic, partitions)
        with (
            started(group, command, topic, 2, COMMITS) as (old_host, new_host),
            observer(cluster.zookeeper) as zk,
        ):
            group.join({OLD: old_host, NEW: new_host})
            _wait(lambda: set(_readers(group, 1.0).values()) == {OLD, NEW}, "both read")
            held = paths.owner(group.name, topic, partitions - 1)
            obituary = Obituary(zk, group.name, NEW)
            zk.delete(held)
            zk.create(held, b"somebody-else", CreateMode.PERSISTENT)
            group.kill(NEW)
            obituary.wait(DEATH_S)
            time.sleep(BLOCKED_S)
            unread = partitions - len(_readers(group, 1.0))
            zk.delete(held)
            gone_s = time.monotonic()
            is_read = wait_until(lambda: len(_readers(group, 0.5)) == partitions, RECOVERY_S)
            recovered_s = time.monotonic() - gone_s if is_read else None
    return Blocked(unread, recovered_s)


def _readers(group: Group, within_s: float) -> dict[int, str]:
    """Partition → who delivered of it lately."""
    since_s = time.monotonic() - within_s
    deliveries = list(group.notes.deliveries)
    return {delivery.partition: delivery.member for delivery in deliveries if delivery.at_s > since_s}


def _first(group: Group, member: str, partition: int, since_s: float) -> float | None:
    for delivery in list(group.notes.deliveries):
        is_wanted = (delivery.member, delivery.partition) == (member, partition)
        if is_wanted and delivery.at_s > since_s:
            return delivery.at_s
    return None


def _wait(condition: Callable[[], bool], what: str) -> None:
    if not wait_until(condition, DEADLINE_S):
        raise RuntimeError(f"still not so after {DEADLINE_S:.0f} s: {what}")
