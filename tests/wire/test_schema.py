"""The notation, what may be sent, and how buffers pass through."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.model.errors import LocalProtocolError
from ottla.wire.api.fetch import (
    FetchPartition,
    FetchPartitionResponse,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    FetchTopicResponse,
)
from ottla.wire.api.heartbeat import HeartbeatRequest
from ottla.wire.api.join_group import JoinGroupProtocol, JoinGroupRequest
from ottla.wire.api.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from ottla.wire.api.metadata import MetadataRequest
from ottla.wire.api.produce import ProducePartition, ProduceRequest, ProduceTopic
from ottla.wire.leader_hint import LeaderIdAndEpoch
from ottla.wire.schema import decode, encode, field, fields, int32, string, struct


def response(*record_sets: Any) -> FetchResponse:
    partitions = [FetchPartitionResponse(partition_index=i, records=r) for i, r in enumerate(record_sets)]
    return FetchResponse(responses=[FetchTopicResponse(topic="t", partitions=partitions)])


def refusal(message: Any, version: int) -> str:
    with pytest.raises(LocalProtocolError) as caught:
        encode(message, version)
    return str(caught.value)


# --- buffers --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [4, 12])
def test_record_sets_leave_as_the_callers_own_buffers(version: int) -> None:
    sets = [b"first", bytearray(b"second"), memoryview(b"third")]
    parts = encode(response(*sets), version)
    assert [part for part in parts if any(part is own for own in sets)] == sets
    assert len(parts) == 2 * len(sets) + (version == 12)


@pytest.mark.parametrize("version", [4, 12])
def test_record_sets_arrive_as_slices_of_the_input(version: int) -> None:
    data = bytearray(b"".join(encode(response(b"first", b""), version)))
    partitions = decode(FetchResponse, version, data).responses[0].partitions
    records = partitions[0].records
    assert isinstance(records, memoryview)
    assert records.obj is data
    assert partitions[1].records == b""


def test_a_record_set_counts_in_bytes_whatever_its_items() -> None:
    wide = memoryview(bytes(8)).cast("I")
    decoded = decode(FetchResponse, 12, b"".join(encode(response(wide), 12)))
    assert decoded.responses[0].partitions[0].records == bytes(8)


def test_an_empty_record_set_makes_no_part() -> None:
    assert len(encode(response(b""), 12)) == 1


def test_a_prefix_starts_the_first_part_and_can_be_overwritten() -> None:
    parts = encode(response(b"records"), 12, prefix=bytes(4))
    first = parts[0]
    assert isinstance(first, bytearray)
    first[:4] = b"size"
    assert b"".join(parts) == b"size" + b"".join(encode(response(b"records"), 12))


def test_a_message_that_ends_with_a_record_set_has_no_empty_tail() -> None:
    topic = ProduceTopic(name="t", partition_data=[ProducePartition(records=b"r")])
    assert encode(ProduceRequest(topic_data=[topic]), 0)[-1] == b"r"


# --- what may be sent -----------------------------------------------------------------------------------


def test_a_value_that_the_version_cannot_carry_is_refused_by_name() -> None:
    message = HeartbeatRequest(group_id="g", group_instance_id="static-1")
    assert refusal(message, 2) == (
        "HeartbeatRequest v2: group_instance_id: cannot send 'static-1': this version has no such field"
    )
    assert decode(HeartbeatRequest, 3, b"".join(encode(message, 3))) == message


def test_an_ignorable_value_is_dropped() -> None:
    partition = FetchPartition(partition=1, current_leader_epoch=7)
    data = b"".join(encode(FetchRequest(topics=[FetchTopic(topic="t", partitions=[partition])]), 8))
    assert decode(FetchRequest, 8, data).topics[0].partitions[0].current_leader_epoch == -1


@pytest.mark.parametrize(
    ("message", "version", "text"),
    [
        (
            HeartbeatRequest(generation_id=1 << 31),
            0,
            "HeartbeatRequest v0: generation_id: cannot send 2147483648",
        ),
        (FetchRequest(max_wait_ms=1 << 40), 12, "FetchRequest v12: max_wait_ms: cannot send 1099511627776"),
        (FetchRequest(topics=None), 12, "FetchRequest v12: topics: cannot send None: not nullable"),  # type: ignore[arg-type]
        (MetadataRequest(topics=None), 0, "MetadataRequest v0: topics: cannot send None: not nullable"),
        (HeartbeatRequest(group_id=None), 0, "group_id: cannot send None: not nullable"),  # type: ignore[arg-type]
        (HeartbeatRequest(group_id="x" * 32768), 0, "32768 bytes of UTF-8, at most 32767"),
        (HeartbeatRequest(group_id="x" * 32768), 4, "32768 bytes of UTF-8, at most 32767"),
        (HeartbeatRequest(group_id="\ud800"), 4, "group_id: cannot send '\\ud800'"),
        (HeartbeatRequest(group_id=b"g"), 4, "group_id: cannot send b'g'"),  # type: ignore[arg-type]
        (MetadataRequest(topics=[], allow_auto_topic_creation=None), 4, "creation: cannot send None"),  # type: ignore[arg-type]
        (FetchRequest(topics=[FetchTopic(topic_id=b"short")]), 13, "topics.topic_id: cannot send b'short'"),
        (JoinGroupRequest(protocols=[JoinGroupProtocol(metadata="text")]), 0, "metadata: cannot send 'text'"),  # type: ignore[arg-type]
        (JoinGroupRequest(protocols=[JoinGroupProtocol(metadata=None)]), 0, "metadata: cannot send None"),  # type: ignore[arg-type]
        (FetchRequest(topics=[None]), 12, "FetchRequest v12: cannot send"),  # type: ignore[list-item]
    ],
)
def test_what_cannot_be_sent(message: Any, version: int, text: str) -> None:
    assert text in refusal(message, version)


def test_a_number_in_a_list_is_refused_by_value() -> None:
    partition = ListOffsetsPartitionResponse(old_style_offsets=[1, 1 << 63])
    topic = ListOffsetsTopicResponse(partitions=[partition])
    assert "old_style_offsets: cannot send 9223372036854775808" in refusal(
        ListOffsetsResponse(topics=[topic]), 0
    )


# --- notation -------------------------------------------------------------------------------------------


def test_every_field_has_a_default_and_lists_are_not_shared() -> None:
    assert FetchRequest().max_bytes == 0x7FFFFFFF
    assert FetchRequest().topics is not FetchRequest().topics
    absent = decode(FetchRequest, 0, b"".join(encode(FetchRequest(), 0)))
    again = decode(FetchRequest, 0, b"".join(encode(FetchRequest(), 0)))
    assert absent.forgotten_topics_data == []
    assert absent.forgotten_topics_data is not again.forgotten_topics_data


def test_a_value_is_frozen_because_its_default_is_shared() -> None:
    assert FetchPartitionResponse().current_leader is FetchPartitionResponse().current_leader
    with pytest.raises(AttributeError):
        LeaderIdAndEpoch().leader_id = 1


def test_a_table_can_be_read() -> None:
    table = {row.name: row for row in fields(FetchTopic)}
    assert table["topic"].exists(12)
    assert not table["topic"].exists(13)
    assert table["topic_id"].since == 13


def test_a_field_without_a_codec_is_refused() -> None:
    with pytest.raises(TypeError, match=r"Broken\.number is not declared with field"):

        @struct
        class Broken:
            number: int = 3


def test_a_plain_field_behind_a_tagged_one_is_refused() -> None:
    with pytest.raises(TypeError, match=r"Broken\.text stands behind a tagged field"):

        @struct
        class Broken:
            number: int = field(int32, tag=0)
            text: str = field(string)
