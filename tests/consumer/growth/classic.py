"""Classic groups: `ClassicMember` on a ZooKeeper in memory, whose every operation is a round trip.

Offsets are in ZooKeeper too: they are read and written one by one, as `ZooKeeperOffsetStore` does it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from ottla.consumer.classic.effects import CommitOffsets, Effect, FetchOffsets
from ottla.consumer.classic.topic_count import StaticTopicCount
from ottla.zookeeper import paths
from ottla.zookeeper.memory_session import MemorySession, MemoryZooKeeper, WatchDelivery
from ottla.zookeeper.session import (
    ANY_VERSION,
    CreateMode,
    Operation,
    SessionLimits,
    Watch,
    WatchEvent,
    Znode,
    ZnodeStat,
)
from tests.consumer.classic.simulation.ottla_member import OttlaMember
from tests.consumer.classic.simulation.world import GROUP, SESSION_TIMEOUT_MS, World
from tests.consumer.growth.timeline import TOPIC, Group, Timeline

STAT_BYTES, OFFSET_BYTES = 68, 20


class CountedZooKeeper(MemoryZooKeeper):
    """Counts operations and bytes, and knows which sessions have to be told of events."""

    def __init__(self, timeline: Timeline) -> None:
        super().__init__(WatchDelivery.ON_DEMAND)
        self.timeline = timeline
        self.noticing: list[MemorySession] = []

    def session(
        self, session_timeout_ms: int = int(SESSION_TIMEOUT_MS), limits: SessionLimits | None = None
    ) -> MemorySession:
        return CountedSession(self, session_timeout_ms, limits or SessionLimits())

    def publish(self, events: Sequence[WatchEvent]) -> list[MemorySession]:
        noticing = super().publish(events)
        self.noticing += noticing
        return noticing

    def count(self, size: int) -> None:
        """One operation more."""
        self.timeline.traffic.operations += 1
        self.timeline.traffic.bytes += size


class CountedSession(MemorySession):
    """Each method is one operation."""

    def __init__(self, ensemble: CountedZooKeeper, session_timeout_ms: int, limits: SessionLimits) -> None:
        super().__init__(ensemble, session_timeout_ms, limits)
        self._count = ensemble.count

    def create(self, path: str, data: bytes = b"", mode: CreateMode = CreateMode.PERSISTENT) -> str:
        self._count(2 * len(path) + len(data))
        return super().create(path, data, mode)

    def get(self, path: str, watch: Watch | None = None) -> Znode:
        self._count(len(path) + STAT_BYTES)
        node = super().get(path, watch)
        self._ensemble.timeline.traffic.bytes += len(node.data)  # type: ignore[attr-defined]
        return node

    def exists(self, path: str, watch: Watch | None = None) -> ZnodeStat | None:
        self._count(len(path) + STAT_BYTES)
        return super().exists(path, watch)

    def children(self, path: str, watch: Watch | None = None) -> tuple[str, ...]:
        names = super().children(path, watch)
        self._count(len(path) + 4 * len(names) + sum(map(len, names)))
        return names

    def delete(self, path: str, version: int = ANY_VERSION) -> None:
        self._count(len(path))
        super().delete(path, version)

    def commit(self, operations: Sequence[Operation]) -> tuple[str, ...]:
        self._count(sum(len(operation.path) for operation in operations))
        return super().commit(operations)


class GrowthWorld(World):
    """The world of `simulation` on a timeline, without chance in its delays."""

    def __init__(self, timeline: Timeline, note: Callable[[Member], None]) -> None:
        self.timeline = timeline
        self.note = note
        self.zookeeper = CountedZooKeeper(timeline)
        self.by_session: dict[MemorySession, Member] = {}
        self.travelling = 0
        super().__init__(random.Random(timeline.random.random()), ensemble=self.zookeeper)

    @property
    def now_ms(self) -> float:
        """The time of the timeline."""
        return self.timeline.now_ms

    def after(self, delay_ms: float, action: Callable[[], None]) -> None:
        self.timeline.at(self.now_ms + delay_ms, action)

    def pass_on_events(self) -> None:
        noticing, self.zookeeper.noticing = self.zookeeper.noticing, []
        for session in noticing:
            if session in self.by_session:
                self.by_session[session].expect_events()


class Member(OttlaMember):
    """A process whose application reads nothing: what is counted is the group."""

    def __init__(self, world: GrowthWorld, name: str) -> None:
        super().__init__(world, name, StaticTopicCount({TOPIC: 1}))
        self.growth_world = world
        self._asked = 0
        world.by_session[self.session] = self

    def start(self) -> None:
        self.session.add_listener(self._session_changed)
        self.session.connect()

    def _run(self, wake_count: int) -> None:
        self._asked = self.world.timeline.traffic.operations  # type: ignore[attr-defined]
        super()._run(wake_count)
        self.growth_world.note(self)

    def _perform_here(self, effect: Effect) -> object:
        match effect:
            case FetchOffsets(places) | CommitOffsets(places):
                for place in places:
                    self.growth_world.zookeeper.count(len(paths.offset(GROUP, *place)) + OFFSET_BYTES)
        return super()._perform_here(effect)

    def _pause_ms(self) -> float:
        traffic = self.growth_world.timeline.traffic
        return max(0.001, (traffic.operations - self._asked) * self.growth_world.timeline.latency_ms)

    def expect_events(self) -> None:
        if self.session.undelivered_count and not self._are_events_on_their_way:
            self.growth_world.travelling += 1
        super().expect_events()

    def _event_delay_ms(self) -> float:
        return self.growth_world.timeline.latency_ms / 2

    def _arrived(self) -> None:
        self.growth_world.travelling -= 1
        super()._arrived()
        self.growth_world.note(self)


class ClassicGroup(Group):
    """A group in ZooKeeper; members have one stream each."""

    def __init__(self, timeline: Timeline, partitions: int) -> None:
        super().__init__(timeline, partitions)
        self.world = GrowthWorld(timeline, self._note)
        self.world.set_partitions(TOPIC, partitions)
        self.members: dict[Member, None] = {}
        self._unsettled: set[Member] = set()

    def join(self) -> None:
        member = Member(self.world, f"{GROUP}_{len(self.world.processes):06}")
        self.members[member] = None
        self._unsettled.add(member)
        member.start()

    def leave(self) -> None:
        member = self.timeline.random.choice(list(self.members))
        del self.members[member]
        self._unsettled.add(member)
        member.leave()

    def is_settled(self) -> bool:
        if self._unsettled or self.world.travelling:
            return False
        owners = paths.topic_owners(GROUP, TOPIC)
        tree = self.world.ensemble.tree
        stat = tree.stat(owners)
        return stat is not None and stat.children_count == self.partitions

    def _note(self, member: Member) -> None:
        is_settled = member.is_content if member in self.members else not member.is_alive
        (self._unsettled.discard if is_settled else self._unsettled.add)(member)
