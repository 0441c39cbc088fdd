"""Subscriptions and assignments: the bytes that Kafka 4.3.1's Java classes write, and what others send."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.consumer.coordinated.assignors import ASSIGNORS, LastAssignment
from ottla.model.errors import RemoteProtocolError
from ottla.model.topic_partition import TopicAndPartition
from ottla.wire.consumer_protocol import (
    Assignment,
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
    subscribed_topics,
)

A0, A2, B1 = TopicAndPartition("a", 0), TopicAndPartition("a", 2), TopicAndPartition("b", 1)

# ConsumerProtocol.serializeSubscription(new Subscription([b, a], 010203, [b-1, a-2, a-0], 7, "r1"), version)
FULL = [
    "00000000000200016100016200000003010203",
    "00010000000200016100016200000003010203000000020001610000000200000000000000020001620000000100000001",
    "00020000000200016100016200000003010203"
    "00000002000161000000020000000000000002000162000000010000000100000007",
    "00030000000200016100016200000003010203"
    "0000000200016100000002000000000000000200016200000001000000010000000700027231",
]
BARE = [
    "000000000001000174ffffffff",
    "000100000001000174ffffffff00000000",
    "000200000001000174ffffffff00000000ffffffff",
    "000300000001000174ffffffff00000000ffffffffffff",
]
ASSIGNMENT = "00000002000162000000010000000100016100000002000000020000000000000003010203"


@pytest.mark.parametrize("version", range(4))
def test_subscriptions_are_javas(version: int) -> None:
    full = Subscription(("b", "a"), b"\1\2\3", (B1, A2, A0), 7, "r1")
    assert encode_subscription(full, version).hex() == FULL[version]
    assert encode_subscription(Subscription(("t",)), version).hex() == BARE[version]
    assert decode_subscription(bytes.fromhex(BARE[version])) == Subscription(("t",))
    read = decode_subscription(bytes.fromhex(FULL[version]))
    assert read == Subscription(
        ("a", "b"),
        b"\1\2\3",
        (A0, A2, B1) if version >= 1 else (),
        7 if version >= 2 else -1,
        "r1" if version >= 3 else None,
    )


@pytest.mark.parametrize("version", range(4))
def test_assignments_are_javas(version: int) -> None:
    assignment = Assignment((B1, A2, A0), b"\1\2\3")
    assert encode_assignment(assignment, version).hex() == f"{version:04x}{ASSIGNMENT}"
    assert decode_assignment(bytes.fromhex(f"{version:04x}{ASSIGNMENT}")) == assignment
    assert encode_assignment(Assignment()).hex() == "000300000000ffffffff"
    assert decode_assignment(b"") == Assignment()


def test_the_assignors_own_data_is_javas() -> None:
    before = LastAssignment((B1, A2, A0), 5)
    sticky, cooperative = ASSIGNORS["sticky"], ASSIGNORS["cooperative-sticky"]
    assert sticky.user_data(LastAssignment()) is None
    told = sticky.user_data(before)
    assert told is not None
    # Java keeps the order in which the leader gave them; nobody reads it.
    assert told.hex() == "00000002000161000000020000000000000002000162000000010000000100000005"
    assert cooperative.user_data(LastAssignment()) == b"\xff\xff\xff\xff"
    assert cooperative.user_data(before) == b"\0\0\0\5"
    assert [name for name, one in ASSIGNORS.items() if one.is_cooperative] == ["cooperative-sticky"]


def test_newer_versions_are_read_as_ours_and_broken_ones_refused() -> None:
    newer = bytes.fromhex("0009" + FULL[3][4:] + "cafe")
    assert decode_subscription(newer).rack == "r1"
    misbehaving = bytes.fromhex("0001" + BARE[0][4:])  # says 1, and has no owned partitions
    assert decode_subscription(misbehaving) == Subscription(("t",))
    for data in (b"", b"\0", b"\xff\xff", b"\0\0\0\0\0\1"):
        with pytest.raises(RemoteProtocolError):
            decode_subscription(data)
    for data in (b"\0", b"\0\0\0\0\0\1"):
        with pytest.raises(RemoteProtocolError):
            decode_assignment(data)


def test_topics_are_read_from_the_prefix_that_all_versions_share() -> None:
    assert [subscribed_topics(bytes.fromhex(data)) for data in FULL] == [{"a", "b"}] * 4
    assert subscribed_topics(bytes.fromhex("000000000001000174")) == {"t"}  # no user data behind it
    with pytest.raises(RemoteProtocolError):
        subscribed_topics(b"")


@given(st.binary(max_size=64))
def test_any_bytes_are_decoded_or_refused(data: bytes) -> None:
    for decode in (decode_subscription, decode_assignment, subscribed_topics):
        with suppress(RemoteProtocolError):
            decode(data)
