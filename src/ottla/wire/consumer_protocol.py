"""The consumer protocol: subscriptions and assignments of group members, byte for byte as Java writes them.

    subscription: version i16 | topics, user data, since 1 owned partitions, since 2 generation, since 3 rack
    assignment:   version i16 | partitions by topic, user data

Members write and read these bytes; the coordinator passes them on. A version newer than ours is read as ours,
because newer versions only append fields.
"""

from __future__ import annotations

import struct as binary
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

from ottla.model.errors import RemoteProtocolError
from ottla.model.topic_partition import TopicAndPartition
from ottla.wire.compiler import Struct
from ottla.wire.primitives import Decoder, Encoder, FieldContext, sink
from ottla.wire.schema import array, blob, field, int32, string, value

T = TypeVar("T")

CONSUMER = "consumer"
"""The protocol type of groups whose members write these bytes."""

NEWEST = 3
NO_GENERATION = -1

_VERSION = binary.Struct(">h")


@dataclass(frozen=True, slots=True)
class Subscription:
    """The topics that a member wants, and the partitions that it owned in `generation`."""

    topics: tuple[str, ...]
    user_data: bytes | None = None
    owned: tuple[TopicAndPartition, ...] = ()
    generation: int = NO_GENERATION
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class Assignment:
    """The partitions that the group's leader gives to a member."""

    partitions: tuple[TopicAndPartition, ...] = ()
    user_data: bytes | None = None


@value
class TopicPartitions:
    topic: str = field(string)
    partitions: list[int] = field(array(int32))


@value
class _SubscriptionPrefix:
    topics: list[str] = field(array(string))


@value
class _SubscriptionBytes:
    topics: list[str] = field(array(string))
    user_data: bytes | None = field(blob, nullable_since=0)
    owned_partitions: list[TopicPartitions] = field(array(TopicPartitions), since=1, ignorable=True)
    generation_id: int = field(int32, since=2, default=NO_GENERATION, ignorable=True)
    rack_id: str | None = field(string, since=3, nullable_since=3, default=None, ignorable=True)


@value
class _AssignmentBytes:
    partitions: list[TopicPartitions] = field(array(TopicPartitions))
    user_data: bytes | None = field(blob, nullable_since=0)


def encode_subscription(subscription: Subscription, version: int = NEWEST) -> bytes:
    """Encode a subscription. Topics and owned partitions are sorted, as Java does."""
    fields = _SubscriptionBytes(
        topics=sorted(subscription.topics),
        user_data=subscription.user_data,
        owned_partitions=grouped_by_topic(sorted(subscription.owned)),
        generation_id=subscription.generation,
        rack_id=subscription.rack,
    )
    return _VERSION.pack(version) + encode_value(fields, version)


def decode_subscription(data: bytes) -> Subscription:
    """Decode a subscription. Raises RemoteProtocolError if the bytes are not a subscription."""
    version = _version(data, "subscription")
    try:
        fields = decode_value(_SubscriptionBytes, data[_VERSION.size :], version)
    except RemoteProtocolError:
        # Some clients write a version above 0 but leave out the fields that it added.
        fields = decode_value(_SubscriptionBytes, data[_VERSION.size :], 0)
    return Subscription(
        topics=tuple(fields.topics),
        user_data=fields.user_data,
        owned=flat(fields.owned_partitions),
        generation=fields.generation_id,
        rack=fields.rack_id,
    )


def subscribed_topics(data: bytes) -> frozenset[str]:
    """Decode only the topics of a subscription, which stand at the front in every version.

    Raises RemoteProtocolError if the bytes are no subscription: some clients use the protocol type `consumer`
    with a format of their own.
    """
    _version(data, "subscription")
    return frozenset(decode_value(_SubscriptionPrefix, data[_VERSION.size :]).topics)


def encode_assignment(assignment: Assignment, version: int = NEWEST) -> bytes:
    """Encode an assignment. Topics stand in the order of their first partition, partitions as given."""
    partitions = grouped_by_topic(assignment.partitions)
    fields = _AssignmentBytes(partitions=partitions, user_data=assignment.user_data)
    return _VERSION.pack(version) + encode_value(fields, version)


def decode_assignment(data: bytes) -> Assignment:
    """Decode an assignment. Empty bytes mean no partitions: the leader left this member out.

    Raises RemoteProtocolError if the bytes are no assignment.
    """
    if not data:
        return Assignment()
    fields = decode_value(_AssignmentBytes, data[_VERSION.size :], _version(data, "assignment"))
    return Assignment(flat(fields.partitions), fields.user_data)


def _version(data: bytes, kind: str) -> int:
    if len(data) < _VERSION.size:
        raise RemoteProtocolError(f"a {kind} of {len(data)} bytes has no version")
    (version,) = _VERSION.unpack_from(data)
    if version < 0:
        raise RemoteProtocolError(f"a {kind} of version {version}; known are 0 to {NEWEST}")
    return min(int(version), NEWEST)


# --- structs without a version in front, for the messages above and the assignors' user data


def grouped_by_topic(partitions: Iterable[TopicAndPartition]) -> list[TopicPartitions]:
    """Group partitions by topic; topics stand in the order of their first partition."""
    topics: dict[str, list[int]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(partition)
    return [TopicPartitions(topic=topic, partitions=numbers) for topic, numbers in topics.items()]


def flat(topics: Iterable[TopicPartitions]) -> tuple[TopicAndPartition, ...]:
    """Undo `grouped_by_topic`."""
    return tuple(TopicAndPartition(topic.topic, number) for topic in topics for number in topic.partitions)


def encode_value(message: object, version: int = 0) -> bytes:
    """Encode an object of a class that is declared with `@value`."""
    kind = type(message)
    encode = _ENCODERS.get((kind, version))
    if encode is None:
        encode = _ENCODERS[kind, version] = Struct(kind).encoder(_field_context(kind, version))
    out = sink(b"")
    encode(out, message)
    return bytes(out)


def decode_value(kind: type[T], data: bytes, version: int = 0) -> T:
    """Decode an object from the start of the bytes. Bytes after it are ignored, as Java does."""
    decode = _DECODERS.get((kind, version))
    if decode is None:
        decode = _DECODERS[kind, version] = Struct(kind).decoder(_field_context(kind, version))
    out: list[object] = []
    decode(memoryview(data), 0, out)
    message = out[0]
    assert isinstance(message, kind)
    return message


# Compiled once per kind and version.
_ENCODERS: dict[tuple[type, int], Encoder] = {}
_DECODERS: dict[tuple[type, int], Decoder] = {}


def _field_context(kind: type, version: int) -> FieldContext:
    return FieldContext(f"{kind.__name__.lstrip('_')} v{version}", version, flexible=False)
