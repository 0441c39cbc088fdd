"""What members of a group tell each other through the coordinator, byte for byte as Kafka's Java client does.

    version i16 | subscription: topics, user data, from 1 owned partitions, 2 generation, 3 rack
    version i16 | assignment: partitions by topic, user data

The coordinator passes both on unread. A version above ours is read as ours, since newer ones only append.
"""

from __future__ import annotations

import struct as binary
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

from ottla.fetching.places import TopicAndPartition
from ottla.model.errors import RemoteProtocolError
from ottla.wire.compiler import Struct
from ottla.wire.primitives import Decoder, Encoder, Place, sink
from ottla.wire.schema import array, blob, field, int32, string, value

T = TypeVar("T")

NEWEST = 3
NO_GENERATION = -1

_VERSION = binary.Struct(">h")


@dataclass(frozen=True, slots=True)
class Subscription:
    """What a member wants, and what it has: `owned` of the generation in which it was given."""

    topics: tuple[str, ...]
    user_data: bytes | None = None
    owned: tuple[TopicAndPartition, ...] = ()
    generation: int = NO_GENERATION
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class Assignment:
    """What a member gets."""

    partitions: tuple[TopicAndPartition, ...] = ()
    user_data: bytes | None = None


@value
class TopicPartitions:
    topic: str = field(string)
    partitions: list[int] = field(array(int32))


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
    """Topics and owned partitions are sorted, as Java's are."""
    return _VERSION.pack(version) + encode_value(
        _SubscriptionBytes(
            topics=sorted(subscription.topics),
            user_data=subscription.user_data,
            owned_partitions=grouped_by_topic(sorted(subscription.owned)),
            generation_id=subscription.generation,
            rack_id=subscription.rack,
        ),
        version,
    )


def decode_subscription(data: bytes) -> Subscription:
    """Raises RemoteProtocolError if the bytes are no subscription."""
    version = _version(data, "subscription")
    try:
        read = decode_value(_SubscriptionBytes, data[_VERSION.size :], version)
    except RemoteProtocolError:
        # Some clients write a version above 0 and leave out what it has more.
        read = decode_value(_SubscriptionBytes, data[_VERSION.size :], 0)
    return Subscription(
        topics=tuple(read.topics),
        user_data=read.user_data,
        owned=flat(read.owned_partitions),
        generation=read.generation_id,
        rack=read.rack_id,
    )


def encode_assignment(assignment: Assignment, version: int = NEWEST) -> bytes:
    """Partitions keep their order within a topic, topics come as they are met."""
    partitions = grouped_by_topic(assignment.partitions)
    made = _AssignmentBytes(partitions=partitions, user_data=assignment.user_data)
    return _VERSION.pack(version) + encode_value(made, version)


def decode_assignment(data: bytes) -> Assignment:
    """No bytes at all are no partitions: what a leader that left somebody out has given it.

    Raises RemoteProtocolError if the bytes are no assignment.
    """
    if not data:
        return Assignment()
    read = decode_value(_AssignmentBytes, data[_VERSION.size :], _version(data, "assignment"))
    return Assignment(flat(read.partitions), read.user_data)


def _version(data: bytes, what: str) -> int:
    if len(data) < _VERSION.size:
        raise RemoteProtocolError(f"a {what} of {len(data)} bytes has no version")
    (version,) = _VERSION.unpack_from(data)
    if version < 0:
        raise RemoteProtocolError(f"a {what} of version {version}; known are 0 to {NEWEST}")
    return min(int(version), NEWEST)


# --- structs without a version before them, for these and for the assignors' own data


def grouped_by_topic(partitions: Iterable[TopicAndPartition]) -> list[TopicPartitions]:
    """Topics in the order in which they are met first."""
    topics: dict[str, list[int]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(partition)
    return [TopicPartitions(topic=topic, partitions=numbers) for topic, numbers in topics.items()]


def flat(topics: Iterable[TopicPartitions]) -> tuple[TopicAndPartition, ...]:
    """The reverse."""
    return tuple(TopicAndPartition(one.topic, number) for one in topics for number in one.partitions)


def encode_value(message: object, version: int = 0) -> bytes:
    """A declared value as bytes."""
    kind = type(message)
    run = _ENCODERS.get((kind, version))
    if run is None:
        run = _ENCODERS[kind, version] = Struct(kind).encoder(_place(kind, version))
    out = sink(b"")
    run(out, message)
    return bytes(out)


def decode_value(kind: type[T], data: bytes, version: int = 0) -> T:
    """The value at the start of the bytes; what follows is ignored, as Java does."""
    run = _DECODERS.get((kind, version))
    if run is None:
        run = _DECODERS[kind, version] = Struct(kind).decoder(_place(kind, version))
    out: list[object] = []
    run(memoryview(data), 0, out)
    made = out[0]
    assert isinstance(made, kind)
    return made


# Compiled once per kind and version.
_ENCODERS: dict[tuple[type, int], Encoder] = {}
_DECODERS: dict[tuple[type, int], Decoder] = {}


def _place(kind: type, version: int) -> Place:
    return Place(f"{kind.__name__.lstrip('_')} v{version}", version, flexible=False)
