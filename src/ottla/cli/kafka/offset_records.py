"""Records of `__consumer_offsets` as Kafka's tools print them: the formatters of the console consumer, and
the offsets decoder of kafka-dump-log.

Kafka 4 and the new classes of 3.9 print JSON; older versions print Scala's text, and 0.9 yet another one.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from ottla.broker.coordination.effects import Record
from ottla.broker.groups.coordinator.records import (
    GroupKey,
    GroupValue,
    Key,
    MemberValue,
    OffsetKey,
    OffsetValue,
    read,
    read_key,
)
from ottla.model.errors import OttlaError
from ottla.model.topic_partition import TopicAndPartition
from ottla.wire.compiler import Struct
from ottla.wire.consumer_protocol import CONSUMER, decode_assignment, decode_subscription
from ottla.wire.primitives import FieldContext
from ottla.wire.schema import field, int32, int64, string, uuid, value

_NO_ID = bytes(16)
_WITH_TOPIC_ID = 4


class OffsetEntry(NamedTuple):
    """A decoded record, of an offset or of a group, with the version of its value."""

    key_version: int
    key: Key
    version: int
    value: OffsetValue | GroupValue | None
    raw_value: bytes | None


@value
class _OffsetWithTopicId:
    """The value that Kafka 4 stores; our broker does not use the topic's id."""

    offset: int = field(int64)
    leader_epoch: int = field(int32)
    metadata: str = field(string)
    commit_timestamp: int = field(int64)
    topic_id: bytes = field(uuid, tag=0)


def read_entry(key: bytes | None, data: bytes | None) -> OffsetEntry | None:
    """Decode a record; None for another kind, or without a key. Raises RemoteProtocolError."""
    if key is None or read_key(key) is None:
        return None
    node = read(Record(key, data))
    assert node is not None
    version = -1 if data is None else int.from_bytes(data[:2], "big", signed=True)
    return OffsetEntry(int.from_bytes(key[:2], "big", signed=True), node[0], version, node[1], data)


def compact(node: object) -> str:
    """JSON as Java's Jackson writes it."""
    return json.dumps(node, ensure_ascii=False, separators=(",", ":"))


# --- JSON


def key_node(key: Key) -> dict[str, object]:
    """A key as JSON."""
    if isinstance(key, OffsetKey):
        return {"group": key.group, "topic": key.topic, "partition": key.partition}
    return {"group": key.group}


def value_node(entry: OffsetEntry, *, opens_members: bool = False) -> dict[str, object] | None:
    """A value as JSON, with the fields of its version. `opens_members` also decodes the members' metadata."""
    if isinstance(entry.value, OffsetValue):
        return _offset_node(entry, entry.value)
    return None if entry.value is None else _group_node(entry.version, entry.value, opens=opens_members)


def _offset_node(entry: OffsetEntry, stored: OffsetValue) -> dict[str, object]:
    node: dict[str, object] = {"offset": stored.offset}
    if entry.version >= 3:
        node["leaderEpoch"] = stored.leader_epoch
    node |= {"metadata": stored.metadata, "commitTimestamp": stored.commit_timestamp}
    if entry.version == 1:
        node["expireTimestamp"] = stored.expire_timestamp
    if entry.version >= _WITH_TOPIC_ID and entry.raw_value is not None:
        topic_id = _topic_id(entry.raw_value, entry.version)
        if topic_id != _NO_ID:
            node["topicId"] = base64.urlsafe_b64encode(topic_id).decode().rstrip("=")
    return node


def _topic_id(data: bytes, version: int) -> bytes:
    decoded: list[Any] = []
    context = FieldContext("OffsetCommitValue", version, flexible=True)
    Struct(_OffsetWithTopicId).decoder(context)(memoryview(data), 2, decoded)
    topic_id: bytes = decoded[0].topic_id
    return topic_id


def _group_node(version: int, group: GroupValue, *, opens: bool) -> dict[str, object]:
    node: dict[str, object] = {
        "protocolType": group.protocol_type,
        "generation": group.generation,
        "protocol": group.protocol,
        "leader": group.leader,
    }
    if version >= 2:
        node["currentStateTimestamp"] = group.current_state_timestamp
    opens = opens and group.protocol_type == CONSUMER
    node["members"] = [_member_node(version, member, opens=opens) for member in group.members]
    return node


def _member_node(version: int, member: MemberValue, *, opens: bool) -> dict[str, object]:
    node: dict[str, object] = {"memberId": member.member_id}
    if version >= 3:
        node["groupInstanceId"] = member.group_instance_id
    node |= {"clientId": member.client_id, "clientHost": member.client_host}
    if version >= 1:
        node["rebalanceTimeout"] = member.rebalance_timeout
    node["sessionTimeout"] = member.session_timeout
    node["subscription"] = _opened(member.subscription, _subscription_node if opens else None)
    node["assignment"] = _opened(member.assignment, _assignment_node if opens else None)
    return node


def _opened(data: bytes, read_node: Callable[[bytes], dict[str, object]] | None) -> object:
    """Return the decoded metadata; the bytes if it cannot be decoded, as in Kafka."""
    if read_node is not None:
        try:
            return read_node(data)
        except OttlaError:
            pass
    return _base64(data)


def _subscription_node(data: bytes) -> dict[str, object]:
    version = int.from_bytes(data[:2], "big", signed=True)
    subscription = decode_subscription(data)
    node: dict[str, object] = {
        "topics": list(subscription.topics),
        "userData": _base64(subscription.user_data),
    }
    if version >= 1:
        node["ownedPartitions"] = _by_topic(subscription.owned)
    if version >= 2:
        node["generationId"] = subscription.generation
    if version >= 3:
        node["rackId"] = subscription.rack
    return node


def _assignment_node(data: bytes) -> dict[str, object]:
    assignment = decode_assignment(data)
    return {"assignedPartitions": _by_topic(assignment.partitions), "userData": _base64(assignment.user_data)}


def _by_topic(partitions: Iterable[TopicAndPartition]) -> list[dict[str, object]]:
    topics: dict[str, list[int]] = {}
    for topic_partition in partitions:
        topics.setdefault(topic_partition.topic, []).append(topic_partition.partition)
    return [{"topic": topic, "partitions": numbers} for topic, numbers in topics.items()]


def _base64(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


# --- the formatters of the console consumer

_Write = Callable[[OffsetEntry], str]


def _json_4(entry: OffsetEntry) -> str:
    node = value_node(entry)
    stored = None if node is None else {"version": entry.version, "data": node}
    return compact({"key": {"type": entry.key_version, "data": key_node(entry.key)}, "value": stored})


def _offset_3(entry: OffsetEntry) -> str:
    stored = entry.value
    if not isinstance(stored, OffsetValue):
        return "NULL"
    epoch = "Optional.empty" if stored.leader_epoch < 0 else f"Optional[{stored.leader_epoch}]"
    expires = "None" if stored.expire_timestamp < 0 else f"Some({stored.expire_timestamp})"
    return (
        f"OffsetAndMetadata(offset={stored.offset}, leaderEpoch={epoch}, metadata={stored.metadata}, "
        f"commitTimestamp={stored.commit_timestamp}, expireTimestamp={expires})"
    )


def _offset_0_9(entry: OffsetEntry) -> str:
    stored = entry.value
    if not isinstance(stored, OffsetValue):
        return "NULL"
    return (
        f"[OffsetMetadata[{stored.offset},{stored.metadata or 'NO_METADATA'}],"
        f"CommitTime {stored.commit_timestamp},ExpirationTime {stored.expire_timestamp}]"
    )


def _group_3(entry: OffsetEntry) -> str:
    group = entry.value
    if not isinstance(group, GroupValue):
        return "NULL"
    kind = f"Some({group.protocol_type})" if group.protocol_type else "None"
    members = ", ".join(
        f"{member.member_id} -> MemberMetadata(memberId={member.member_id}, "
        f"groupInstanceId={_scala_option(member.group_instance_id)}, "
        f"clientId={member.client_id}, clientHost={member.client_host}, "
        f"sessionTimeoutMs={member.session_timeout}, "
        f"rebalanceTimeoutMs={member.rebalance_timeout}, supportedProtocols=List({group.protocol}))"
        for member in group.members
    )
    return (
        f"GroupMetadata(groupId={entry.key.group}, generation={group.generation}, protocolType={kind}, "
        f"currentState={'Stable' if group.members else 'Empty'}, members=HashMap({members}))"
    )


def _scala_option(value: str | None) -> str:
    return "None" if value is None else f"Some({value})"


def _group_0_9(entry: OffsetEntry) -> str:
    group = entry.value
    if not isinstance(group, GroupValue):
        return "NULL"
    members = ", ".join(
        f"{member.member_id} -> "
        f"[{member.member_id},{member.client_id},{member.client_host},{member.session_timeout}]"
        for member in group.members
    )
    return f"[{entry.key.group},{group.protocol_type},Stable,Map({members})]"


def _scala(write: _Write) -> _Write:
    """A line with the key as Scala prints it, and the value."""

    def line(entry: OffsetEntry) -> str:
        key = entry.key
        name = f"[{key.group},{key.topic},{key.partition}]" if isinstance(key, OffsetKey) else key.group
        return f"{name}::{write(entry)}\n"

    return line


_OFFSETS, _GROUPS = "OffsetsMessageFormatter", "GroupMetadataMessageFormatter"
_TOOLS = "org.apache.kafka.tools.consumer."
FORMATTERS: Mapping[str, tuple[type[Any], _Write]] = {
    f"{_TOOLS}{_OFFSETS}": (OffsetKey, _json_4),
    f"{_TOOLS}{_GROUPS}": (GroupKey, _json_4),
    f"kafka.coordinator.group.GroupMetadataManager${_OFFSETS}": (OffsetKey, _scala(_offset_3)),
    f"kafka.coordinator.group.GroupMetadataManager${_GROUPS}": (GroupKey, _scala(_group_3)),
    f"kafka.coordinator.GroupMetadataManager${_OFFSETS}": (OffsetKey, _scala(_offset_0_9)),
    f"kafka.coordinator.GroupMetadataManager${_GROUPS}": (GroupKey, _scala(_group_0_9)),
}
"""By class name: which records a formatter prints, and how. Records of the other kind are skipped."""


def formatted(class_name: str, key: bytes | None, data: bytes | None) -> bytes:
    """The record as one of FORMATTERS prints it; None if it is of another kind."""
    kind, write = FORMATTERS[class_name]
    entry = read_entry(key, data)
    return write(entry).encode() if entry is not None and isinstance(entry.key, kind) else b""


# --- the offsets decoder of kafka-dump-log


def decoded_4(key: bytes | None, data: bytes | None, offset: int) -> tuple[str, str | None]:
    """Key and payload as Kafka 4 prints them."""
    try:
        entry = read_entry(key, data)
    except OttlaError as error:
        return f"Error at offset {offset}, skipping. {error}", None
    if entry is None:
        kind = int.from_bytes((key or b"")[:2], "big", signed=True)
        return f"Unknown record type {kind} at offset {offset}, skipping.", None
    text = compact({"type": str(entry.key_version), "data": key_node(entry.key)})
    node = value_node(entry, opens_members=True)
    if node is None:
        return text, "<DELETE>"
    return text, compact({"version": str(entry.version), "data": node})


def decoded_0_9(key: bytes | None, data: bytes) -> tuple[str, str]:
    """Key and payload as Kafka 0.9 prints them. Raises OttlaError."""
    entry = read_entry(key, data)
    if entry is not None and isinstance(entry.value, OffsetValue) and isinstance(entry.key, OffsetKey):
        where, stored = entry.key, entry.value
        more = f":{stored.metadata}" if stored.metadata else ""
        return f"offset::{where.group}:{where.topic}:{where.partition}", f"{stored.offset}{more}"
    if entry is not None and isinstance(entry.value, GroupValue):
        group = entry.value
        members = ",".join(f"{member.member_id}={_assigned_0_9(group, member)}" for member in group.members)
        head = f"{group.protocol_type}:{group.protocol}:{group.generation}"
        return f"metadata::{entry.key.group}", f"{head}:{{{members}}}"
    raise OttlaError("Failed to decode message using offset topic decoder (message had an invalid key)")


def _assigned_0_9(group: GroupValue, member: MemberValue) -> str:
    if group.protocol_type != CONSUMER:
        return member.assignment.hex().upper().lstrip("0")
    assignment = decode_assignment(member.assignment)
    names = ", ".join(f"{partition.topic}-{partition.partition}" for partition in assignment.partitions)
    data = (assignment.user_data or b"").hex().upper().lstrip("0")
    return f"[{names}]:{data}" if data else f"[{names}]"
