"""Orders that Kafka's tools leave in ZooKeeper: topics to delete, config changes, elections, reassignments.

Each node is read, carried out as an order, and deleted: the tools wait for that, or refuse to write another.
An order that cannot be carried out is logged, and its node deleted too, as Kafka's controller does.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from ottla.broker.registration.orders import (
    DeleteTopicOrder,
    Order,
    PreferLeaderOrder,
    ReassignPartitionOrder,
)
from ottla.broker.registration.reads import WatchedReads
from ottla.broker.registration.topic_nodes import Brokers, TopicNodes
from ottla.model.errors import ConfigError, KafkaError, StorageError
from ottla.zookeeper import paths, recipes
from ottla.zookeeper.session import ZooKeeperSession
from ottla.zookeeper.topic_znodes import decode_config_change, decode_election, decode_reassignment
from ottla.zookeeper.zookeeper_errors import ZnodeError

log = logging.getLogger(__name__)

NOTE_LIFE_S = 15 * 60.0
"""How long notes of config changes stay, as in Kafka: other brokers may still want to read them."""


class AdminNodes:
    """Used by one thread."""

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
        """Delete the marked topics, then all their nodes."""
        for name in self._reads.children(paths.DELETE_TOPICS):
            try:
                paths.checked_topic(name)
            except ConfigError:
                recipes.delete_tree(self._session, paths.child(paths.DELETE_TOPICS, name))
                continue
            self._delete_topic(name)

    def _delete_topic(self, name: str) -> None:
        # Looked up again: what was known at the last flag may be out of date.
        view = self._brokers.view({name}).topics
        if view[name] is not None and not self._done(DeleteTopicOrder(name)):
            recipes.delete_tree(self._session, paths.delete_topic(name))
            return
        self._topics.update({name: None})
        self._topics.remove(name)

    # --- config changes

    def read_config_changes(self) -> None:
        """Use settings that have changed, and delete old notes.

        Notes that exist at the start are ignored: all settings are read after this.
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
        znode = recipes.read_if_present(self._session, path)
        if znode is None:
            return
        try:
            change = decode_config_change(path, znode.data)
        except ZnodeError as error:
            log.warning("this note is not used: %s", error)
            return
        if change.entity_type == "topics":
            self._topics.reconcile_config(change.entity_name)
        else:
            log.info("configs of %s %r in ZooKeeper are not used", change.entity_type, change.entity_name)

    # --- leaders

    def elect_preferred(self) -> None:
        """Make the first broker of each named partition its leader."""
        path = paths.PREFERRED_REPLICA_ELECTION
        data = self._read_order(path)
        if data is not None:
            try:
                for topic, partition in decode_election(path, data):
                    self._done(PreferLeaderOrder(topic, partition))
            except ZnodeError as error:
                log.error("this election is not held: %s", error)
            recipes.delete_if_present(self._session, path)

    def reassign(self) -> None:
        """Give partitions to other brokers; the assignment is written before the order's node is deleted."""
        path = paths.REASSIGN_PARTITIONS
        data = self._read_order(path)
        if data is not None:
            try:
                for topic, partition, replicas in decode_reassignment(path, data):
                    if self._done(ReassignPartitionOrder(topic, partition, replicas)):
                        self._topics.update(self._brokers.view({topic}).topics)
                        self._topics.reconcile(topic)
            except ZnodeError as error:
                log.error("this reassignment is not made: %s", error)
            recipes.delete_if_present(self._session, path)

    def _read_order(self, path: str) -> bytes | None:
        """Return what a tool has written into a node, which is watched; None if there is none."""
        if self._reads.exists(path) is None:
            return None
        znode = recipes.read_if_present(self._session, path)
        return None if znode is None else znode.data

    def _done(self, order: Order) -> bool:
        try:
            self._brokers.carry_out(order)
        except (KafkaError, StorageError) as error:
            log.error("%s in ZooKeeper was refused: %s", order, error)
            return False
        return True
