"""What the controller and the admin tools write about topics: assignment, partition state, configs, notes.

Assignments have versions 1 (to 2.3), 2 (adding and removing replicas, 2.4) and 3 (topic id, 2.8); config
changes have three forms (0.8, 0.9, 0.10.1). Partition ids are strings in JSON and numbers here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ottla.model.errors import ConfigError
from ottla.model.java_hashes import java_hash
from ottla.zookeeper.paths import checked_topic
from ottla.zookeeper.scala_order import assignment_order, immutable_order
from ottla.zookeeper.znode_json import (
    INT_MAX,
    Fields,
    decode_fields,
    decode_value,
    encode_json,
    shown,
)
from ottla.zookeeper.zookeeper_errors import ZnodeError

NO_LEADER = -1
DELETE_MARKER = b""
"""Data of /admin/delete_topics/<topic>: only the existence of the node counts."""

Replicas = Mapping[int, tuple[int, ...]]


@dataclass(frozen=True)
class TopicAssignment:
    """Replicas of each partition, the preferred leader first."""

    partitions: Replicas
    version: int = 1
    adding_replicas: Replicas = field(default_factory=dict)
    removing_replicas: Replicas = field(default_factory=dict)
    topic_id: str | None = None


@dataclass(frozen=True)
class PartitionStateZnode:
    """Leader and in-sync replicas of one partition."""

    leader: int
    leader_epoch: int
    controller_epoch: int
    isr: tuple[int, ...]
    leader_recovery_state: int = 0


@dataclass(frozen=True)
class ConfigChange:
    """A note that the configs of `entity_name`, of `entity_type` (topics, clients, …), changed.

    `version` 0 is the bare topic name of 0.8, 1 the form of 0.9, 2 the path of 0.10.1 and later.
    """

    entity_type: str
    entity_name: str
    version: int = 1


def encode_assignment(assignment: TopicAssignment) -> bytes:
    """Encode version 1 as 0.9.0.1 writes it, 3 as 3.9 does."""
    partitions = _encoded_replicas(assignment.partitions)
    if assignment.version == 1:
        return encode_json({"version": 1, "partitions": partitions})
    adding = _encoded_replicas(assignment.adding_replicas)
    removing = _encoded_replicas(assignment.removing_replicas)
    if assignment.version == 2:
        return encode_json(
            {
                "version": 2,
                "partitions": partitions,
                "adding_replicas": adding,
                "removing_replicas": removing,
            }
        )
    if assignment.version != 3 or assignment.topic_id is None:
        raise ConfigError(f"topic assignments have versions 1, 2, and 3 with a topic id: {assignment}")
    return encode_json(
        {
            "removing_replicas": removing,
            "partitions": partitions,
            "topic_id": assignment.topic_id,
            "adding_replicas": adding,
            "version": 3,
        }
    )


def _encoded_replicas(replicas: Replicas) -> dict[str, list[int]]:
    if sorted(replicas) == list(range(len(replicas))):
        order = assignment_order(len(replicas))
    else:
        order = immutable_order(sorted(replicas), lambda number: java_hash(str(number)))
    return {str(partition): list(replicas[partition]) for partition in order}


def decode_assignment(path: str, data: bytes) -> TopicAssignment:
    """Return the assignment with partitions in numeric order. Raises ZnodeError.

    Like Kafka 0.9 it needs only `partitions`: a node without `version` counts as version 1, and one of a
    newer version is read by the fields that are known.
    """
    fields = decode_fields(path, data)
    version = fields.version(range(1, INT_MAX + 1), default=1)
    return TopicAssignment(
        partitions=_replicas(fields, "partitions"),
        version=version,
        adding_replicas=_replicas(fields, "adding_replicas") if fields.has("adding_replicas") else {},
        removing_replicas=_replicas(fields, "removing_replicas") if fields.has("removing_replicas") else {},
        topic_id=fields.text("topic_id") if fields.has("topic_id") else None,
    )


def _replicas(fields: Fields, name: str) -> dict[int, tuple[int, ...]]:
    inner = fields.nested(name)
    replicas = {}
    for key in inner.names():
        # "01" would be a second name of partition 1.
        if not (key.isascii() and key.isdigit() and key == str(int(key[:11])) and int(key) <= INT_MAX):
            raise ZnodeError(fields.path, f"a key of {name!r} is not a partition number: {shown(key)}")
        replicas[int(key)] = inner.integers(key)
    return dict(sorted(replicas.items()))


def encode_partition_state(state: PartitionStateZnode) -> bytes:
    """Return version 1, the only one; the recovery state is written only if it is not 0."""
    fields: dict[str, object] = {
        "controller_epoch": state.controller_epoch,
        "leader": state.leader,
        "version": 1,
        "leader_epoch": state.leader_epoch,
        "isr": list(state.isr),
    }
    if state.leader_recovery_state:
        fields["leader_recovery_state"] = state.leader_recovery_state
    return encode_json(fields)


def decode_partition_state(path: str, data: bytes) -> PartitionStateZnode:
    """Decode leader, epochs and in-sync replicas. Raises ZnodeError."""
    fields = decode_fields(path, data)
    fields.version({1})
    recovery = "leader_recovery_state"
    return PartitionStateZnode(
        leader=fields.integer("leader"),
        leader_epoch=fields.integer("leader_epoch"),
        controller_epoch=fields.integer("controller_epoch"),
        isr=fields.integers("isr"),
        leader_recovery_state=fields.integer(recovery) if fields.has(recovery) else 0,
    )


def encode_config(config: Mapping[str, str]) -> bytes:
    """Encode configs of a topic, client, user or broker; written even if there are none."""
    return encode_json({"version": 1, "config": dict(config)})


def decode_config(path: str, data: bytes) -> dict[str, str]:
    """Decode configs. Raises ZnodeError."""
    fields = decode_fields(path, data)
    fields.version({1})
    return fields.text_map("config")


def encode_config_change(change: ConfigChange) -> bytes:
    """Encode one of the three forms."""
    if change.version == 0 and change.entity_type == "topics":
        return b'"' + checked_topic(change.entity_name).encode() + b'"'
    if change.version == 1:
        return encode_json(
            {"version": 1, "entity_type": change.entity_type, "entity_name": change.entity_name}
        )
    if change.version == 2:
        return encode_json({"version": 2, "entity_path": f"{change.entity_type}/{change.entity_name}"})
    raise ConfigError(f"config changes have versions 0 (topics only), 1 and 2: {change}")


def decode_config_change(path: str, data: bytes) -> ConfigChange:
    """Decode any of the three forms. Raises ZnodeError."""
    value = decode_value(path, data)
    if isinstance(value, str):
        return ConfigChange("topics", Fields(path, {"name": value}).text("name"), 0)
    fields = Fields.of(path, value, "the value")
    version = fields.version({1, 2})
    if version == 1:
        return ConfigChange(fields.text("entity_type"), fields.text("entity_name"), 1)
    kind, slash, name = fields.text("entity_path").partition("/")
    if not (kind and slash and name):
        raise ZnodeError(path, f"field 'entity_path' is not type/name: {shown(kind + slash + name)}")
    return ConfigChange(kind, name, 2)


def decode_election(path: str, data: bytes) -> list[tuple[str, int]]:
    """Decode the partitions that their first replica shall lead. Raises ZnodeError."""
    return [_partition(item) for item in _partition_items(path, data)]


def decode_reassignment(path: str, data: bytes) -> list[tuple[str, int, tuple[int, ...]]]:
    """Decode topics, partitions and their new replicas. Raises ZnodeError."""
    return [(*_partition(item), item.integers("replicas")) for item in _partition_items(path, data)]


def _partition_items(path: str, data: bytes) -> tuple[Fields, ...]:
    fields = decode_fields(path, data)
    fields.version({1}, 1)
    return fields.objects("partitions")


def _partition(item: Fields) -> tuple[str, int]:
    return item.text("topic"), item.integer("partition", 0)
