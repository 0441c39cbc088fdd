"""Requests and responses without a broker: what the builder makes and refuses, what a response says."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import FrozenInstanceError

import pytest

from ottla import ConfigError, CorruptRecord, KafkaError, RemoteProtocolError
from ottla.consumer.simple import FetchRequestBuilder, FetchResponse, PartitionFetchInfo, TopicAndPartition
from ottla.model.error_codes import Code
from ottla.records.compression import Codec
from ottla.wire.api import fetch as wire
from tests.log.record_sets import batch, values

OLD, NEW = 1, 12  # versions of Fetch before and after a first batch comes whole


def response(
    records: bytes,
    *,
    offset: int = 0,
    fetch_size: int = 100_000,
    version: int = NEW,
    error: int = Code.NONE,
    high_watermark: int = 100,
) -> FetchResponse:
    """The answer to a fetch of t-0."""
    row = wire.FetchPartitionResponse(
        partition_index=0, error_code=error, high_watermark=high_watermark, records=records
    )
    answer = wire.FetchResponse(responses=[wire.FetchTopicResponse(topic="t", partitions=[row])])
    request = FetchRequestBuilder().add_fetch("t", 0, offset, fetch_size).build()
    return FetchResponse(request, answer, version)


# --- requests


@pytest.mark.parametrize(
    ("level", "version", "why"),
    [("serializable", NEW, "read_uncommitted or read_committed"), ("read_committed", 3, "request_version 4")],
)
def test_a_level_that_cannot_be_had_is_refused(level: str, version: int, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        FetchRequestBuilder().request_version(version).isolation_level(level).build()


def test_a_request_has_what_the_builder_was_told() -> None:
    builder = FetchRequestBuilder().client_id("me").max_wait(500).min_bytes(1).max_bytes(10_000)
    request = builder.add_fetch("a", 0, 5, 100).add_fetch("b", 1, 6, 200).add_fetch("a", 2, 7, 300).build()
    assert request.request_info == {
        TopicAndPartition("a", 0): PartitionFetchInfo(5, 100),
        TopicAndPartition("b", 1): PartitionFetchInfo(6, 200),
        TopicAndPartition("a", 2): PartitionFetchInfo(7, 300),
    }
    message = request.message()
    assert [(one.topic, [row.partition for row in one.partitions]) for one in message.topics] == [
        ("a", [0, 2]),
        ("b", [1]),
    ]
    assert (message.replica_id, message.max_wait_ms, message.min_bytes, message.max_bytes) == (
        -1,
        500,
        1,
        10_000,
    )


def test_a_request_cannot_be_changed() -> None:
    request = FetchRequestBuilder().add_fetch("a", 0, 5, 100).build()
    with pytest.raises(FrozenInstanceError):
        request.max_wait = 1
    with pytest.raises(TypeError):
        request.request_info[TopicAndPartition("b", 0)] = PartitionFetchInfo(0, 1)  # type: ignore[index]


def test_a_builder_keeps_its_settings_and_forgets_its_partitions() -> None:
    builder = FetchRequestBuilder().max_wait(7).add_fetch("a", 0, 5, 100).add_fetch("a", 0, 6, 200)
    assert builder.build().request_info == {TopicAndPartition("a", 0): PartitionFetchInfo(6, 200)}
    with pytest.raises(ConfigError, match="add_fetch"):
        builder.build()
    second = builder.add_fetch("b", 0, 1, 1).build()
    assert (list(second.request_info), second.max_wait) == ([TopicAndPartition("b", 0)], 7)


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda b: b.add_fetch("", 0, 0, 1), "topic is ''"),
        (lambda b: b.add_fetch(b"t", 0, 0, 1), "topic is b't'"),
        (lambda b: b.add_fetch("t", -1, 0, 1), "partition is -1: partitions of 't' are 0, 1, 2"),
        (lambda b: b.add_fetch("t", 0, -1, 1), "offset of t-0 is -1: .*get_offsets_before"),
        (lambda b: b.add_fetch("t", 0, 2**63, 1), "offset of t-0 is 9223372036854775808"),
        (lambda b: b.add_fetch("t", 0, 0, -1), "fetch_size of t-0 is -1"),
        (lambda b: b.add_fetch("t", 0, 0, 1.5), "fetch_size of t-0 is 1.5"),
        (lambda b: b.add_fetch("t", True, 0, 1), "partition is True"),
        (lambda b: b.max_wait(-1), "max_wait is -1: give milliseconds"),
        (lambda b: b.min_bytes("1"), "min_bytes is '1'"),
        (lambda b: b.max_bytes(0), "max_bytes is 0"),
        (lambda b: b.request_version(13), "request_version is 13: .*0 to 12"),
        (lambda b: b.client_id(None), "client_id is None"),
    ],
)
def test_what_no_broker_could_answer_is_refused_by_name(
    call: Callable[[FetchRequestBuilder], object], told: str
) -> None:
    with pytest.raises(ConfigError, match=told):
        call(FetchRequestBuilder())


# --- responses


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
@pytest.mark.parametrize("magic", [0, 1, 2])
def test_messages_begin_at_the_offset_that_was_asked_for(codec: Codec, magic: int) -> None:
    data = bytes(batch(*values(10, 5), codec=codec, magic=magic, base_offset=10))
    got = response(data, offset=12)
    messages = list(got.message_set("t", 0))
    assert [(one.offset, one.next_offset, one.message.key) for one in messages] == [
        (12, 13, b"k12"),
        (13, 14, b"k13"),
        (14, 15, b"k14"),
    ]
    assert got.batch("t", 0).column("offset").to_pylist() == [12, 13, 14]
    assert (got.next_offset("t", 0), got.high_watermark("t", 0)) == (15, 100)
    assert (got.has_error, got.error_code("t", 0), got.remark("t", 0)) == (False, Code.NONE, "")


def test_an_error_is_not_an_empty_log() -> None:
    got = response(b"", error=Code.OFFSET_OUT_OF_RANGE, offset=7, high_watermark=-1)
    assert (got.has_error, got.error_code("t", 0)) == (True, Code.OFFSET_OUT_OF_RANGE)
    with pytest.raises(KafkaError, match="t-0 at offset 7: OFFSET_OUT_OF_RANGE") as caught:
        list(got.message_set("t", 0))
    assert caught.value.code == Code.OFFSET_OUT_OF_RANGE
    with pytest.raises(KafkaError):
        got.batch("t", 0)
    with pytest.raises(KafkaError):
        got.next_offset("t", 0)
    assert got.remark("t", 0) == ""


def test_a_partition_that_was_not_asked_for_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match="t-1 is not in this fetch response, which has t-0"):
        response(b"").message_set("t", 1)


def test_a_broker_that_answers_for_others_breaks_the_protocol() -> None:
    request = FetchRequestBuilder().add_fetch("t", 0, 0, 1).build()
    with pytest.raises(RemoteProtocolError, match="asked for t-0, which the Fetch response lacks"):
        FetchResponse(request, wire.FetchResponse(responses=[]), NEW)


def test_a_message_that_was_cut_tells_the_size_that_it_needs() -> None:
    whole = bytes(batch(*values(0, 1, 1000), magic=0))
    got = response(whole[:100], fetch_size=100, version=OLD)
    assert list(got.message_set("t", 0)) == []
    assert (got.message_set("t", 0).size_in_bytes, got.message_set("t", 0).valid_bytes) == (100, 0)
    assert (got.bytes_needed("t", 0), got.next_offset("t", 0)) == (len(whole), 0)
    assert (
        f"t-0 at offset 0: fetch_size 100 is too small. The message takes {len(whole)} bytes"
        in got.remark("t", 0)
    )
    assert f"fetch_size={len(whole)}" in got.remark("t", 0)


def test_a_cut_that_hides_the_size_says_so() -> None:
    got = response(bytes(batch(*values(0, 1)))[:5], fetch_size=5, version=OLD)
    assert got.bytes_needed("t", 0) == 12
    assert "takes at least 12 bytes" in got.remark("t", 0)


def test_a_converting_broker_that_sends_nothing_is_told_of() -> None:
    """As Kafka 3.9 does for Fetch 0 to 2."""
    got = response(b"", offset=3, fetch_size=100, version=OLD, high_watermark=5)
    assert list(got.message_set("t", 0)) == []
    assert got.remark("t", 0).endswith("does not fit into fetch_size 100 or max_bytes: ask for more bytes")
    assert response(b"", offset=5, version=OLD, high_watermark=5).remark("t", 0) == ""


def test_an_overflow_entry_tells_no_size() -> None:
    got = response(struct.pack(">qi", -1, 1 << 20) + bytes(5), fetch_size=100, version=OLD, high_watermark=1)
    assert (list(got.message_set("t", 0)), got.bytes_needed("t", 0)) == ([], 0)
    assert got.remark("t", 0).endswith("does not fit into fetch_size 100 or max_bytes: ask for more bytes")


def test_a_cut_tail_is_as_usual() -> None:
    first, second = bytes(batch(*values(0, 2))), bytes(batch(*values(2, 1), base_offset=2))
    got = response(first + second[:-1], version=OLD)
    assert [one.offset for one in got.message_set("t", 0)] == [0, 1]
    assert (got.bytes_needed("t", 0), got.remark("t", 0), got.next_offset("t", 0)) == (0, "", 2)


def test_damage_tells_where_it_is_and_how_to_get_past_it() -> None:
    sound, damaged = bytes(batch(*values(0, 2))), bytearray(batch(*values(2, 3), base_offset=2))
    damaged[-1] ^= 1
    got = response(sound + bytes(damaged))
    assert [one.offset for one in got.message_set("t", 0)] == [0, 1]
    assert got.next_offset("t", 0) == 2
    again = response(bytes(damaged), offset=2)
    with pytest.raises(
        CorruptRecord, match=r"t-0 at offset 2: .*a fetch from offset 5 passes over it"
    ) as caught:
        list(again.message_set("t", 0))
    assert caught.value.next_offset == 5
