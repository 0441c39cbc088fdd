"""Any bytes give a value or `RemoteProtocolError`, and cost no more memory than a multiple of themselves."""

from __future__ import annotations

import random
import struct
import tracemalloc
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ottla.model.errors import LocalProtocolError, RemoteProtocolError
from ottla.wire.api.fetch import FetchRequest, FetchTopic
from ottla.wire.api.metadata import MetadataRequest, MetadataResponse
from ottla.wire.api.produce import ProducePartition, ProduceRequest, ProduceTopic
from ottla.wire.schema import ProtocolMessage, decode, decode_prefix, encode
from tests.scale import sized
from tests.wire.messages import KINDS, Row, messages, rows_of

HUGE_COUNTS = [
    b"\x7f\xff\xff\xff",
    b"\xff\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\x07",
    b"\xff\xff\xff\x7f",
    b"\x7f\xff",
]
# An empty list element can be one byte on the wire and an object of some 200 bytes here.
AMPLIFICATION = 250
ALLOWANCE_BYTES = 20_000


def attempt(kind: type[ProtocolMessage], version: int, data: bytes) -> ProtocolMessage | None:
    try:
        return decode(kind, version, data)
    except RemoteProtocolError as error:
        text = str(error)
    assert text.startswith(f"{kind.__name__} v{version}: "), text
    return None


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@settings(max_examples=sized(2, 60), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_random_values_survive_the_round_trip_in_every_version(
    kind: type[ProtocolMessage], data: st.DataObject
) -> None:
    for version in range(kind.API.version_newest + 1):
        message = data.draw(messages(kind, version))  # type: ignore[arg-type]  # classes are hashable
        assert decode(kind, version, b"".join(encode(message, version))) == message


@settings(max_examples=sized(200, 4000), deadline=None)
@given(kind=st.sampled_from(KINDS), data=st.binary(max_size=200), draw=st.data())
def test_random_bytes_are_read_or_refused(
    kind: type[ProtocolMessage], data: bytes, draw: st.DataObject
) -> None:
    attempt(kind, draw.draw(st.integers(0, kind.API.version_newest)), data)


def test_a_message_cut_anywhere_is_refused() -> None:
    for row in rows_of("full"):
        assert row.data is not None
        for length in range(len(row.data)):
            assert attempt(row.kind, row.version, row.data[:length]) is None, (row.label, length)


def test_bytes_behind_a_message_are_refused_or_left_to_the_caller() -> None:
    for row in rows_of("null"):
        assert row.data is not None
        assert attempt(row.kind, row.version, row.data + b"\0") is None
        assert decode_prefix(row.kind, row.version, row.data + b"\0") == (row.message, len(row.data))


def test_librdkafka_asks_for_all_topics_with_bytes_too_many() -> None:
    """As confluent-kafka 2.16.1 sends it: after the compact null follow three bytes of a legacy count."""
    request, position = decode_prefix(MetadataRequest, 12, bytes.fromhex("00 00 00 00 01 00 00"))
    assert request.topics is None
    assert position == 4


def test_damaged_messages_are_refused_or_stay_readable() -> None:
    """What is accepted in spite of damage must be a value that we could have sent ourselves."""
    chance = random.Random(0)
    for row in rows_of("full", "null", "long"):
        for damaged in mutations(row, chance, 6):
            message = attempt(row.kind, row.version, damaged)
            if message is not None:
                assert decode(row.kind, row.version, b"".join(encode(message, row.version))) == message


def mutations(row: Row, chance: random.Random, count: int) -> Iterator[bytes]:
    for _ in range(count):
        data = bytearray(row.data or b"\0")
        for _ in range(chance.randint(1, 3)):
            position = chance.randrange(len(data))
            length = chance.choice([0, 1, 1, 1, 2, 4])
            data[position : position + length] = chance.choice(
                [b"", b"\0", b"\xff", b"\x80", chance.randbytes(2)]
            )
            data += b"\0" * (not data)
        yield bytes(data)


@pytest.mark.parametrize("count", HUGE_COUNTS, ids=bytes.hex)
def test_a_huge_count_anywhere_is_refused_before_anything_is_allocated(count: bytes) -> None:
    newest = [row for row in rows_of("full") if row.version in (3, row.kind.API.version_newest)]
    tracemalloc.start()
    try:
        for row in newest:
            data = row.data or b""
            for position in range(0, len(data), sized(7, 3)):
                hostile = data[:position] + count + data[position + len(count) :]
                allowed = ALLOWANCE_BYTES + AMPLIFICATION * len(hostile)
                # Threads that other tests have left count too, but not three times in a row.
                assert any(peak_bytes(row, hostile) < allowed for _ in range(3)), row.label
    finally:
        tracemalloc.stop()


def peak_bytes(row: Row, data: bytes) -> int:
    tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    attempt(row.kind, row.version, data)
    return tracemalloc.get_traced_memory()[1] - before


def test_the_densest_valid_message_costs_a_bounded_multiple_of_its_size() -> None:
    """Elements of the fewest bytes: topics with an empty name and no partitions."""
    count = 20_000
    data = b"\0" * 25 + b"\xa1\x9c\x01" + b"\x01\x01\0" * count + b"\x01\x01\0"
    tracemalloc.start()
    try:
        message = decode(FetchRequest, 12, data)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert message.topics == [FetchTopic()] * count
    assert peak < AMPLIFICATION * len(data)


# --- each rule of the format ----------------------------------------------------------------------------

PRODUCE_9 = b"\x00\x00\x01\x00\x00\x00\x01\x02\x02t\x02\x00\x00\x00\x05\x03ab\0\0\0"


def refused(kind: type[ProtocolMessage], version: int, data: bytes) -> str:
    with pytest.raises(RemoteProtocolError) as caught:
        decode(kind, version, data)
    return str(caught.value)


def test_the_message_that_the_following_tests_damage_is_sound() -> None:
    partition = ProducePartition(index=5, records=b"ab")
    topic = ProduceTopic(name="t", partition_data=[partition])
    assert decode(ProduceRequest, 9, PRODUCE_9) == ProduceRequest(acks=1, timeout_ms=1, topic_data=[topic])


def test_null_where_the_version_has_none() -> None:
    text = refused(ProduceRequest, 9, PRODUCE_9.replace(b"\x02t", b"\x00"))
    assert text == (
        "ProduceRequest v9: topic_data.name: null, but not nullable in this version, allowed are 0 to 32767"
    )
    assert "topic_data: null" in refused(ProduceRequest, 0, struct.pack(">hii", 1, 1, -1))


def test_a_negative_length_other_than_null() -> None:
    body = struct.pack(">hiih1sii", 1, 1, 1, 1, b"t", 1, 5) + struct.pack(">i", -2)
    assert "topic_data.partition_data.records: length -2" in refused(ProduceRequest, 0, body)


def test_text_that_is_not_utf8() -> None:
    text = refused(ProduceRequest, 9, PRODUCE_9.replace(b"\x02t", b"\x02\xff"))
    assert text == "ProduceRequest v9: topic_data.name: not UTF-8 at position 9: invalid start byte"


def test_a_string_over_the_limit_of_kafka() -> None:
    body = b"\x81\x80\x02" + b"x" * 0x8000 + PRODUCE_9[1:]
    assert "transactional_id: length 32768, allowed are -1 to 32767" in refused(ProduceRequest, 9, body)


def test_a_varint_without_end() -> None:
    assert "transactional_id: varint of over 5 bytes" in refused(ProduceRequest, 9, b"\xff" * 12)
    assert "ends in a varint at position 0" in refused(ProduceRequest, 9, b"\xff")


def test_a_count_that_cannot_fit_names_its_numbers() -> None:
    text = refused(ProduceRequest, 9, PRODUCE_9.replace(b"\x02\x02t", b"\x7f\x02t"))
    assert text == (
        "ProduceRequest v9: topic_data: 126 elements of at least 3 bytes at position 8, but 13 bytes remain"
    )


def test_a_tag_nobody_knows_is_skipped() -> None:
    with_tag = PRODUCE_9[:-1] + b"\x01\x07\x03abc"
    assert decode(ProduceRequest, 9, with_tag) == decode(ProduceRequest, 9, PRODUCE_9)


@pytest.mark.parametrize(
    "tags", [b"\x02\x01\x00\x01\x00", b"\x02\x02\x00\x01\x00"], ids=["twice", "descending"]
)
def test_tags_out_of_order(tags: bytes) -> None:
    assert "tags: tag 1 after tag" in refused(ProduceRequest, 9, PRODUCE_9[:-1] + tags)


def test_a_tag_with_more_bytes_than_its_value() -> None:
    body = b"".join(encode(FetchRequest(cluster_id="c"), 12))
    assert body.endswith(b"\x01\x00\x02\x02c")
    longer = body[:-5] + b"\x01\x00\x03\x02c\x00"
    assert "tags: tag 0: 1 bytes too many" in refused(FetchRequest, 12, longer)


def test_a_tag_that_ends_behind_the_message() -> None:
    assert "tag 7: needs 9 bytes" in refused(ProduceRequest, 9, PRODUCE_9[:-1] + b"\x01\x07\x09abc")


def test_a_version_that_does_not_exist_is_our_own_mistake() -> None:
    for version in (-1, 14):
        with pytest.raises(LocalProtocolError, match=rf"version {version} does not exist; known are 0 to 13"):
            decode(MetadataResponse, version, b"")
        with pytest.raises(LocalProtocolError, match=rf"version {version} does not exist"):
            encode(MetadataResponse(), version)
