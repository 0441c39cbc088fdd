"""The clock, ZooKeeper, committed offsets, and processes that can be cut off, frozen and killed."""

from __future__ import annotations

import heapq
import random
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

from ottla.model.topic_partition import TopicAndPartition
from ottla.zookeeper import paths
from ottla.zookeeper.broker_znodes import BrokerRegistration, Endpoint, encode_broker
from ottla.zookeeper.memory_session import MemorySession, MemoryZooKeeper, WatchDelivery
from ottla.zookeeper.session import SessionState
from ottla.zookeeper.topic_znodes import TopicAssignment, encode_assignment
from ottla.zookeeper.zookeeper_errors import NodeExists

GROUP = "g"
SESSION_TIMEOUT_MS = 6000.0


@dataclass
class World:
    """Everything that is not a member. Time goes on by `run`."""

    chance: random.Random
    is_tracing: bool = False
    ensemble: MemoryZooKeeper = field(default_factory=lambda: MemoryZooKeeper(WatchDelivery.ON_DEMAND))
    committed: dict[TopicAndPartition, int] = field(default_factory=dict)
    handed_out: dict[TopicAndPartition, int] = field(default_factory=dict)
    """The first offset that nobody has handed out yet."""
    redelivered: int = 0
    has_scala: bool = False
    """Kafka's own members may delete others' owner nodes, so a node that is gone proves nothing then."""
    processes: list[Process] = field(default_factory=list)
    _events: list[tuple[float, int, Callable[[], None]]] = field(default_factory=list)
    _count: int = 0
    _now_ms: float = 0.0

    @property
    def now_ms(self) -> float:
        """The time."""
        return self._now_ms

    @cached_property
    def _admin(self) -> MemorySession:
        """Whoever makes topics, and a broker for them."""
        admin = self.ensemble.session()
        admin.connect()
        registration = encode_broker(BrokerRegistration((Endpoint("kafka", 9092),), 0))
        admin.create_with_parents(paths.broker(0), registration)
        admin.ensure(paths.TOPICS)
        return admin

    def after(self, delay_ms: float, action: Callable[[], None]) -> None:
        """Let something happen later."""
        self._count += 1
        heapq.heappush(self._events, (self.now_ms + delay_ms, self._count, action))

    def run(self, until_ms: float) -> None:
        """Let everything happen that is due until then."""
        while self._events and self._events[0][0] <= until_ms:
            self._now_ms, _, action = heapq.heappop(self._events)
            action()
        self._now_ms = until_ms

    def trace(self, text: str) -> None:
        """For the eyes of whoever replays a seed."""
        if self.is_tracing:
            sys.stdout.write(f"{self.now_ms:10.1f}  {text}\n")

    def set_partitions(self, topic: str, count: int) -> None:
        """Make a topic, or give it more partitions."""
        self.trace(f"{topic} has {count} partitions")
        data = encode_assignment(TopicAssignment(dict.fromkeys(range(count), (0,))))
        try:
            self._admin.create(paths.topic(topic), data)
        except NodeExists:
            self._admin.set(paths.topic(topic), data)
        self.pass_on_events()

    def owner_of(self, place: TopicAndPartition) -> tuple[str, int] | None:
        """Text and session of a partition's owner node."""
        path = paths.owner(GROUP, *place)
        if self.ensemble.tree.stat(path) is None:
            return None
        node = self.ensemble.tree.read(path)
        return node.data.decode(), node.stat.ephemeral_owner

    def hand_out(self, place: TopicAndPartition, offset: int) -> None:
        """A stream gave one message to its user. Nothing may have been left out before it."""
        first_new = self.handed_out.get(place, 0)
        assert offset <= first_new, f"{place}: {first_new} … {offset - 1} were never handed out"
        self.redelivered += offset < first_new
        self.handed_out[place] = max(first_new, offset + 1)

    def stored(self, place: TopicAndPartition) -> int:
        """The committed offset, or -1."""
        return self.committed.get(place, -1)

    def commit(self, place: TopicAndPartition, offset: int) -> None:
        """Keep an offset. Nobody may commit what was not handed out."""
        assert offset <= self.handed_out.get(place, 0), f"{place}: {offset} is ahead of what was handed out"
        self.committed[place] = offset

    def pass_on_events(self) -> None:
        """Watch events travel: every process gets those that wait for it after a while of its own."""
        for process in self.processes:
            process.expect_events()


class Process(ABC):
    """A session in a process. Faults are here; what runs in the process is a subclass's."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.session: MemorySession = world.ensemble.session(int(SESSION_TIMEOUT_MS))
        self.is_alive = True
        self.is_frozen = False
        self._returns = 0
        """How often the servers heard of it again after a silence."""
        self._are_events_on_their_way = False
        world.processes.append(self)

    # --- what subclasses do

    @abstractmethod
    def start(self) -> None:
        """Begin to run."""

    @abstractmethod
    def leave(self) -> None:
        """Begin an orderly end."""

    @abstractmethod
    def wake(self) -> None:
        """Frozen no more: whatever any thread of the process does first, it does now."""

    # --- faults

    @property
    def is_well(self) -> bool:
        """Whether another fault can be thought of."""
        return self.is_alive and not self.is_frozen and self.session.state is SessionState.CONNECTED

    def cut(self, duration_ms: float) -> None:
        """Its connection breaks and comes back later; the session may be over by then."""
        self.world.trace(f"{self.name}: cut off for {duration_ms:.0f} ms")
        self.session.suspend()
        self._expire_later()
        self.world.after(duration_ms, self._reconnect)

    def lose_answer(self) -> None:
        """Its next request is performed, and the connection breaks before the answer."""
        self.world.trace(f"{self.name}: the next answer gets lost")
        self.session.lose_next_answer()

    def answer_was_lost(self) -> None:
        """Called when that happened: the client reconnects."""
        self._expire_later()
        self.world.after(self.world.chance.uniform(10, 9000), self._reconnect)

    def freeze(self, duration_ms: float) -> None:
        """The process stops, and does not know of it."""
        self.world.trace(f"{self.name}: frozen for {duration_ms:.0f} ms")
        self.is_frozen = True
        self._expire_later()
        self.world.after(duration_ms, self._thaw)

    def kill(self) -> None:
        """It is gone; ZooKeeper finds out when the session times out."""
        self.world.trace(f"{self.name}: killed")
        self.is_alive = False
        self._expire_later()

    def _expire_later(self) -> None:
        session_id, returns = self.session.session_id, self._returns

        def expire() -> None:
            if self._returns == returns and self.world.ensemble.is_alive(session_id):
                self.world.trace(f"{self.name}: session {session_id} expires")
                self.world.ensemble.end(session_id)
                self.world.pass_on_events()

        self.world.after(SESSION_TIMEOUT_MS, expire)

    def _reconnect(self) -> None:
        if not self.is_alive or self.session.state is SessionState.CONNECTED:
            return
        if self.is_frozen:
            self.world.after(100, self._reconnect)
            return
        self.session.resume()
        self.world.trace(f"{self.name}: {self.session.state.value}, session {self.session.session_id}")
        if self.session.state is SessionState.CONNECTED:
            self._returns += 1
        else:
            self.world.after(self.world.chance.uniform(1, 500), self._reconnect)

    def _thaw(self) -> None:
        self.is_frozen = False
        if not self.is_alive:
            return
        self.world.trace(f"{self.name}: thawed")
        self.wake()
        # The connection did not survive if the servers gave the session up.
        if self.world.ensemble.is_alive(self.session.session_id):
            self._returns += self.session.state is SessionState.CONNECTED
        elif self.session.state is SessionState.CONNECTED:
            self.session.suspend()
            self.world.after(self.world.chance.uniform(1, 200), self._reconnect)

    # --- watch events

    def expect_events(self) -> None:
        """Let events that wait for this session arrive after a while."""
        if self.session.undelivered_count and not self._are_events_on_their_way:
            self._are_events_on_their_way = True
            self.world.after(self._event_delay_ms(), self._arrived)

    def _event_delay_ms(self) -> float:
        """How long watch events travel."""
        return self.world.chance.uniform(0, 300)

    def _arrived(self) -> None:
        self._are_events_on_their_way = False
        if self.is_frozen and self.is_alive:
            self.world.after(100, self.expect_events)
        elif self.is_alive:
            self.session.deliver()
