"""An in-process ZooKeeper for tests and simulations: `MemoryZooKeeper` and its sessions.

It passes the same contract suite as the real thing and is deterministic: no thread, no clock, nothing happens
outside a call. Faults are calls as well, so that a seeded scheduler owns them all:

    suspend()            the connection is cut: CONNECTED → SUSPENDED, watches are interrupted
    resume()             one step of reconnecting: SUSPENDED → CONNECTED, or → LOST if it expired;
                         LOST → CONNECTED with a new session
    expire()             the server gives the session up: its ephemerals vanish, a connected client is cut
    lose_next_answer()   the next operation is performed, and the connection is cut before its answer

Watch events are delivered at the end of the call that caused them. With `WatchDelivery.ON_DEMAND` they wait,
as on a slow network, until `deliver` or until the session's own next operation: ZooKeeper promises that a
client sees the event before the data that caused it, and a simulation must not be worse than that.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import Enum
from typing import Self, TypeVar

from ottla.model.closing import Closing
from ottla.zookeeper.memory_tree import MemoryTree, creation
from ottla.zookeeper.paths import checked_path, lineage, parent
from ottla.zookeeper.session import (
    ANY_VERSION,
    CreateMode,
    DeleteOperation,
    Operation,
    SessionLimits,
    SessionState,
    SetOperation,
    StateListener,
    Watch,
    WatchEvent,
    WatchKind,
    Znode,
    ZnodeStat,
)
from ottla.zookeeper.session_checks import check_children, check_data, check_new_path, check_operations
from ottla.zookeeper.zookeeper_errors import (
    NodeExists,
    NoNode,
    SessionClosed,
    SessionLost,
    ZooKeeperConnectionLost,
    ZooKeeperError,
)

_Answer = TypeVar("_Answer")

SESSION_TIMEOUT_MS = 6000
"""Kafka's default zookeeper.session.timeout.ms."""

_DATA_KINDS = {WatchKind.CREATED, WatchKind.CHANGED, WatchKind.DELETED}
_CHILD_KINDS = {WatchKind.CHILDREN, WatchKind.DELETED}

_WatchedPath = tuple[str, bool]
"""A node, and whether its children are watched (instead of its data)."""


class WatchDelivery(Enum):
    """When sessions receive watch events."""

    AT_ONCE = "at once"
    ON_DEMAND = "on demand"


class MemoryZooKeeper:
    """The ensemble: one tree, and the sessions that its servers keep."""

    def __init__(self, delivery: WatchDelivery = WatchDelivery.AT_ONCE) -> None:
        self.delivery = delivery
        self.tree = MemoryTree()
        self._sessions: dict[int, MemorySession] = {}
        self._watchers: dict[_WatchedPath, dict[MemorySession, None]] = {}
        self._session_id = 0

    def session(
        self, session_timeout_ms: int = SESSION_TIMEOUT_MS, limits: SessionLimits | None = None
    ) -> MemorySession:
        """Return a new client, not connected yet."""
        return MemorySession(self, session_timeout_ms, limits or SessionLimits())

    def is_alive(self, session_id: int) -> bool:
        """Return whether the servers still keep the session."""
        return session_id in self._sessions

    def open(self, session: MemorySession) -> int:
        """Start a session and return its id. Called by sessions."""
        self._session_id += 1
        self._sessions[self._session_id] = session
        return self._session_id

    def end(self, session_id: int) -> None:
        """End a session and delete its ephemerals, as one change."""
        if self._sessions.pop(session_id, None) is not None:
            self.publish(self.tree.drop_ephemerals(session_id))

    def publish(self, events: Sequence[WatchEvent]) -> list[MemorySession]:
        """Pass events to the sessions that watch for them, and return these. Called by sessions."""
        met: dict[MemorySession, None] = {}
        for event in events:
            for kinds, is_children in ((_DATA_KINDS, False), (_CHILD_KINDS, True)):
                if event.kind in kinds:
                    watched = (event.path, is_children)
                    for session in filter(self._keeps, self._watchers.pop(watched, ())):
                        session.notice(watched, event)
                        met[session] = None
        noticing = sorted(met, key=lambda session: session.session_id)
        if self.delivery is WatchDelivery.AT_ONCE:
            for session in noticing:
                session.deliver()
        return noticing

    def _keeps(self, session: MemorySession) -> bool:
        return self._sessions.get(session.session_id) is session

    def watch(self, watched: _WatchedPath, session: MemorySession) -> None:
        """Note that a session watches a node. Called by sessions."""
        self._watchers.setdefault(watched, {})[session] = None

    def unwatch(self, watched: _WatchedPath, session: MemorySession) -> None:
        """Note that a session does not watch a node any more. Called by sessions."""
        self._watchers.get(watched, {}).pop(session, None)


class MemorySession(Closing):
    """A client of a MemoryZooKeeper; implements ZooKeeperSession. For one thread."""

    def __init__(self, ensemble: MemoryZooKeeper, session_timeout_ms: int, limits: SessionLimits) -> None:
        self._ensemble = ensemble
        self._requested_timeout_ms = session_timeout_ms
        self._limits = limits
        self._state = SessionState.LOST
        self._session_id = 0
        self._open = False
        self._answer_lost = False
        self._listeners: list[StateListener] = []
        self._watches: dict[_WatchedPath, list[Watch]] = {}
        self._undelivered: deque[tuple[Watch, WatchEvent]] = deque()

    @property
    def state(self) -> SessionState:
        """See ZooKeeperSession."""
        return self._state

    @property
    def session_id(self) -> int:
        """See ZooKeeperSession."""
        return self._session_id

    @property
    def session_timeout_ms(self) -> int:
        """See ZooKeeperSession."""
        return self._requested_timeout_ms if self._session_id else 0

    @property
    def undelivered_count(self) -> int:
        """How many watch events wait for `deliver`."""
        return len(self._undelivered)

    @property
    def watch_count(self) -> int:
        """How many watches are set."""
        return sum(map(len, self._watches.values()))

    def connect(self) -> None:
        """See ZooKeeperSession."""
        if not self._open:
            self._open = True
            self._begin()

    def close(self) -> None:
        """See ZooKeeperSession."""
        if not self._open:
            return
        self._open = False
        self._forget_watches()
        self._undelivered.clear()
        ended, self._session_id = self._session_id, 0
        # A suspended client cannot end its session: the servers keep it until it expires.
        if self._state is SessionState.CONNECTED:
            self._ensemble.end(ended)
        self._change(SessionState.LOST)

    def suspend(self) -> None:
        """Cut the connection; the servers keep the session."""
        if self._state is SessionState.CONNECTED:
            self._change(SessionState.SUSPENDED)
            for (path, _), watches in self._forget_watches():
                event = WatchEvent(WatchKind.INTERRUPTED, path)
                self._undelivered.extend((watch, event) for watch in watches)
            self.deliver()

    def resume(self) -> None:
        """Take one step of reconnecting: SUSPENDED to CONNECTED or LOST, LOST to CONNECTED with a new
        session."""
        if not self._open or self._state is SessionState.CONNECTED:
            return
        if self._state is SessionState.LOST:
            self._begin()
        elif self._ensemble.is_alive(self._session_id):
            self._change(SessionState.CONNECTED)
        else:
            self._session_id = 0
            self._change(SessionState.LOST)

    def expire(self) -> None:
        """Let the servers expire the session; the client sees it at `resume`."""
        self.suspend()
        self._ensemble.end(self._session_id)

    def lose_next_answer(self) -> None:
        """Perform the next operation, but lose its answer."""
        self._answer_lost = True

    def deliver(self) -> None:
        """Run the watches whose events have arrived."""
        while self._undelivered:
            watch, event = self._undelivered.popleft()
            watch(event)

    def notice(self, watched: _WatchedPath, event: WatchEvent) -> None:
        """Queue the watches of a node, which an event fires. Called by the ensemble."""
        self._undelivered.extend((watch, event) for watch in self._watches.pop(watched, ()))

    def add_listener(self, listener: StateListener) -> None:
        """See ZooKeeperSession."""
        if listener not in self._listeners:
            self._listeners.append(listener)

    def remove_listener(self, listener: StateListener) -> None:
        """See ZooKeeperSession."""
        if listener in self._listeners:
            self._listeners.remove(listener)

    def create(self, path: str, data: bytes = b"", mode: CreateMode = CreateMode.PERSISTENT) -> str:
        """See ZooKeeperSession."""
        check_new_path(path)
        check_data(self._limits, path, data)
        return self._perform(lambda: self._apply(creation(path, data, mode))[0])

    def create_with_parents(
        self, path: str, data: bytes = b"", mode: CreateMode = CreateMode.PERSISTENT
    ) -> str:
        """See ZooKeeperSession."""
        try:
            return self.create(path, data, mode)
        except NoNode:
            self.ensure(parent(path))
            return self.create(path, data, mode)

    def ensure(self, path: str) -> None:
        """See ZooKeeperSession."""
        self.exists(path)
        for node in lineage(path):
            if self._ensemble.tree.stat(node) is None:
                try:
                    self.create(node)
                except NodeExists:
                    continue

    def get(self, path: str, watch: Watch | None = None) -> Znode:
        """See ZooKeeperSession."""
        checked_path(path)
        node = self._perform(lambda: self._ensemble.tree.read(path))
        check_data(self._limits, path, node.data)
        self._watch(path, watch, is_children=False)
        return node

    def exists(self, path: str, watch: Watch | None = None) -> ZnodeStat | None:
        """See ZooKeeperSession."""
        checked_path(path)
        stat = self._perform(lambda: self._ensemble.tree.stat(path))
        self._watch(path, watch, is_children=False)
        return stat

    def children(self, path: str, watch: Watch | None = None) -> tuple[str, ...]:
        """See ZooKeeperSession."""
        checked_path(path)
        names = self._perform(lambda: self._ensemble.tree.names(path))
        check_children(self._limits, path, len(names))
        self._watch(path, watch, is_children=True)
        return names

    def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> ZnodeStat:
        """See ZooKeeperSession."""
        checked_path(path)
        check_data(self._limits, path, data)

        def change() -> ZnodeStat:
            self._apply([SetOperation(path, data, version)])
            return self._ensemble.tree.read(path).stat

        return self._perform(change)

    def delete(self, path: str, version: int = ANY_VERSION) -> None:
        """See ZooKeeperSession."""
        check_new_path(path)
        self._perform(lambda: self._apply([DeleteOperation(path, version)]))

    def commit(self, operations: Sequence[Operation]) -> tuple[str, ...]:
        """See ZooKeeperSession."""
        check_operations(self._limits, operations)
        return self._perform(lambda: self._apply(operations))

    def __enter__(self) -> Self:
        self.connect()
        return self

    def _begin(self) -> None:
        self._session_id = self._ensemble.open(self)
        self._change(SessionState.CONNECTED)

    def _apply(self, operations: Sequence[Operation]) -> tuple[str, ...]:
        paths, events = self._ensemble.tree.apply(operations, self._session_id)
        self._ensemble.publish(events)
        return paths

    def _perform(self, action: Callable[[], _Answer]) -> _Answer:
        if not self._open:
            raise SessionClosed("the ZooKeeper session is not connected: call connect() first")
        if self._state is SessionState.SUSPENDED:
            raise ZooKeeperConnectionLost("the connection to ZooKeeper is cut; nothing was sent")
        if self._state is SessionState.LOST:
            raise SessionLost("the ZooKeeper session expired; a new one is not there yet")
        self.deliver()
        if not self._answer_lost:
            return action()
        self._answer_lost = False
        # An error is an answer too, and gets lost like any other.
        with suppress(ZooKeeperError):
            action()
        self.suspend()
        raise ZooKeeperConnectionLost("the connection to ZooKeeper broke before the answer")

    def _change(self, state: SessionState) -> None:
        if state is not self._state:
            self._state = state
            for listener in list(self._listeners):
                listener(state)

    def _watch(self, path: str, watch: Watch | None, *, is_children: bool) -> None:
        if watch is not None:
            self._watches.setdefault((path, is_children), []).append(watch)
            self._ensemble.watch((path, is_children), self)

    def _forget_watches(self) -> list[tuple[_WatchedPath, list[Watch]]]:
        """Remove and return all watches, those of data first."""
        forgotten, self._watches = self._watches, {}
        for watched in forgotten:
            self._ensemble.unwatch(watched, self)
        return sorted(forgotten.items(), key=lambda entry: entry[0][1])
