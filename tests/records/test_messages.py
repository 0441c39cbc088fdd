"""Messages one by one: sets of any format, damage behind the last sound one, decoders without nulls."""

from __future__ import annotations

from itertools import product

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.model.errors import CorruptRecord
from ottla.records.compression import Codec
from ottla.records.messages import (
    Message,
    MessageAndMetadata,
    MessageAndOffset,
    MessageSet,
    Origin,
    TimestampType,
    binary_values,
    to_columns,
    to_messages,
)
from tests.naive.comparison import expected
from tests.naive.strategies import record_sets
from tests.records.set_samples import mixed_set

PAIRS = [
    (magic, codec) for magic, codec in product((0, 1, 2), Codec) if magic == 2 or codec is not Codec.ZSTD
]


@pytest.mark.parametrize(("magic", "codec"), PAIRS)
def test_messages_survive_the_round_trip(magic: int, codec: Codec) -> None:
    kind = TimestampType.CREATE_TIME if magic else TimestampType.NONE
    time = 77 if magic else -1
    messages = [
        Message(b"v", b"k", time, timestamp_type=kind),
        Message(None, b"k", time, timestamp_type=kind),
        Message(b"", None, -1, timestamp_type=kind),
    ]
    found = list(MessageSet.of(messages, codec, magic=magic, base_offset=5, batch_bytes=200))
    assert found == [MessageAndOffset(message, 5 + n) for n, message in enumerate(messages)]
    assert [one.next_offset for one in found] == [6, 7, 8]


def test_headers_survive_the_round_trip() -> None:
    message = Message(b"v", headers=(("a", b"1"), ("b", None)))
    assert [one.message for one in MessageSet.of([message, Message(b"w")])] == [message, Message(b"w")]


@given(data=record_sets())
def test_any_record_set_is_iterated_as_the_oracle_reads_it(data: bytes) -> None:
    found = [
        (
            one.offset,
            one.message.timestamp_ms,
            one.message.timestamp_type,
            *one.message[:2],
            one.message.headers,
        )
        for one in MessageSet(data)
    ]
    wanted = [
        (
            one.offset,
            -1 if one.timestamp is None else one.timestamp,
            one.timestamp_type,
            one.value,
            one.key,
            one.headers,
        )
        for one in expected(data, headers=True).records
    ]
    assert found == wanted


def test_damage_is_raised_behind_the_last_sound_message() -> None:
    data = bytearray(mixed_set())
    data[-1] ^= 1
    messages = iter(MessageSet(data))
    sound = [*range(21), *range(26, 37)]
    assert [next(messages).offset for _ in sound] == sound
    with pytest.raises(CorruptRecord, match="checksum") as caught:
        next(messages)
    assert caught.value.offset == 37


def test_sizes_tell_whole_entries_from_the_rest() -> None:
    data = mixed_set()
    assert (MessageSet(data).size_in_bytes, MessageSet(data).valid_bytes) == (len(data), len(data))
    cut = MessageSet(data[:-1])
    assert cut.size_in_bytes == len(data) - 1
    assert cut.valid_bytes < len(data) - 1
    assert MessageSet(b"").valid_bytes == 0
    assert list(MessageSet(b"")) == []


def test_columns_start_where_asked() -> None:
    (piece,) = MessageSet(mixed_set()).decoded(from_offset=30)
    assert piece.batch.column("offset").to_pylist() == [*range(30, 38)]


def test_decoders_run_when_asked_and_never_see_a_null() -> None:
    seen: list[bytes] = []

    def text(data: bytes) -> str:
        seen.append(data)
        return data.decode()

    origin = Origin("t", 3, text, text)
    row = MessageAndMetadata[str, str](9, None, b"v", 5, origin=origin)
    assert (row.topic, row.partition, row.offset, row.next_offset, row.timestamp_ms) == ("t", 3, 9, 10, 5)
    assert row.timestamp_type is TimestampType.CREATE_TIME
    assert seen == []
    assert (row.key, row.value, row.message) == (None, "v", "v")
    tombstone = MessageAndMetadata[str, str](10, b"k", None, origin=origin)
    assert (tombstone.key, tombstone.value) == ("k", None)
    assert seen == [b"v", b"v", b"k"]
    assert repr(tombstone) == "MessageAndMetadata(t-3@10, key=b'k', value=None)"


def test_a_decoder_that_fails_does_so_when_asked() -> None:
    origin = Origin("t", 0, bytes.decode, bytes.decode)
    row = MessageAndMetadata[str, str](0, b"k", b"\xff", origin=origin)
    assert row.key == "k"
    with pytest.raises(UnicodeDecodeError):
        _ = row.value


@given(values=st.lists(st.none() | st.binary(max_size=9), max_size=9), first=st.integers(0, 9))
def test_values_are_those_of_to_pylist(values: list[bytes | None], first: int) -> None:
    assert binary_values(pa.array(values, pa.binary()).slice(first)) == values[first:]


def test_a_slice_of_columns_gives_its_rows() -> None:
    messages = [Message(b"v%d" % n, headers=(("h", b"%d" % n),) * (n % 3)) for n in range(6)]
    (piece,) = MessageSet.of(messages).decoded(headers=True)
    assert [one.message for one in to_messages(piece.batch.slice(2, 3))] == messages[2:5]
    assert to_columns([]).num_rows == 0


@pytest.mark.parametrize(
    ("message", "data"),
    [
        (Message(b"hello"), "87a77ab20000ffffffff0000000568656c6c6f"),
        (Message(b"v", b"k"), "1fecd70a0000000000016b0000000176"),
        (Message(b"v", b"k", 1500000000000), "bf070c1c01000000015d3ef79800000000016b0000000176"),
    ],
)
def test_a_message_has_the_bytes_of_the_old_formats(message: Message, data: str) -> None:
    """As Kafka's class of this name; the bytes are those that kafka-python's codec reads."""
    assert message.to_bytes().hex() == data
    assert (message.size, message.crc) == (len(data) // 2, int(data[:8], 16))
    assert (message.magic, message.attributes) == (int(data[8:10], 16), 0)
    stored = MessageSet.of([message], magic=message.magic)
    assert bytes(stored.data[12:]) == message.to_bytes()


def test_a_row_has_its_message() -> None:
    row = MessageAndMetadata[bytes, bytes](9, b"k", b"v", 5, TimestampType.LOG_APPEND_TIME)
    raw = row.raw_message
    assert raw == Message(b"v", b"k", 5, (), TimestampType.LOG_APPEND_TIME)
    assert (raw.magic, raw.attributes) == (1, 8)
