"""Wishes that Kafka's tools leave in ZooKeeper: topics to delete, config changes, elections, reassignments.

Each is read, made an order, and taken away: the tools wait for the node to go, or refuse to leave another.
An order that cannot be carried out is logged and taken away as well, as Kafka's controller does.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from ottla.broker.registration.orders import DeleteTopic, Order, PreferLeader, ReassignPartition
from ottla.broker.registration.reads import WatchedReads
from ottla.broker.registration.topic_nodes import Brokers, TopicNodes
from ottla.model.errors import ConfigError, KafkaError, StorageError
from ottla.zookeeper import paths, recipes
from ottla.zookeeper.errors import ZnodeError
from ottla.zookeeper.session import ZooKeeperSession
from ottla.zookeeper.topic_znodes import decode_config_change, decode_election, decode_reassignment

log = logging.getLogger(__name__)

NOTE_LIFE_S = 15 * 60.0
"""How long notes of config changes stay, as in Kafka: other brokers may still want to read them."""


class AdminNodes:
    """Of one thread."""

    def __init__(
        self,
        session: ZooKeeperSession,
        reads: WatchedReads,
        brokers: Brokers,
        topics: TopicNodes,
        clock: Callable[[], float],
    ) -> None:
        self._session = session
        self._reads = reads
        self._brokers = brokers
        self._topics = topics
        self._clock = clock
        self._notes: dict[str, float] | None = None  # when each was seen first

    # --- topics to delete

    def delete_topics(self) -> None:
        """Delete what is marked, then everything about it."""
        for name in self._reads.children(paths.DELETE_TOPICS):
            try:
                paths.checked_topic(name)
            except ConfigError:
                recipes.delete_tree(self._session, paths.child(paths.DELETE_TOPICS, name))
                continue
            self._delete_topic(name)

    def _delete_topic(self, name: str) -> None:
        # Asked anew: what it was when the last flag came may be out of date.
        view = self._brokers.view({name}).topics
        if view[name] is not None and not self._done(DeleteTopic(name)):
            recipes.delete_tree(self._session, paths.delete_topic(name))
            return
        self._topics.update({name: None})
        self._topics.remove(name)

    # --- config changes

    def read_config_changes(self) -> None:
        """Use configs that changed, and take away notes that have had their time.

        Of the notes that are there at the start none is news: the configs themselves are read after this.
        """
        names = sorted(self._reads.children(paths.CONFIG_CHANGES))
        seen = self._notes
        now = self._clock()
        self._notes = {name: now if seen is None else seen.get(name, now) for name in names}
        if seen is None:
            return
        for name in names:
            if name not in seen:
                self._read_config_change(paths.child(paths.CONFIG_CHANGES, name))
            elif now - seen[name] > NOTE_LIFE_S:
                recipes.delete_if_present(self._session, paths.child(paths.CONFIG_CHANGES, name))

    def _read_config_change(self, path: str) -> None:
        found = recipes.read_if_present(self._session, path)
        if found is None:
            return
        try:
            change = decode_config_change(path, found.data)
        except ZnodeError as error:
            log.warning("this note is not used: %s", error)
            return
        if change.entity_type == "topics":
            self._topics.reconcile_config(change.entity_name)
        else:
            log.info("configs of %s %r in ZooKeeper are not used", change.entity_type, change.entity_name)

    # --- leaders

    def elect_preferred(self) -> None:
        """Let partitions be led by the first of their brokers."""
        path = paths.PREFERRED_REPLICA_ELECTION
        if self._reads.exists(path) is None:
            return
        found = recipes.read_if_present(self._session, path)
        if found is not None:
            try:
                for topic, partition in decode_election(path, found.data):
                    self._done(PreferLeader(topic, partition))
            except ZnodeError as error:
                log.error("this election is not held: %s", error)
            recipes.delete_if_present(self._session, path)

    def reassign(self) -> None:
        """Give partitions to other brokers; the assignment is written before the wish is taken away."""
        path = paths.REASSIGN_PARTITIONS
        if self._reads.exists(path) is None:
            return
        found = recipes.read_if_present(self._session, path)
        if found is not None:
            try:
                for topic, partition, replicas in decode_reassignment(path, found.data):
                    if self._done(ReassignPartition(topic, partition, replicas)):
                        self._topics.update(self._brokers.view({topic}).topics)
                        self._topics.reconcile(topic)
            except ZnodeError as error:
                log.error("this reassignment is not made: %s", error)
            recipes.delete_if_present(self._session, path)

    def _done(self, order: Order) -> bool:
        try:
            self._brokers.carry_out(order)
        except (KafkaError, StorageError) as error:
            log.error("%s in ZooKeeper was refused: %s", order, error)
            return False
        return True
