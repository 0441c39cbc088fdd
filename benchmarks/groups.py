"""Beyond this machine: what groups of every kind cost as they grow, in the seeded simulation.

Members and coordinators are those that ship; the network has a latency, time is virtual, and what is counted
are requests to the coordinator or operations on ZooKeeper, bytes of both directions, and the time until every
partition has its reader. Ten partitions for each member; 10, 100 and 1,000 members (`--quick`: 3, 10, 30), in
ZooKeeper 10, 30 and 100, for there the reads of a start grow with the square of members.
All start within a second, then one more joins, then one leaves, then nothing happens for a minute.

The peers are the same group in smaller sizes, and growth in proportion: the cost of the middle size times the
growth of members and partitions. `docs/scale.md` says what that means for a real cluster.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import cache

from benchmarks.harness import FULL, Better, Case, Effort, Peer, benchmark
from tests.consumer.growth.study import KINDS, PARTITIONS_EACH, Cost, study

SIZES, FEW = (10, 100, 1_000), (3, 10, 30)
IN_ZOOKEEPER = {"classic (ZooKeeper)": (10, 30, 100)}
LATENCIES_MS = (1.0, 10.0, 100.0)
COUNTED_AT_MS = 10.0
LINEAR = 0.8
"""Of growth in proportion: a tenth more for each doubling is still called linear."""
MEASURES: Mapping[str, str] = {"operations": "operations", "bytes": "B"}

_study = cache(study)


@benchmark("groups-growth")
def growth(effort: Effort) -> Iterator[Case]:
    """Each kind of group in three sizes."""
    for kind in KINDS:
        sizes = IN_ZOOKEEPER.get(kind, SIZES) if effort is FULL else FEW
        for event in _study(kind, sizes[0], COUNTED_AT_MS):
            for measure, unit in MEASURES.items():
                costs = [getattr(_study(kind, size, COUNTED_AT_MS)[event], measure) for size in sizes]
                yield _grown(f"{_named(kind, sizes[-1], event)}: {measure}", unit, sizes, costs)
            if event != "a minute of rest":
                yield _timed(kind, sizes, event)


def _named(kind: str, members: int, event: str) -> str:
    return f"{kind} group, {members:,} members, {members * PARTITIONS_EACH:,} partitions: {event}"


def _grown(name: str, unit: str, sizes: tuple[int, ...], costs: list[float]) -> Case:
    small, middle, large = costs
    exponent = math.log(large / middle) / math.log(sizes[2] / sizes[1])
    linear = middle * sizes[2] / sizes[1]
    peers = [
        Peer(f"{sizes[0]} members", measure=lambda: small),
        Peer(f"{sizes[1]} members", measure=lambda: middle),
        Peer("in proportion", measure=lambda: linear, target=LINEAR, note=f"exponent {exponent:.2f}"),
    ]
    return Case(name, unit, lambda: large, peers, 1, Better.LESS, is_warmed=False)


def _timed(kind: str, sizes: tuple[int, ...], event: str) -> Case:
    """The time at each latency; the peers are smaller groups, and other latencies."""
    large = sizes[-1]

    def seconds(members: int, latency_ms: float) -> float:
        cost: Cost = _study(kind, members, latency_ms)[event]
        return cost.seconds

    peers = [
        Peer(
            f"{members:,} members at {latency_ms:g} ms",
            measure=lambda members=members, latency_ms=latency_ms: seconds(members, latency_ms),  # type: ignore[misc]
        )
        for latency_ms in LATENCIES_MS
        for members in sizes
        if (members, latency_ms) != (large, COUNTED_AT_MS)
    ]
    name = f"{_named(kind, large, event)}: time at {COUNTED_AT_MS:g} ms"
    return Case(name, "s", lambda: seconds(large, COUNTED_AT_MS), peers, 1, Better.LESS, is_warmed=False)
