"""The records of consumer groups (KIP-848) in `__consumer_offsets`, byte for byte as Kafka 4.3 writes them.

A key begins with the number of its kind, a value with its version, which is 0 for all:

    3   group             its epoch, and a hash of the topics that it subscribes to
    4   group             partitions of its topics; written by Kafka 4.0, not read any more
    5   group, member     subscription and identity of a member
    6   group             the epoch of the target assignment
    7   group, member     the target assignment of a member
    8   group, member     partitions that a member has, and must give up
    16  group, pattern    the topics that match a regular expression

A null value is a tombstone. Partitions are sorted, so that the same state gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from ottla.broker.coordination.effects import Record
from ottla.model.errors import RemoteProtocolError
from ottla.wire.schema import array, blob, field, int8, int32, int64, string, uuid, value
from ottla.wire.versioned_struct import VersionedStructs

TopicIdPartition: TypeAlias = tuple[bytes, int]
"""A topic's id and a partition's number."""

GROUP, PARTITIONS, MEMBER, TARGET, TARGET_MEMBER, CURRENT, REGEX = 3, 4, 5, 6, 7, 8, 16

_KEYS = VersionedStructs("__consumer_offsets", flexible_since=REGEX + 1)
_VALUES = VersionedStructs("__consumer_offsets", flexible_since=0)


@value
class GroupOnlyKey:
    group: str = field(string)


@value
class GroupPartKey:
    """The key of a part of a group: `part` is a member's id or a regular expression."""

    group: str = field(string)
    part: str = field(string)


@value
class GroupEpochValue:
    epoch: int = field(int32)
    metadata_hash: int = field(int64, tag=0)


@value
class ClassicProtocolValue:
    name: str = field(string)
    metadata: bytes = field(blob)


@value
class ClassicMemberValue:
    """The join of a member that speaks the classic protocol."""

    session_timeout_ms: int = field(int32)
    protocols: list[ClassicProtocolValue] = field(array(ClassicProtocolValue))


@value
class MemberMetadataValue:
    instance_id: str | None = field(string, nullable_since=0, default=None)
    rack_id: str | None = field(string, nullable_since=0, default=None)
    client_id: str = field(string)
    client_host: str = field(string)
    subscribed_topic_names: list[str] = field(array(string))
    subscribed_topic_regex: str | None = field(string, nullable_since=0, default=None)
    rebalance_timeout_ms: int = field(int32, default=-1)
    server_assignor: str | None = field(string, nullable_since=0, default=None)
    classic_member: ClassicMemberValue | None = field(
        ClassicMemberValue, nullable_since=0, default=None, tag=0
    )


@value
class TargetEpochValue:
    assignment_epoch: int = field(int32)
    assignment_timestamp: int = field(int64, tag=0)


@value
class TargetPartitions:
    topic_id: bytes = field(uuid)
    partitions: list[int] = field(array(int32))


@value
class TargetMemberValue:
    topic_partitions: list[TargetPartitions] = field(array(TargetPartitions))


@value
class CurrentPartitions:
    """Partitions of a topic, and the epoch in which the member got each."""

    topic_id: bytes = field(uuid)
    partitions: list[int] = field(array(int32))
    assignment_epochs: list[int] | None = field(array(int32), nullable_since=0, default=None, tag=0)


@value
class CurrentAssignmentValue:
    member_epoch: int = field(int32)
    previous_member_epoch: int = field(int32)
    state: int = field(int8)
    assigned_partitions: list[CurrentPartitions] = field(array(CurrentPartitions))
    partitions_pending_revocation: list[CurrentPartitions] = field(array(CurrentPartitions))


@value
class RegexValue:
    topics: list[str] = field(array(string))
    version: int = field(int64)
    timestamp: int = field(int64)


Value: TypeAlias = (
    GroupEpochValue
    | MemberMetadataValue
    | TargetEpochValue
    | TargetMemberValue
    | CurrentAssignmentValue
    | RegexValue
)
_VALUE_TYPES: Mapping[int, type[Value]] = {
    GROUP: GroupEpochValue,
    MEMBER: MemberMetadataValue,
    TARGET: TargetEpochValue,
    TARGET_MEMBER: TargetMemberValue,
    CURRENT: CurrentAssignmentValue,
    REGEX: RegexValue,
}
_WITH_PART = {MEMBER, TARGET_MEMBER, CURRENT, REGEX}
KINDS = {*_VALUE_TYPES, PARTITIONS}


def record(kind: int, group_id: str, part: str, stored: Value | None) -> Record:
    """Return a record; without `stored`, its tombstone. Kinds that concern the whole group have no `part`."""
    with_part = kind in _WITH_PART
    key = GroupPartKey(group=group_id, part=part) if with_part else GroupOnlyKey(group=group_id)
    return Record(_KEYS.encode(key, kind), None if stored is None else _VALUES.encode(stored, 0))


def read(source: Record) -> tuple[int, str, str, Value | None] | None:
    """Return kind, group, part and value of a record; None for records of other kinds of groups.

    Raises RemoteProtocolError if the bytes are damaged or the value is of an unknown version.
    """
    kind = _KEYS.version_of(source.key, "key")
    if kind not in KINDS:
        return None
    if kind in _WITH_PART:
        key = _KEYS.decode(GroupPartKey, source.key, REGEX)
        group_id, part = key.group, key.part
    else:
        group_id, part = _KEYS.decode(GroupOnlyKey, source.key, REGEX).group, ""
    value_type = _VALUE_TYPES.get(kind)
    if source.value is None:
        return kind, group_id, part, None
    # The content of kind 4 is not needed, but its record has to be deleted with the group.
    stored = GroupEpochValue() if value_type is None else _VALUES.decode(value_type, source.value, 0)
    return kind, group_id, part, stored


def target_value(partitions: Iterable[TopicIdPartition]) -> TargetMemberValue:
    """Return a member's target assignment as it is stored."""
    rows = _grouped(partitions).items()
    return TargetMemberValue(
        topic_partitions=[TargetPartitions(topic_id=key, partitions=numbers) for key, numbers in rows]
    )


def target_partitions(stored: TargetMemberValue) -> frozenset[TopicIdPartition]:
    """Return the partitions of a stored target assignment; the inverse of `target_value`."""
    return frozenset((row.topic_id, number) for row in stored.topic_partitions for number in row.partitions)


def current_partitions(epochs: Mapping[TopicIdPartition, int]) -> list[CurrentPartitions]:
    """Return partitions with the epochs in which they were assigned, as they are stored."""
    return [
        CurrentPartitions(
            topic_id=topic_id,
            partitions=numbers,
            assignment_epochs=[epochs[topic_id, number] for number in numbers],
        )
        for topic_id, numbers in _grouped(epochs).items()
    ]


def epochs_of(rows: Iterable[CurrentPartitions], member_epoch: int) -> dict[TopicIdPartition, int]:
    """Return partitions and their epochs; the inverse of `current_partitions`.

    Before Kafka 4.3 no epochs were stored: then `member_epoch` is used for all.

    Raises RemoteProtocolError if there are not as many epochs as partitions.
    """
    epochs_by_partition: dict[TopicIdPartition, int] = {}
    for row in rows:
        epochs = row.assignment_epochs
        if epochs is None:
            epochs = [member_epoch] * len(row.partitions)
        if len(epochs) != len(row.partitions):
            text = f"{len(epochs)} assignment epochs of {len(row.partitions)} partitions"
            raise RemoteProtocolError(f"CurrentAssignmentValue in __consumer_offsets: {text}")
        epochs_by_partition |= zip(((row.topic_id, number) for number in row.partitions), epochs, strict=True)
    return epochs_by_partition


def _grouped(partitions: Iterable[TopicIdPartition]) -> dict[bytes, list[int]]:
    topics: dict[bytes, list[int]] = {}
    for topic_id, number in sorted(partitions):
        topics.setdefault(topic_id, []).append(number)
    return topics
