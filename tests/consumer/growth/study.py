"""What a group of a size costs: to start, with one member more and one less, and in a minute of rest."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from tests.consumer.growth.classic import ClassicGroup
from tests.consumer.growth.coordinated import coordinated
from tests.consumer.growth.share import ShareGroupOfMembers
from tests.consumer.growth.timeline import Group, Timeline, Traffic

PARTITIONS_EACH = 10
START_SPREAD_MS = 1_000.0
LIMIT_MS = 3_600_000.0
REST_MS, PHASE_MS = 60_000.0, 5_000.0

KINDS: Mapping[str, Callable[[Timeline, int], Group]] = {
    "classic (ZooKeeper)": ClassicGroup,
    "range": coordinated("range"),
    "cooperative-sticky": coordinated("cooperative-sticky"),
    "consumer (KIP-848)": coordinated(None),
    "share": ShareGroupOfMembers,
}


@dataclass(frozen=True)
class Cost:
    """Of one event, as in `Traffic`.

    `seconds`: virtual, until the group has settled. `cpu_s`: real, of all members and of the coordinator.
    """

    operations: int
    bytes: int
    seconds: float
    cpu_s: float = field(compare=False)


def study(kind: str, members: int, latency_ms: float, seed: int = 1) -> dict[str, Cost]:
    """The costs of a group with ten partitions for each member, by event."""
    timeline = Timeline(seed, latency_ms)
    group = KINDS[kind](timeline, members * PARTITIONS_EACH)
    delays = [timeline.random.uniform(0, START_SPREAD_MS) for _ in range(members)]

    def start() -> None:
        for delay_ms in delays:
            timeline.at(timeline.now_ms + delay_ms, group.join)
        timeline.run(timeline.now_ms + START_SPREAD_MS)

    costs = {"start": _settled(group, start)}
    _rest(timeline)
    costs["one joins"] = _settled(group, group.join)
    _rest(timeline)
    costs["one leaves"] = _settled(group, group.leave)
    _rest(timeline)
    costs["a minute of rest"] = _cost(group, partial(timeline.run, timeline.now_ms + REST_MS))
    return costs


def _rest(timeline: Timeline) -> None:
    """For a minute and a part of a heartbeat's interval."""
    timeline.run(timeline.now_ms + REST_MS + timeline.random.uniform(0, PHASE_MS))


def _settled(group: Group, event: Callable[[], object]) -> Cost:
    def until_settled() -> None:
        event()
        timeline = group.timeline
        if not timeline.run(timeline.now_ms + LIMIT_MS, group.is_settled):
            raise AssertionError("the group has not settled within an hour")

    return _cost(group, until_settled)


def _cost(group: Group, event: Callable[[], object]) -> Cost:
    timeline = group.timeline
    begun_ms, begun_s, timeline.traffic = timeline.now_ms, time.process_time(), Traffic()
    event()
    cpu_s, spent = time.process_time() - begun_s, timeline.traffic
    return Cost(spent.operations, spent.bytes, (timeline.now_ms - begun_ms) / 1000, cpu_s)
