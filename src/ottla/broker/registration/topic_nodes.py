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
keeps its version and topic id. A partition that never had a leader has no state, as in Kafka. What is in sync
is what is up; if nothing is, the last ones stay in the list, as in Kafka.
"""

from __future__ import annotations

import base64
import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Protocol

from ottla.broker.catalog import Replicas
from ottla.broker.cluster import INTERNAL_TOPICS
from ottla.broker.partition import NO_LEADER
from ottla.broker.registration.orders import ConfigureTopic, CreateTopic, GrowTopic, Order
from ottla.broker.registration.reads import WatchedReads
from ottla.broker.registration.view import ClusterView, PartitionView, TopicView
from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError
from ottla.zookeeper import paths, recipes
from ottla.zookeeper.errors import ZnodeError
from ottla.zookeeper.session import CreateMode, CreateOperation, Operation, Znode, ZooKeeperSession
from ottla.zookeeper.topic_znodes import (
    ConfigChange,
    PartitionState,
    TopicAssignment,
    decode_assignment,
    decode_config,
    decode_partition_state,
    encode_assignment,
    encode_config,
    encode_config_change,
    encode_partition_state,
)

log = logging.getLogger(__name__)

OPERATIONS_AT_ONCE = 1000
"""Of one transaction: far below ZooKeeper's limit of 1 MB a request."""

States = dict[int, PartitionState | None]


class Brokers(Protocol):
    """The brokers' side, asked from the thread that works on ZooKeeper."""

    def view(self, names: set[str] | None) -> ClusterView:
        """What there is now; of all topics for None."""

    def carry_out(self, order: Order) -> None:
        """Have the loop do it; raises what that raises."""


class TopicNodes:
    """Of one thread."""

    def __init__(self, session: ZooKeeperSession, reads: WatchedReads, brokers: Brokers) -> None:
        self._session = session
        self._reads = reads
        self._brokers = brokers
        self._here: dict[str, TopicView] = {}
        self._known: dict[str, bytes] = {}  # ids of the topics that are in ZooKeeper because of us
        self._agreed: dict[str, Mapping[str, str]] = {}  # configs that both sides have
        self._states: dict[str, States] = {}  # as they stand in ZooKeeper
        self._refused: dict[str, int] = {}  # versions of topics that cannot be made here
        self.controller_epoch = 0

    def begin_session(self) -> None:
        """What stands in ZooKeeper has to be read again."""
        self._states.clear()

    def update(self, topics: Mapping[str, TopicView | None]) -> None:
        """Topics have changed here."""
        for name, view in topics.items():
            if view is None:
                self._here.pop(name, None)
            else:
                self._here[name] = view

    def names(self) -> set[str]:
        """All topics that are here, or were when ZooKeeper was last told."""
        return self._here.keys() | self._known.keys()

    def unsettled(self) -> set[str]:
        """Topics that are on one side only."""
        return set(self._reads.children(paths.TOPICS)) ^ (self._here.keys() & self._known.keys())

    def reconcile(self, name: str) -> None:
        """Bring both sides into agreement; see the module."""
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

    def _publish(self, name: str, here: TopicView) -> None:
        found = self._reads.get(paths.topic(name))
        there = _readable(name, found)
        if there is not None and len(there.partitions) > len(here.partitions) and name not in INTERNAL_TOPICS:
            here = self._grow(name, here, there)
        if found is None:
            recipes.write_persistent(self._session, paths.topic_config(name), encode_config(here.overrides))
            self._agreed[name] = here.overrides
        else:
            here = self._publish_config(name, here)
        self._write(name, here, found, there)
        self._known[name] = here.topic_id
        if found is None:
            self._publish(name, here)  # a second look leaves the watch that a missing node could not have

    def _grow(self, name: str, here: TopicView, there: TopicAssignment) -> TopicView:
        count = len(here.partitions)
        try:
            self._brokers.carry_out(GrowTopic(name, count, _replicas(there)[count:]))
        except KafkaError as error:
            log.error(
                "topic %r in ZooKeeper has %d partitions, here %d: %s",
                name,
                len(there.partitions),
                count,
                error,
            )
        return self._refreshed(name, here)

    def _refreshed(self, name: str, before: TopicView) -> TopicView:
        """The topic as it is after an order. If it has gone meanwhile, the next turn sees to that."""
        self.update(self._brokers.view({name}).topics)
        return self._here.get(name, before)

    def _write(self, name: str, here: TopicView, found: Znode | None, there: TopicAssignment | None) -> None:
        """Write assignment and states; what is missing in one transaction, so that a topic comes whole."""
        missing: list[Operation] = []
        wanted = TopicAssignment(dict(enumerate(here.replicas)))
        if found is None:
            missing.append(CreateOperation(paths.topic(name), encode_assignment(wanted)))
            self._states.pop(name, None)
        elif there is None or _replicas(there) != here.replicas:
            if there is not None:
                wanted = replace(wanted, version=there.version, topic_id=there.topic_id)
            self._session.set(paths.topic(name), encode_assignment(wanted))
        # Out of what is known until it is written: after a lost answer it has to be read.
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
            found = recipes.read_if_present(self._session, path)
            try:
                states[int(child)] = decode_partition_state(path, found.data) if found else None
            except ZnodeError as error:
                log.warning("written anew: %s", error)
                states[int(child)] = None
        return states

    def _state(self, view: PartitionView, before: PartitionState | None) -> PartitionState | None:
        if before is None and view.leader == NO_LEADER:
            return None
        in_sync = view.in_sync or (before.isr if before else ())
        if before is not None and (before.leader, before.leader_epoch, before.isr) == (
            view.leader,
            view.leader_epoch,
            in_sync,
        ):
            return before
        return PartitionState(view.leader, view.leader_epoch, self.controller_epoch, in_sync)

    # --- there but not here

    def _adopt(self, name: str) -> None:
        found = self._reads.get(paths.topic(name))
        if found is None or self._refused.get(name) == found.stat.modified_zxid:
            return
        self._refused[name] = found.stat.modified_zxid
        there = _readable(name, found)
        if there is None:
            return
        overrides = self._config(name) or {}
        topic_id = base64.urlsafe_b64decode(there.topic_id + "==") if there.topic_id else b""
        try:
            self._brokers.carry_out(CreateTopic(name, _replicas(there), overrides, topic_id))
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
        """Somebody says that a topic's config has changed in ZooKeeper."""
        here = self._here.get(name)
        if here is None or here.overrides != self._agreed.get(name):
            return  # new, or changed here as well: the next turn settles it
        found = self._config(name) or {}
        if found != here.overrides:
            self._configure(name, here, found)

    def _publish_config(self, name: str, here: TopicView) -> TopicView:
        if name not in self._agreed:
            found = self._config(name)
            if found is not None and found != here.overrides:
                return self._configure(name, here, found)
            if found is None:
                recipes.write_persistent(
                    self._session, paths.topic_config(name), encode_config(here.overrides)
                )
        elif here.overrides != self._agreed[name]:
            recipes.write_persistent(self._session, paths.topic_config(name), encode_config(here.overrides))
            note = encode_config_change(ConfigChange("topics", name))
            self._session.create(paths.config_change(), note, CreateMode.PERSISTENT_SEQUENTIAL)
        self._agreed[name] = here.overrides
        return here

    def _configure(self, name: str, here: TopicView, overrides: Mapping[str, str]) -> TopicView:
        self._brokers.carry_out(ConfigureTopic(name, overrides))
        here = self._refreshed(name, here)
        self._agreed[name] = here.overrides
        return here

    def _config(self, name: str) -> dict[str, str] | None:
        path = paths.topic_config(name)
        found = recipes.read_if_present(self._session, path)
        try:
            return decode_config(path, found.data) if found else None
        except ZnodeError as error:
            log.error("these settings are not used: %s", error)
            return None


def _readable(name: str, found: Znode | None) -> TopicAssignment | None:
    """The assignment, if partitions 0, 1, 2, … stand in it."""
    if found is None:
        return None
    path = paths.topic(name)
    try:
        assignment = decode_assignment(path, found.data)
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
