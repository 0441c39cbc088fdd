"""What members of a classic consumer group write: registration, owner, offset.

A registration says what a member subscribes to; every member computes the same assignment from all of
them, so a registration that we read differently from Kafka's own consumer would give a partition two
owners. Hence: any pattern but the two lists is static, and so is an empty subscription (spec §1.5).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from ottla.model.errors import ConfigError
from ottla.zookeeper.znode_json import (
    INT_MAX,
    LONG_MAX,
    NO_TIMESTAMP_MS,
    decode_fields,
    decode_integer,
    decode_text,
    encode_json,
    shown,
)
from ottla.zookeeper.zookeeper_errors import ZnodeError

NO_OFFSET = -1
"""Kafka's "no offset", which may also be stored in a node."""


class SubscriptionPattern(Enum):
    """How the keys of a subscription are meant: topic names, or one Java regex."""

    STATIC = "static"
    WHITE_LIST = "white_list"
    BLACK_LIST = "black_list"


@dataclass(frozen=True)
class ConsumerRegistration:
    """The node of one member: topic (or the regex) → number of streams."""

    subscription: Mapping[str, int]
    pattern: SubscriptionPattern
    timestamp_ms: int = NO_TIMESTAMP_MS


@dataclass(frozen=True)
class PartitionOwner:
    """The node of an owned partition: which stream of which member."""

    consumer_id: str
    thread_id: int

    def __str__(self) -> str:
        return f"{self.consumer_id}-{self.thread_id}"


def encode_registration(registration: ConsumerRegistration) -> bytes:
    """Encode version 1. The regex is escaped once, as JSON needs it, so that every correct reader sees it."""
    wildcard = registration.pattern is not SubscriptionPattern.STATIC
    if wildcard and len(registration.subscription) != 1:
        raise ConfigError(f"a {registration.pattern.value} subscription has exactly one regex")
    for topic, stream_count in registration.subscription.items():
        # Kafka 0.8 reads every number as a signed 32-bit one.
        if not 1 <= stream_count <= INT_MAX:
            raise ConfigError(f"{topic!r}: {stream_count} streams are outside 1 … {INT_MAX}")
    return encode_json(
        {
            "version": 1,
            "subscription": dict(registration.subscription),
            "pattern": registration.pattern.value,
            "timestamp": str(registration.timestamp_ms),
        }
    )


def decode_registration(path: str, data: bytes) -> ConsumerRegistration:
    """Decode a member's registration. Needs `subscription` and `pattern`, as Kafka does. Raises
    ZnodeError.
    """
    fields = decode_fields(path, data)
    fields.version({1}, default=1)
    streams = fields.nested("subscription")
    fields_pattern = fields.text("pattern")
    subscription = {name: streams.integer(name, 0) for name in streams.names()}
    try:
        pattern = SubscriptionPattern(fields_pattern)
    except ValueError:
        pattern = SubscriptionPattern.STATIC
    if not subscription:
        pattern = SubscriptionPattern.STATIC
    if pattern is not SubscriptionPattern.STATIC and len(subscription) != 1:
        raise ZnodeError(path, f"a {pattern.value} has {len(subscription)} patterns where one is expected")
    return ConsumerRegistration(subscription, pattern, fields.timestamp_ms())


def encode_owner(owner: PartitionOwner) -> bytes:
    """Encode plain text, `<consumerIdString>-<thread>`."""
    return str(owner).encode()


def decode_owner(path: str, data: bytes) -> PartitionOwner:
    """Decode plain text. The id may contain dashes, so the last dash counts. Raises ZnodeError."""
    text = decode_text(path, data)
    consumer_id, dash, thread = text.rpartition("-")
    if not (consumer_id and dash and thread.isascii() and thread.isdigit() and len(thread) <= 10):
        raise ZnodeError(path, f"not a consumer id and a thread number: {shown(text)}")
    return PartitionOwner(consumer_id, int(thread))


def encode_offset(offset_next: int) -> bytes:
    """Encode the next offset to read, as decimal text."""
    if not 0 <= offset_next <= LONG_MAX:
        raise ConfigError(f"offset {offset_next} is outside 0 … {LONG_MAX}")
    return str(offset_next).encode()


def decode_offset(path: str, data: bytes) -> int:
    """Decode the next offset to read, or NO_OFFSET. Raises ZnodeError."""
    return decode_integer(path, data, NO_OFFSET, LONG_MAX)
