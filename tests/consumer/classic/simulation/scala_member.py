"""Kafka's own consumer (0.9.0.1), as its source has it: for groups of both kinds.

Its flaws are here too. It gives up after `rebalance.max.retries` and then owns nothing until something
changes in the group; it goes on handing out while its session is gone; requests that fail are sent again by
the next session, also deletes of owner nodes that are others' by then.

One flaw is left out, since nobody else can cure it: an attempt that goes on in a new session claims nodes
that the consumer then forgets, and that stand in its own way until that session ends, too.
"""

from __future__ import annotations

from collections.abc import Generator
from functools import partial
from typing import Any

from ottla.consumer.classic.assignors import assign_ranges
from ottla.consumer.classic.effects import (
    Children,
    CreateEphemeral,
    Delete,
    Effect,
    Read,
    WatchBook,
    WatchKey,
    perform_on,
)
from ottla.consumer.classic.group_view import ViewRules, read_group
from ottla.consumer.classic.identity import ConsumerThreadId
from ottla.consumer.classic.topic_count import TopicCount
from ottla.model.errors import OttlaError
from ottla.model.topic_partition import TopicAndPartition
from ottla.zookeeper import paths
from ottla.zookeeper.consumer_znodes import encode_registration
from ottla.zookeeper.session import SessionState
from ottla.zookeeper.zookeeper_errors import NodeExists, SessionLost, ZooKeeperConnectionLost
from tests.consumer.classic.simulation.world import GROUP, Process, World

RETRIES = 4
BACKOFF_MS = 2000.0
Thread = Generator[Effect | float, Any, Any]
"""A thread's life: effects on ZooKeeper, and pauses in milliseconds."""


class ScalaMember(Process):
    """`feeds` is its topicRegistry: what it owns, by its own reckoning, and reads."""

    def __init__(self, world: World, name: str, topic_count: TopicCount) -> None:
        super().__init__(world, name)
        self.topic_count = topic_count
        self.feeds: dict[TopicAndPartition, tuple[ConsumerThreadId, int]] = {}
        self.is_zombie = False
        self._registration = encode_registration(topic_count.registration(0))
        self._rules = ViewRules(GROUP, name)
        self._watches = WatchBook(self._noticed)
        self._fetched: dict[TopicAndPartition, tuple[ConsumerThreadId, int]] = {}
        self._claims: set[str] = set()
        self._is_triggered = False
        self._is_new_session = False
        self._is_leaving = False

    def start(self) -> None:
        """Connect and run."""
        self.session.add_listener(self._session_changed)
        self.session.connect()
        self._run(self._life(), None, None)
        self.world.after(self.world.chance.uniform(0, 800), self._hand_out_now_and_then)

    def leave(self) -> None:
        """Shut down in good order."""
        self.world.trace(f"{self.name}: leaves")
        self._is_leaving = True

    def wake(self) -> None:
        """A stream is the first to run."""
        self._hand_out()

    @property
    def is_content(self) -> bool:
        """Whether it waits for something to happen."""
        has_news = self._is_triggered or self._is_new_session or self._is_leaving
        return self.is_well and not has_news and not self.is_zombie

    # --- threads

    def _life(self) -> Thread:
        yield from self._register()
        yield from self._synced_rebalance()
        while not self._is_leaving:
            if self._is_new_session:
                self._is_new_session = False
                self._watches.clear()
                self.feeds.clear()
                yield from self._clear_forgotten()
                yield from self._register()
                yield from self._synced_rebalance()
            elif self._is_triggered:
                self._is_triggered = False
                yield from self._synced_rebalance()
            yield 100.0
        self._stop_fetchers()
        self.is_alive = False
        self._expire_later()
        self.session.close()
        self.world.pass_on_events()
        self.world.trace(f"{self.name}: has left")

    def _clear_forgotten(self) -> Thread:
        for path in sorted(self._claims):
            node = yield Read(path)
            if node is not None and node.stat.ephemeral_owner == self.session.session_id:
                yield Delete(path)
        self._claims.clear()

    def _register(self) -> Thread:
        path = paths.consumer(GROUP, self.name)
        while True:
            try:
                yield CreateEphemeral(path, self._registration)
            except NodeExists:
                node = yield Read(path)
                if node is not None and node.stat.ephemeral_owner == self.session.session_id:
                    return
                yield 1000.0
            else:
                return

    def _synced_rebalance(self) -> Thread:
        self.is_zombie = False
        for _ in range(RETRIES):
            try:
                if (yield from self._rebalance()):
                    return
            except OttlaError as error:
                self.world.trace(f"{self.name}: {error}")
            self._stop_fetchers()
            yield BACKOFF_MS
        self.world.trace(f"{self.name}: can't rebalance after {RETRIES} retries")
        self.is_zombie = True

    def _rebalance(self) -> Thread:
        self._stop_fetchers()
        for place in list(self.feeds):
            yield Delete(paths.owner(GROUP, *place))
        self.feeds.clear()
        view = yield from read_group(self._rules)
        assignment = assign_ranges(view.assignment_input())
        mine = {place: thread for place, thread in assignment.items() if thread.consumer == self.name}
        offsets = {place: max(0, self.world.committed.get(place, 0)) for place in mine}
        yield 5.0
        if not (yield from self._reflect(mine)):
            return False
        self.feeds = {place: (thread, offsets[place]) for place, thread in mine.items()}
        self._fetched = self.feeds
        for place, (thread, offset) in self.feeds.items():
            self.world.trace(f"{thread} (Scala) reads {place} from {offset}")
        return True

    def _reflect(self, mine: dict[TopicAndPartition, ConsumerThreadId]) -> Thread:
        owned = []
        for place, thread in mine.items():
            path = paths.owner(GROUP, *place)
            try:
                yield CreateEphemeral(path, str(thread).encode())
            except NodeExists:
                node = yield Read(path)
                if node is None or node.data != str(thread).encode():
                    continue
            owned.append(path)
            self._claims.add(path)
        if len(owned) == len(mine):
            return True
        for path in owned:
            yield Delete(path)
        return False

    def _stop_fetchers(self) -> None:
        """Also commits, before anything is released."""
        self._fetched = {}
        for place, (_, offset) in self.feeds.items():
            self.world.committed[place] = offset

    # --- performing

    def _run(self, thread: Thread, answer: object, failure: OttlaError | None) -> None:
        if not self.is_alive:
            return
        if self.is_frozen:
            self.world.after(50, partial(self._run, thread, answer, failure))
            return
        try:
            wish = thread.send(answer) if failure is None else thread.throw(failure)
        except StopIteration:
            return
        self._perform(thread, wish)

    def _perform(self, thread: Thread, wish: Effect | float) -> None:
        """Requests are sent again until there is an answer, whatever session that takes."""
        if not self.is_alive:
            return
        if self.is_frozen:
            self.world.after(50, partial(self._perform, thread, wish))
            return
        if isinstance(wish, float):
            self.world.after(wish, partial(self._run, thread, None, None))
            return
        assert isinstance(wish, Children | Read | CreateEphemeral | Delete)
        answer, failure = None, None
        was_connected = self.session.state is SessionState.CONNECTED
        try:
            answer = perform_on(self.session, wish, self._watches)
        except (ZooKeeperConnectionLost, SessionLost):
            if was_connected:
                self.answer_was_lost()
            self.world.after(100, partial(self._perform, thread, wish))
            return
        except OttlaError as error:
            failure = error
        self.world.pass_on_events()
        self.world.after(self.world.chance.uniform(0.1, 20.0), partial(self._run, thread, answer, failure))

    def _session_changed(self, state: SessionState) -> None:
        if state is SessionState.LOST:
            self._is_new_session = True

    def _noticed(self, key: WatchKey) -> None:
        self._watches.disarm(key)
        self._is_triggered = True

    # --- streams

    def _hand_out(self) -> None:
        if self.is_frozen or not self.is_alive:
            return
        for place, (thread, offset) in self._fetched.items():
            self.world.hand_out(place, offset)
            self._fetched[place] = thread, offset + 1

    def _hand_out_now_and_then(self) -> None:
        if self.is_alive:
            self._hand_out()
            self.world.after(self.world.chance.uniform(200, 1800), self._hand_out_now_and_then)
