"""The nodes of topics: assignment, partition states, configs. One topic at a time is brought into agreement.

    here          in ZooKeeper     what is done
    ─────────────────────────────────────────────────────────────────────────────────────
    a topic       nothing          written: config, assignment, states
    a topic       fewer, others    written: what exists here is the truth
    a topic       more partitions  added here: a tool has altered the topic
    nothing       known before     deleted there: it was deleted here
    nothing       new              made here: a tool has created it

Configs go both ways: a change here that is not written yet is written, else what ZooKeeper says is used.
Internal topics are made here only.

Assignments have version 1, which 0.9 writes and everything up to 3.9 reads; a node that a newer tool wrote
keeps its version and topic id. A partition that never had a leader has no state, as in Kafka. The in-sync
list has the brokers that are up; if none is up, the last list stays, as in Kafka.
"""

from __future__ import annotations

import base64
import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Protocol

from ottla.broker.registration.orders import ConfigureTopicOrder, CreateTopicOrder, GrowTopicOrder, Order
from ottla.broker.registration.reads import WatchedReads
from ottla.broker.registration.view import RegisteredPartition, RegisteredTopic, RegisteredView
from ottla.broker.storage.catalog import Replicas
from ottla.broker.storage.partition import NO_LEADER
from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError
from ottla.model.topic_partition import INTERNAL_TOPICS
from ottla.zookeeper import paths, recipes
from ottla.zookeeper.session import CreateMode, CreateOperation, Operation, Znode, ZooKeeperSession
from ottla.zookeeper.topic_znodes import (
    ConfigChange,
    PartitionStateZnode,
    TopicAssignment,
    decode_assignment,
    decode_config,
    decode_partition_state,
    encode_assignment,
    encode_config,
    encode_config_change,
    encode_partition_state,
)
from ottla.zookeeper.zookeeper_errors import ZnodeError

log = logging.getLogger(__name__)

OPERATIONS_AT_ONCE = 1000
"""The operations of one transaction: far below ZooKeeper's limit of 1 MB per request."""

States = dict[int, PartitionStateZnode | None]


class Brokers(Protocol):
    """The brokers, as the thread that works on ZooKeeper sees them."""

    def view(self, names: set[str] | None) -> RegisteredView:
        """Return the present state of the named topics, or of all for None."""

    def carry_out(self, order: Order) -> None:
        """Have the loop carry out an order. Raises what that raises."""


class TopicNodes:
    """Used by one thread."""

    def __init__(self, session: ZooKeeperSession, reads: WatchedReads, brokers: Brokers) -> None:
        self._session = session
        self._reads = reads
        self._brokers = brokers
        self._here: dict[str, RegisteredTopic] = {}
        self._known: dict[str, bytes] = {}  # ids of topics that we have written to ZooKeeper
        self._agreed: dict[str, Mapping[str, str]] = {}  # configs that both sides have
        self._states: dict[str, States] = {}  # the partition states that ZooKeeper has
        self._refused: dict[str, int] = {}  # versions of topics that cannot be created here
        self.controller_epoch = 0

    def begin_session(self) -> None:
        """Forget what ZooKeeper has: it must be read again."""
        self._states.clear()

    def update(self, topics: Mapping[str, RegisteredTopic | None]) -> None:
        """Note topics that have changed here; None for a deleted one."""
        for name, view in topics.items():
            if view is None:
                self._here.pop(name, None)
            else:
                self._here[name] = view

    def names(self) -> set[str]:
        """Return all topics that are here, or were when ZooKeeper was last written."""
        return self._here.keys() | self._known.keys()

    def unsettled(self) -> set[str]:
        """Return the topics that are on one side only."""
        return set(self._reads.children(paths.TOPICS)) ^ (self._here.keys() & self._known.keys())

    def reconcile(self, name: str) -> None:
        """Bring both sides of a topic into agreement, as the module's table says."""
        here, known = self._here.get(name), self._known.get(name)
        if known is not None and (here is None or here.topic_id != known):
            self.remove(name)
        if here is not None:
            self._publish(name, here)
        elif known is None and name not in INTERNAL_TOPICS:
            self._adopt(name)

    def remove(self, name: str) -> None:
        """Delete everything about a topic, in the order of Kafka's controller."""
        recipes.delete_tree(self._session, paths.topic(name))
        recipes.delete_tree(self._session, paths.topic_config(name))
        recipes.delete_tree(self._session, paths.delete_topic(name))
        for kept in (self._known, self._agreed, self._states):
            kept.pop(name, None)

    # --- here but not there, or on both sides

    def _publish(self, name: str, here: RegisteredTopic) -> None:
        znode = self._reads.get(paths.topic(name))
        there = _readable(name, znode)
        if there is not None and len(there.partitions) > len(here.partitions) and name not in INTERNAL_TOPICS:
            here = self._grow(name, here, there)
        if znode is None:
            recipes.write_persistent(self._session, paths.topic_config(name), encode_config(here.overrides))
            self._agreed[name] = here.overrides
        else:
            here = self._publish_config(name, here)
        self._write(name, here, znode, there)
        self._known[name] = here.topic_id
        if znode is None:
            self._publish(name, here)  # a second look leaves the watch that a missing node could not have

    def _grow(self, name: str, here: RegisteredTopic, there: TopicAssignment) -> RegisteredTopic:
        count = len(here.partitions)
        try:
            self._brokers.carry_out(GrowTopicOrder(name, count, _replicas(there)[count:]))
        except KafkaError as error:
            log.error(
                "topic %r in ZooKeeper has %d partitions, here %d: %s",
                name,
                len(there.partitions),
                count,
                error,
            )
        return self._refreshed(name, here)

    def _refreshed(self, name: str, before: RegisteredTopic) -> RegisteredTopic:
        """Return the topic as it is after an order. If it is gone, the next turn handles that."""
        self.update(self._brokers.view({name}).topics)
        return self._here.get(name, before)

    def _write(
        self, name: str, here: RegisteredTopic, znode: Znode | None, there: TopicAssignment | None
    ) -> None:
        """Write assignment and states; create missing nodes in one transaction, so a topic appears whole."""
        missing: list[Operation] = []
        wanted = TopicAssignment(dict(enumerate(here.replicas)))
        if znode is None:
            missing.append(CreateOperation(paths.topic(name), encode_assignment(wanted)))
            self._states.pop(name, None)
        elif there is None or _replicas(there) != here.replicas:
            if there is not None:
                wanted = replace(wanted, version=there.version, topic_id=there.topic_id)
            self._session.set(paths.topic(name), encode_assignment(wanted))
        # Forgotten until it is written: after a lost answer it has to be read again.
        states = self._states.pop(name, None)
        if states is None:
            states = self._read_states(name)
        for index, partition in enumerate(here.partitions):
            state = self._state(partition, states.get(index))
            if state is None or state == states.get(index):
                continue
            path, data = paths.partition_state(name, index), encode_partition_state(state)
            if index in states:
                recipes.write_persistent(self._session, path, data)
            else:
                missing += [CreateOperation(paths.partition(name, index)), CreateOperation(path, data)]
            states[index] = state
        self._create(name, missing)
        self._states[name] = states

    def _create(self, name: str, missing: list[Operation]) -> None:
        is_new = bool(missing) and missing[0].path == paths.topic(name)
        has_states = len(missing) > int(is_new)
        if has_states and self._session.exists(paths.partitions(name)) is None:
            missing.insert(int(is_new), CreateOperation(paths.partitions(name)))
        for start in range(0, len(missing), OPERATIONS_AT_ONCE):
            self._session.commit(missing[start : start + OPERATIONS_AT_ONCE])

    def _read_states(self, name: str) -> States:
        states: States = {}
        for child in recipes.children_if_present(self._session, paths.partitions(name)):
            if not child.isdecimal():
                continue
            path = paths.partition_state(name, int(child))
            znode = recipes.read_if_present(self._session, path)
            try:
                states[int(child)] = decode_partition_state(path, znode.data) if znode else None
            except ZnodeError as error:
                log.warning("written anew: %s", error)
                states[int(child)] = None
        return states

    def _state(
        self, view: RegisteredPartition, before: PartitionStateZnode | None
    ) -> PartitionStateZnode | None:
        if before is None and view.leader == NO_LEADER:
            return None
        in_sync = view.in_sync or (before.isr if before else ())
        if before is not None and (before.leader, before.leader_epoch, before.isr) == (
            view.leader,
            view.leader_epoch,
            in_sync,
        ):
            return before
        return PartitionStateZnode(view.leader, view.leader_epoch, self.controller_epoch, in_sync)

    # --- there but not here

    def _adopt(self, name: str) -> None:
        znode = self._reads.get(paths.topic(name))
        if znode is None or self._refused.get(name) == znode.stat.modified_zxid:
            return
        self._refused[name] = znode.stat.modified_zxid
        there = _readable(name, znode)
        if there is None:
            return
        overrides = self._config(name) or {}
        topic_id = base64.urlsafe_b64decode(there.topic_id + "==") if there.topic_id else b""
        try:
            self._brokers.carry_out(CreateTopicOrder(name, _replicas(there), overrides, topic_id))
        except KafkaError as error:
            if error.code != Code.TOPIC_ALREADY_EXISTS:
                raise
        del self._refused[name]
        log.info("topic %r was created in ZooKeeper, with %d partitions", name, len(there.partitions))
        self.update(self._brokers.view({name}).topics)
        if name in self._here:
            self._agreed[name] = self._here[name].overrides
            self._publish(name, self._here[name])

    # --- configs

    def reconcile_config(self, name: str) -> None:
        """Use a topic's settings in ZooKeeper: a note says that they have changed."""
        here = self._here.get(name)
        if here is None or here.overrides != self._agreed.get(name):
            return  # new, or changed here as well: the next turn settles it
        overrides = self._config(name) or {}
        if overrides != here.overrides:
            self._configure(name, here, overrides)

    def _publish_config(self, name: str, here: RegisteredTopic) -> RegisteredTopic:
        if name not in self._agreed:
            overrides = self._config(name)
            if overrides is not None and overrides != here.overrides:
                return self._configure(name, here, overrides)
            if overrides is None:
                recipes.write_persistent(
                    self._session, paths.topic_config(name), encode_config(here.overrides)
                )
        elif here.overrides != self._agreed[name]:
            recipes.write_persistent(self._session, paths.topic_config(name), encode_config(here.overrides))
            note = encode_config_change(ConfigChange("topics", name))
            self._session.create(paths.config_change(), note, CreateMode.PERSISTENT_SEQUENTIAL)
        self._agreed[name] = here.overrides
        return here

    def _configure(self, name: str, here: RegisteredTopic, overrides: Mapping[str, str]) -> RegisteredTopic:
        self._brokers.carry_out(ConfigureTopicOrder(name, overrides))
        here = self._refreshed(name, here)
        self._agreed[name] = here.overrides
        return here

    def _config(self, name: str) -> dict[str, str] | None:
        path = paths.topic_config(name)
        znode = recipes.read_if_present(self._session, path)
        try:
            return decode_config(path, znode.data) if znode else None
        except ZnodeError as error:
            log.error("these settings are not used: %s", error)
            return None


def _readable(name: str, znode: Znode | None) -> TopicAssignment | None:
    """Return the assignment; None if it cannot be read or its partitions are not 0, 1, 2, …"""
    if znode is None:
        return None
    path = paths.topic(name)
    try:
        assignment = decode_assignment(path, znode.data)
        if not assignment.partitions or list(assignment.partitions) != list(
            range(len(assignment.partitions))
        ):
            raise ZnodeError(path, f"partitions are not 0, 1, 2, …: {list(assignment.partitions)[:20]}")
    except ZnodeError as error:
        log.error("this assignment is not used: %s", error)
        return None
    return assignment


def _replicas(assignment: TopicAssignment) -> tuple[Replicas, ...]:
    return tuple(assignment.partitions.values())
