"""The parts of the benchmark: what is run, in turns, and the figures as cases."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import NamedTuple

from benchmarks.harness import QUICK, Better, Case, Effort, Peer, benchmark
from benchmarks.rebalance import churn, coordinator, flaws
from benchmarks.rebalance.group import Cluster, Event
from benchmarks.rebalance.hosts import Command, ours, scala
from ottla.client.client_config import ClientConfig
from tools.peers import KAFKA_0_9, KAFKA_4, RealKafka, Unavailable

logger = logging.getLogger(__name__)

OURS, SCALA, NEW_KAFKA = "ottla", "Kafka's", "Kafka 4"
HEAP_MB = 512

Events = dict[str, Event]


class Contender(NamedTuple):
    """Members of one kind, and the cluster as they see it."""

    cluster: Cluster
    command: Command


@contextlib.contextmanager
def contenders() -> Iterator[dict[str, Contender]]:
    """Ours and Kafka 0.9.0.1's on one broker and one ZooKeeper. Raises Unavailable."""
    with RealKafka(KAFKA_0_9, heap_mb=HEAP_MB, is_measured=True) as kafka, scala() as theirs:
        pin = {"broker.version": "0.9"}
        client = ClientConfig.from_properties({"bootstrap.servers": kafka.bootstrap, **pin})
        common = {"zookeeper.connect": kafka.zookeeper, "auto.offset.reset": "smallest"}
        yield {
            OURS: Contender(Cluster(client, {**common, **pin}, 0, kafka.zookeeper), ours("classic")),
            SCALA: Contender(Cluster(client, common, 0, kafka.zookeeper), theirs),
        }


def run_churn(effort: Effort) -> dict[str, Events]:
    """Contender → event → how it went."""
    size = churn.QUICK if effort is QUICK else churn.FULL
    with contenders() as by_name:
        events = {}
        for name, (cluster, command) in by_name.items():
            events[name] = churn.churn(cluster, command, size)
            events[name]["one joins, and nothing has to change"] = churn.newcomer(cluster, command)
        return events


def run_split() -> dict[str, dict[str, flaws.SplitBrain]]:
    """What is done to the old owner → contender → how it went."""
    disturbances = {"cut off from ZooKeeper": flaws.cut_off, "stopped, and goes on": flaws.stopped}
    with contenders() as by_name:
        return {
            title: {name: disturbed(cluster, command) for name, (cluster, command) in by_name.items()}
            for title, disturbed in disturbances.items()
        }


def run_blocked() -> dict[str, flaws.Blocked]:
    """Contender → how it went."""
    with contenders() as by_name:
        return {name: flaws.blocked(cluster, command) for name, (cluster, command) in by_name.items()}


def run_coordinator(
    effort: Effort,
    kinds: Callable[[coordinator.Broker], dict[str, coordinator.Kind]] = coordinator.our_kinds,
) -> dict[str, dict[str, Events]]:
    """Broker → kind of group → event → how it went; Kafka's only where it can be run."""
    size = coordinator.QUICK if effort is QUICK else coordinator.FULL
    found: dict[str, dict[str, Events]] = {}
    for name, opened in {OURS: coordinator.our_broker, NEW_KAFKA: coordinator.kafka_broker}.items():
        try:
            with opened() as broker:
                found[name] = {
                    kind: coordinator.come_and_go(broker, how, size) for kind, how in kinds(broker).items()
                }
        except Unavailable as error:
            logger.warning("Kafka %s cannot be run here: %s", KAFKA_4, error)
    return found


@benchmark("rebalance-members")
def members(effort: Effort) -> Iterator[Case]:
    """Members come and go."""
    try:
        events = run_churn(effort)
    except Unavailable as error:
        logger.warning("Kafka %s cannot be run here: %s", KAFKA_0_9, error)
        return
    for event, result in events[OURS].items():
        other = events[SCALA][event]
        if result.outcome.settled_s:
            yield _timed(f"{event}: until all is well again", result, {SCALA: other}, settled_s)
        yield _timed(f"{event}: the longest wait of a record", result, {SCALA: other}, longest_wait_s)
        requests = Peer("Kafka's consumer", KAFKA_0_9, lambda other=other: other.requests)  # type: ignore[misc]
        name = f"{event}: requests to ZooKeeper"
        yield _case(name, "requests", result.requests, [requests])


@benchmark("rebalance-flaws")
def flawed(effort: Effort) -> Iterator[Case]:  # noqa: ARG001  (it takes as long as sessions and pauses do)
    """Split brain and an outcome that nobody controls."""
    try:
        split, blocked = run_split(), run_blocked()
    except Unavailable as error:
        logger.warning("Kafka %s cannot be run here: %s", KAFKA_0_9, error)
        return
    for disturbance, results in split.items():
        stale = results[SCALA].stale
        rival = Peer(
            "Kafka's consumer", KAFKA_0_9, note=f"{stale.records} records, for {stale.seconds:.1f} s"
        )
        name = f"{disturbance}: records that the former owner delivers beside the new one"
        yield _case(name, "records", results[OURS].stale.records, [rival])
    name = "a partition cannot be claimed: partitions that nobody reads, of 8"
    rival = Peer("Kafka's consumer", KAFKA_0_9, note=f"{blocked[SCALA].unread}")
    yield _case(name, "partitions", blocked[OURS].unread, [rival])
    name = "it can again: until all is read"
    rival = Peer("Kafka's consumer", KAFKA_0_9, note=recovery(blocked[SCALA]))
    yield _case(name, "s", blocked[OURS].recovered_s or flaws.RECOVERY_S, [rival])


def coordinated(kind: str, effort: Effort) -> Iterator[Case]:
    """A group of this kind on our broker, beside Kafka 4 with the same members."""

    def kinds(broker: coordinator.Broker) -> dict[str, coordinator.Kind]:
        return {name: how for name, how in coordinator.our_kinds(broker).items() if name == kind}

    yield from _on_both_brokers(run_coordinator(effort, kinds), "")


for _kind in ("classic", "consumer", "share", "zookeeper"):
    benchmark(f"rebalance-coordinator-{_kind}")(partial(coordinated, _kind))


@benchmark("rebalance-librdkafka")
def by_librdkafka(effort: Effort) -> Iterator[Case]:
    """The same of librdkafka's members."""
    yield from _on_both_brokers(run_coordinator(effort, coordinator.librdkafkas_kinds), ", librdkafka")


def _on_both_brokers(by_broker: dict[str, dict[str, Events]], members: str) -> Iterator[Case]:
    theirs = by_broker.get(NEW_KAFKA, {})
    for kind, events in by_broker[OURS].items():
        for event, result in events.items():
            rivals = {NEW_KAFKA: theirs[kind][event]} if kind in theirs else {}
            name = f"{kind}{members}, {event}"
            yield _timed(f"{name}: until all is well again", result, rivals, settled_s)
            yield _timed(f"{name}: the longest wait of a record", result, rivals, longest_wait_s)


def recovery(blocked: flaws.Blocked) -> str:
    """As a text."""
    if blocked.recovered_s is None:
        return f"not within {flaws.RECOVERY_S:.0f} s"
    return f"{blocked.recovered_s:.1f} s"


def settled_s(event: Event) -> float:
    """Until all is well again."""
    return event.outcome.settled_s


def longest_wait_s(event: Event) -> float:
    """Of a record."""
    return event.outcome.longest_wait_s


def _timed(name: str, result: Event, others: Mapping[str, Event], of: Callable[[Event], float]) -> Case:
    peers = []
    for other, event in others.items():
        version = KAFKA_0_9 if other == SCALA else KAFKA_4
        shown = "Kafka's consumer" if other == SCALA else other
        if event.outcome.is_settled:
            peers.append(Peer(shown, version, lambda event=event: of(event)))  # type: ignore[misc]
        else:
            peers.append(Peer(shown, version, note=f"not within {churn.DEADLINE_S:.0f} s"))
    return _case(name, "s", of(result), peers)


def _case(name: str, unit: str, value: float, peers: list[Peer]) -> Case:
    """It is measured already."""
    return Case(f"rebalance, {name}", unit, lambda: value, peers, 1, Better.LESS, is_warmed=False)
