"""Topics and configs through ZooKeeper, znode by znode as AdminUtils of Kafka 0.9 writes them.

The brokers' controller watches these znodes and does the work; a call returns when they are written. Nothing
here connects to a broker.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace

from ottla.admin.old_topic_configs import check_configs, check_names
from ottla.admin.replica_assignment import Assignment, assign_replicas, check_assignment
from ottla.admin.topic_values import NewPartitions, NewTopic, TopicCreation, config_text
from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError, Unsupported
from ottla.model.topic_partition import INTERNAL_TOPICS
from ottla.zookeeper import paths
from ottla.zookeeper.broker_znodes import decode_broker
from ottla.zookeeper.recipes import (
    broker_ids,
    children_if_present,
    read_if_present,
    topic_names,
    write_persistent,
)
from ottla.zookeeper.session import CreateMode, ZooKeeperSession
from ottla.zookeeper.topic_znodes import (
    DELETE_MARKER,
    ConfigChange,
    TopicAssignment,
    decode_assignment,
    decode_config,
    encode_assignment,
    encode_config,
    encode_config_change,
)
from ottla.zookeeper.zookeeper_errors import BadVersion, NodeExists

TOPICS, CLIENTS, BROKERS = "topics", "clients", "brokers"
_REGISTRATION_0_8 = 1


class ZooKeeperTopics:
    """Uses a session that it does not own. `chance` chooses the first broker of a new topic's replicas."""

    def __init__(self, session: ZooKeeperSession, chance: random.Random | None = None) -> None:
        self._session = session
        self._chance = chance or random.Random()

    # --- topics

    def create(self, topic: NewTopic, *, validate_only: bool) -> TopicCreation:
        """Write the configs, then the assignment. Raises KafkaError, Unsupported, ZooKeeperError."""
        path = paths.topic(topic.name)
        self._check_new(topic.name)
        configs = {name: config_text(value) for name, value in topic.configs.items()}
        check_configs(configs)
        assignment = self._assignment(topic)
        creation = TopicCreation(topic.name, len(assignment), len(assignment[0]))
        if validate_only:
            return creation
        write_persistent(self._session, paths.topic_config(topic.name), encode_config(configs))
        try:
            self._session.create_with_parents(path, encode_assignment(TopicAssignment(assignment)))
        except NodeExists:
            raise KafkaError(Code.TOPIC_ALREADY_EXISTS, f"topic {topic.name!r}") from None
        return creation

    def _check_new(self, name: str) -> None:
        if self._session.exists(paths.topic(name)) is not None:
            raise KafkaError(Code.TOPIC_ALREADY_EXISTS, f"topic {name!r}")
        # In the names of metrics a dot becomes an underscore, so such topics could not be distinguished.
        flat = name.replace(".", "_")
        for other in self.names() if "_" in flat else ():
            if other.replace(".", "_") == flat:
                raise KafkaError(Code.INVALID_TOPIC_EXCEPTION, f"topic {name!r} collides with {other!r}")

    def _assignment(self, topic: NewTopic) -> Assignment:
        brokers = self.broker_ids()
        if topic.assignment is not None:
            return check_assignment(topic.assignment, brokers)
        if topic.partitions is None or topic.replication_factor is None:
            raise Unsupported(
                f"topic {topic.name!r}: brokers before 2.4 cannot be asked for their defaults; give "
                "partitions and replication_factor, or an assignment"
            )
        spread = max(1, len(brokers))
        return assign_replicas(
            brokers,
            partitions=topic.partitions,
            replication_factor=topic.replication_factor,
            start=self._chance.randrange(spread),
            shift=self._chance.randrange(spread),
        )

    def delete(self, name: str) -> None:
        """Mark a topic for deletion: the controller deletes it unless delete.topic.enable=false."""
        if name in INTERNAL_TOPICS:
            raise KafkaError(
                Code.INVALID_TOPIC_EXCEPTION, f"topic {name!r} is internal to Kafka, and cannot be deleted"
            )
        if self._session.exists(paths.topic(name)) is None:
            raise KafkaError(Code.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name!r}")
        try:
            self._session.create_with_parents(paths.delete_topic(name), DELETE_MARKER)
        except NodeExists:
            raise KafkaError(
                Code.INVALID_REQUEST,
                f"topic {name!r} is marked for deletion already; if it stays, the brokers run with "
                "delete.topic.enable=false",
            ) from None

    def add_partitions(self, wanted: NewPartitions, *, validate_only: bool) -> int:
        """Replace the assignment by one with more partitions; return their new number."""
        if wanted.topic in INTERNAL_TOPICS:
            raise KafkaError(
                Code.INVALID_PARTITIONS,
                f"topic {wanted.topic!r} is internal to Kafka, and keeps its partitions",
            )
        path = paths.topic(wanted.topic)
        znode = read_if_present(self._session, path)
        if znode is None:
            raise KafkaError(Code.UNKNOWN_TOPIC_OR_PARTITION, f"topic {wanted.topic!r}")
        present = decode_assignment(path, znode.data)
        grown = grown_assignment(present, wanted, self.broker_ids())
        if not validate_only:
            try:
                self._session.set(path, encode_assignment(grown), znode.stat.version)
            except BadVersion:
                raise KafkaError(
                    Code.INVALID_REQUEST, f"topic {wanted.topic!r} was changed by another; try again"
                ) from None
        return len(grown.partitions)

    def names(self) -> tuple[str, ...]:
        """Return the names of all topics."""
        return topic_names(self._session)

    def marked_for_deletion(self) -> frozenset[str]:
        """Return the topics that are marked for deletion."""
        return frozenset(children_if_present(self._session, paths.DELETE_TOPICS))

    def broker_ids(self) -> tuple[int, ...]:
        """Return the ids of the running brokers, sorted."""
        return broker_ids(self._session)

    # --- configs

    def configs(self, entity_type: str, name: str) -> dict[str, str]:
        """Return the settings of a topic or a client. Raises KafkaError if the topic does not exist."""
        self._check_entity(entity_type, name)
        path = paths.entity_config(entity_type, name)
        znode = read_if_present(self._session, path)
        return decode_config(path, znode.data) if znode is not None else {}

    def alter_configs(
        self, entity_type: str, name: str, changes: Mapping[str, str | None], *, validate_only: bool
    ) -> None:
        """Set settings, remove those with None, and notify the brokers."""
        present = self.configs(entity_type, name)
        if entity_type == TOPICS:
            check_names(changes)
        # All settings are checked, as in Kafka: a wrong value of another tool would stop a broker too.
        merged = {**present, **{key: value for key, value in changes.items() if value is not None}}
        merged = {key: value for key, value in merged.items() if changes.get(key, value) is not None}
        if entity_type == TOPICS:
            check_configs(merged)
        if validate_only:
            return
        write_persistent(self._session, paths.entity_config(entity_type, name), encode_config(merged))
        note = encode_config_change(ConfigChange(entity_type, name, self._note_version(entity_type)))
        self._session.create_with_parents(paths.config_change(), note, CreateMode.PERSISTENT_SEQUENTIAL)

    def _check_entity(self, entity_type: str, name: str) -> None:
        if entity_type == BROKERS:
            raise Unsupported(
                f"broker {name!r}: the settings of brokers before 0.11 are in their server.properties only; "
                "change them there and restart the broker"
            )
        if entity_type == TOPICS and self._session.exists(paths.topic(name)) is None:
            raise KafkaError(Code.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name!r}")

    def _note_version(self, entity_type: str) -> int:
        """Return the version of the notification: 0.8 reads only the name of a topic, later brokers the
        format of 0.9.
        """
        if entity_type != TOPICS:
            return 1
        for number in self.broker_ids():
            path = paths.broker(number)
            znode = read_if_present(self._session, path)
            if znode is not None and decode_broker(path, znode.data).version == _REGISTRATION_0_8:
                return 0
        return 1


def grown_assignment(
    present: TopicAssignment, wanted: NewPartitions, brokers: tuple[int, ...]
) -> TopicAssignment:
    """Return the assignment with the new partitions. Raises KafkaError."""
    count = len(present.partitions)
    if wanted.total <= count:
        raise KafkaError(
            Code.INVALID_PARTITIONS,
            f"topic {wanted.topic!r} has {count} partitions, and {wanted.total} is not more",
        )
    first = present.partitions[min(present.partitions)]
    if wanted.assignment is None:
        # Kafka 0.9 begins at the id of the first replica, as if it were an index.
        added = assign_replicas(
            brokers,
            partitions=wanted.total - count,
            replication_factor=len(first),
            start=first[0],
            shift=first[0],
            first_partition=count,
        )
    else:
        added = check_assignment(dict(enumerate(wanted.assignment, count)), brokers)
        if len(added) != wanted.total - count or any(
            len(replicas) != len(first) for replicas in added.values()
        ):
            raise KafkaError(
                Code.INVALID_REPLICA_ASSIGNMENT,
                f"topic {wanted.topic!r}: {wanted.total - count} new partitions of {len(first)} replicas "
                f"each are expected, not {[list(replicas) for replicas in added.values()]}",
            )
    return replace(present, partitions={**present.partitions, **added})
