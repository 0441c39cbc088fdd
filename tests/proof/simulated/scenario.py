"""Brokers, ZooKeeper, writers, groups of every kind, transactions, an administrator, faults; then peace."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ottla import TopicAndPartition, aio
from ottla.testing import simulation
from ottla.testing.simulation import Faults, Kind, Simulation
from tests.consumer.classic.simulation.world import GROUP as CLASSIC
from tests.proof.checker import History, Look, Placed, anomalies
from tests.proof.simulated import classic, parts
from tests.proof.simulated.account import Account
from tests.proof.simulated.parts import COPIERS, EXACT, MADE, PARTITIONS, PLACES, PLAIN

FOR_S = 600.0
FAULTS, RECORDS = 30, 60
"""On average, of a run and of each writer in it."""
CATCH_UP_S = 1800.0
GROUPS: dict[str, dict[str, object]] = {
    "classic": {"heartbeat_interval_ms": 10_000},
    "cooperative": {"heartbeat_interval_ms": 10_000, "partition_assignment_strategy": "cooperative-sticky"},
    "consumer": {"group_protocol": "consumer"},
}
SHARED = "shared"
SMALL = {
    "log.segment.bytes": "4000",
    "log.flush.offset.checkpoint.interval.ms": "30000",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "share.coordinator.state.topic.num.partitions": "2",
    "group.consumer.heartbeat.interval.ms": "10000",
    "group.share.heartbeat.interval.ms": "10000",
    "group.share.record.lock.duration.ms": "15000",
    "group.share.delivery.count.limit": "10",
}


class Wrong(Exception):
    """The checker has found something."""


@dataclass(frozen=True)
class World:
    """What differs between runs: what may go wrong, and how many brokers there are."""

    flush: str
    brokers: int
    for_s: float
    kinds: tuple[str, ...]
    catch_up_s: float = CATCH_UP_S
    counts: Counter[str] = field(default_factory=Counter)

    @classmethod
    def of(cls, seed: int, for_s: float = FOR_S) -> World:
        """The world of a seed. Without `flush=always` a power loss may lose what was acknowledged."""
        flush = "always" if seed % 2 else "os"
        kinds = tuple(kind for kind in Kind if kind is not Kind.POWER_LOSS or flush == "always")
        return cls(flush, 1 + seed // 2 % 3, for_s, kinds)

    @property
    def pause_s(self) -> float:
        """Between the records of a writer."""
        return self.for_s / RECORDS

    @property
    def faults(self) -> Faults:
        """What goes wrong."""
        return Faults(every_s=self.for_s / FAULTS, for_s=self.for_s, kinds=self.kinds)

    @property
    def options(self) -> dict[str, Any]:
        """The broker's."""
        return {"brokers": self.brokers, "properties": {**SMALL, "ottla.flush": self.flush}}

    def run(self, seed: int, **options: Any) -> simulation.Run:
        """Run it under a seed."""
        result = simulation.run(self.play, seed, faults=self.faults, **self.options, **options)
        self.counts.update(faults=len(result.faults))
        return result

    async def play(self, sim: Simulation) -> None:
        """Raises Wrong with what the checker says."""
        account = Account()
        is_over = asyncio.Event()
        for topic in (PLAIN, EXACT):
            await sim.create_topic(topic, PARTITIONS)
        async with aio.Admin(bootstrap_servers=sim.bootstrap) as admin:
            await admin.alter_share_group_offsets(SHARED, dict.fromkeys(PLACES[:PARTITIONS], 0))
        zookeeper = classic.Servers()
        self._start(sim, account, zookeeper, is_over)
        await asyncio.sleep(self.for_s)
        is_over.set()
        await asyncio.sleep(120)  # whoever was killed last has started, and a writer has given up
        await self._caught_up(sim, account)
        lines = anomalies(await _seen_in_the_end(sim, account, zookeeper))
        self.counts.update(
            records=len(account.writes),
            transactions=len(account.transactions),
            commits=len(account.changes),
            lives=sum(account.lives.values()) + len(account.lives),
        )
        if lines:
            raise Wrong("\n".join(lines))

    def _start(
        self, sim: Simulation, account: Account, zookeeper: classic.Servers, is_over: asyncio.Event
    ) -> None:
        sim.start("ZooKeeper", zookeeper.main)
        for number in range(2):
            name = f"writer {number}"
            sim.start(name, parts.writer(sim, account, name, is_over, self.pause_s))
        for group, settings in GROUPS.items():
            for number in range(2):
                name = f"{group} {number}"
                sim.start(name, parts.member(sim, account, group, name, **settings))
        for number in range(2):
            sim.start(f"sharer {number}", parts.sharer(sim, account, SHARED, f"sharer {number}"))
            sim.start(f"copier {number}", parts.copier(sim, account, f"copier-{number}"))
            name = f"zookeeper-{number}"
            sim.start(name, classic.member(sim, account, zookeeper, name))
        sim.start("administrator", parts.administrator(sim, account, is_over, self.pause_s * 10))

    async def _caught_up(self, sim: Simulation, account: Account) -> None:
        """Wait until all groups have worked on all records, or a time is over: then the checker tells."""
        final = {item.value for rows in await _read(sim, PLACES[:PARTITIONS]) for item in rows}

        def all_done() -> bool:
            groups = [account.processed.get(group, {}).keys() for group in (*GROUPS, SHARED, CLASSIC)]
            return all(final <= done for done in groups)

        end = sim.now_s + self.catch_up_s
        while sim.now_s < end and not (all_done() and await _has_copied(sim)):
            await asyncio.sleep(5)


async def _has_copied(sim: Simulation) -> bool:
    async with aio.Admin(bootstrap_servers=sim.bootstrap) as admin:
        ends = await admin.list_offsets(dict.fromkeys(PLACES[:PARTITIONS], "latest"))
        stored = await admin.group_offsets(COPIERS)
    wanted = {place: found.offset for place, found in ends.items() if found.offset}
    return wanted == {place: position.offset for place, position in stored.items()}


async def _read(sim: Simulation, places: Iterable[TopicAndPartition]) -> tuple[list[Placed], ...]:
    """What a reader of committed data sees of some partitions."""
    seen = []
    async with aio.PartitionConsumer(
        bootstrap_servers=sim.bootstrap, isolation_level="read_committed"
    ) as consumer:
        for place in places:
            reader = await consumer.consume_partition(*place, "earliest")
            rows = [
                Placed(message.offset, (message.value or b"").decode())
                async for message in reader.messages(timeout=10)
            ]
            seen.append(rows)
    return tuple(seen)


async def _seen_in_the_end(sim: Simulation, account: Account, zookeeper: classic.Servers) -> History:
    """The whole history, with what is stored now."""
    async with aio.Admin(bootstrap_servers=sim.bootstrap) as admin:
        topics = await admin.describe_topics()
        looks = [
            Look(("topic", name), len(topics[name].partitions) if name in topics else None) for name in MADE
        ]
        for group in GROUPS:
            stored = await admin.group_offsets(group)
            looks += [
                Look((group, place), stored[place].offset if place in stored else None)
                for place in PLACES[:PARTITIONS]
            ]
        copied = await admin.group_offsets(COPIERS)
    for place in PLACES[:PARTITIONS]:
        offset = zookeeper.stored(place)
        looks.append(Look((CLASSIC, place), None if offset < 0 else offset))
    final = dict(zip(PLACES, await _read(sim, PLACES), strict=True))
    positions = {place: stored.offset for place, stored in copied.items()}
    sparse = frozenset(place for place in PLACES if place.topic == EXACT)
    return account.history(final, positions, looks, sparse, PLAIN)
