"""Keeps ZooKeeper and the brokers in agreement: turns flags into chores, and does them in order.

    flags ──▶ chores ──▶ one at a time: read with a watch, order or write ──▶ done

A chore stays until it is done: a lost connection interrupts it, and the next turn begins it again. Every
chore compares before it writes, so doing it twice does no harm. The order matters: the controller first, then
notes of config changes (later ones are new), then deletions (a topic that was deleted while we were away must
not be created again), then topics.

It runs on one thread and knows neither threads nor clocks; `registration` drives it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from enum import Enum
from functools import partial

from ottla.broker.registration.admin_nodes import AdminNodes
from ottla.broker.registration.broker_nodes import BrokerNodes, Conflict
from ottla.broker.registration.flags import Flags, Raised
from ottla.broker.registration.orders import JoinClusterOrder
from ottla.broker.registration.reads import WatchedReads
from ottla.broker.registration.topic_nodes import Brokers, TopicNodes
from ottla.broker.registration.view import RegisteredBrokers
from ottla.model.errors import OttlaError
from ottla.zookeeper import paths
from ottla.zookeeper.session import ZooKeeperSession
from ottla.zookeeper.zookeeper_errors import NodeError, SessionClosed, SessionLost, ZooKeeperConnectionLost

log = logging.getLogger(__name__)

INTERRUPTED = (ZooKeeperConnectionLost, SessionLost, SessionClosed)
"""Errors after which work continues when the session is back."""


class Chore(Enum):
    """Chores beside single topics, in their order."""

    ROOTS = "roots"
    BROKERS = "brokers"
    CONFIG_CHANGES = "config changes"
    DELETIONS = "deletions"
    TOPICS = "topics"
    ELECTION = "election"
    REASSIGNMENT = "reassignment"


_BY_PATH = {
    paths.CONTROLLER: Chore.BROKERS,
    paths.CONFIG_CHANGES: Chore.CONFIG_CHANGES,
    paths.DELETE_TOPICS: Chore.DELETIONS,
    paths.TOPICS: Chore.TOPICS,
    paths.PREFERRED_REPLICA_ELECTION: Chore.ELECTION,
    paths.REASSIGN_PARTITIONS: Chore.REASSIGNMENT,
}
_BEFORE_TOPICS = (Chore.ROOTS, Chore.BROKERS, Chore.CONFIG_CHANGES, Chore.DELETIONS, Chore.TOPICS)
_AFTER_TOPICS = (Chore.ELECTION, Chore.REASSIGNMENT)


class Registrar:
    """Used by one thread. Call `work` whenever a flag is up."""

    def __init__(
        self,
        session: ZooKeeperSession,
        brokers: Brokers,
        flags: Flags,
        cluster_id: str,
        now_ms: Callable[[], int],
        clock: Callable[[], float],
    ) -> None:
        self._session = session
        self._brokers = brokers
        self._flags = flags
        self._cluster_id = cluster_id
        self._reads = WatchedReads(session, flags)
        self._broker_nodes = BrokerNodes(session, self._reads, now_ms)
        self._topic_nodes = TopicNodes(session, self._reads, brokers)
        self._admin_nodes = AdminNodes(session, self._reads, brokers, self._topic_nodes, clock)
        self._session_id = 0
        self._has_joined = False
        self._view = RegisteredBrokers({}, -1)
        self._chores: set[Chore] = set()
        self._topics: set[str] = set()
        self._actions: dict[Chore, Callable[[], None]] = {
            Chore.ROOTS: self._join,
            Chore.BROKERS: self._publish_brokers,
            Chore.CONFIG_CHANGES: self._admin_nodes.read_config_changes,
            Chore.DELETIONS: self._admin_nodes.delete_topics,
            Chore.TOPICS: self._find_topics,
            Chore.ELECTION: self._admin_nodes.elect_preferred,
            Chore.REASSIGNMENT: self._admin_nodes.reassign,
        }

    def work(self) -> None:
        """Do all chores.

        Raises one of INTERRUPTED, NodeError (another session acts at the same time: try again soon) or
        Conflict (try again later). An error of a single chore is logged, and that chore waits for the next
        flag.
        """
        self._look()
        while self._chores or self._topics:
            for chore in _BEFORE_TOPICS:
                if chore in self._chores:
                    self._do(chore.value, self._actions[chore])
                    self._chores.discard(chore)
            while self._topics:
                name = min(self._topics)
                self._do(f"topic {name!r}", partial(self._topic_nodes.reconcile, name))
                self._topics.discard(name)
            for chore in _AFTER_TOPICS:
                if chore in self._chores:
                    self._do(chore.value, self._actions[chore])
                    self._chores.discard(chore)
            self._look()

    def tidy(self) -> None:
        """Delete old notes. Called at intervals."""
        self._chores.add(Chore.CONFIG_CHANGES)

    def _look(self) -> None:
        """Take the flags and note the chores."""
        raised = self._flags.take()
        if self._session.session_id not in {0, self._session_id}:
            self._begin_session()
        self._reads.fired(raised.paths)
        for path in raised.paths:
            self._note(path)
        self._refresh(raised)

    def _note(self, path: str) -> None:
        chore = _BY_PATH.get(path)
        if chore is not None:
            self._chores.add(chore)
        elif path.startswith(f"{paths.TOPICS}/"):
            self._topics.add(paths.leaf(path))
        elif path.startswith(f"{paths.BROKER_IDS}/"):
            self._chores.add(Chore.BROKERS)

    def _refresh(self, raised: Raised) -> None:
        """Look up what has changed here."""
        if raised.brokers:
            self._chores.add(Chore.BROKERS)
        elif not raised.topics:
            return
        view = self._brokers.view(None if raised.brokers else raised.topics)
        self._view = view.brokers
        gone: dict[str, None] = (
            dict.fromkeys(self._topic_nodes.names() - view.topics.keys()) if raised.brokers else {}
        )
        self._topic_nodes.update({**gone, **view.topics})
        self._topics |= view.topics.keys() | gone.keys()

    def _begin_session(self) -> None:
        self._session_id = self._session.session_id
        self._reads.forget()
        self._broker_nodes.begin_session()
        self._topic_nodes.begin_session()
        self._chores |= set(Chore)
        self._topics |= self._topic_nodes.names()

    def _do(self, what: str, action: Callable[[], None]) -> None:
        try:
            action()
        except (*INTERRUPTED, NodeError, Conflict):
            raise
        except OttlaError as error:
            if not self._has_joined:
                raise
            log.error("%s: %s", what, error)

    def _join(self) -> None:
        self._broker_nodes.make_roots()
        there = self._broker_nodes.agree_on_cluster(self._cluster_id)
        if there != self._cluster_id:
            self._brokers.carry_out(JoinClusterOrder(there))
            self._cluster_id = there

    def _publish_brokers(self) -> None:
        self._broker_nodes.publish(self._view)
        self._topic_nodes.controller_epoch = self._broker_nodes.controller_epoch
        self._has_joined = True

    def _find_topics(self) -> None:
        self._topics |= self._topic_nodes.unsettled()
