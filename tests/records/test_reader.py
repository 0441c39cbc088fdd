"""Record sets into Arrow, compared with the oracle of `tests.naive`: formats, offsets, times, limits."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.kernels import kernel
from ottla.model.errors import ConfigError, CorruptRecord
from ottla.records import reader
from ottla.records.columns import SCHEMA, SCHEMA_WITH_HEADERS, plain_rows
from ottla.records.compression import Codec, compress
from ottla.records.entries import read_only, scan, verified
from ottla.records.reader import decode, decode_together, is_plain
from tests.naive.comparison import assert_agreement, expected, read
from tests.naive.record_set import (
    Record,
    batch,
    message,
    record,
    sealed_message,
    wrapper,
)
from tests.naive.spec_examples import MESSAGES
from tests.naive.strategies import ABORTED, record_sets
from tests.records.codec_samples import COMPRESSING
from tests.records.set_samples import mixed_set, records

LEGACY_CODECS = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4]

# ---- agreement with the oracle


@given(data=record_sets(), start=st.integers(0, 400), headers=st.booleans(), aborted=ABORTED)
def test_any_sound_record_set_is_read_as_the_oracle_reads_it(
    data: bytes, start: int, headers: bool, aborted: list[tuple[int, int]]
) -> None:
    outcome = assert_agreement(data, from_offset=start, headers=headers, aborted=aborted)
    assert outcome.damage is None
    assert outcome.valid_bytes == len(data)


@given(data=record_sets(max_entries=3), cut=st.integers(1, 10_000), headers=st.booleans())
def test_a_record_set_that_was_cut_gives_its_whole_entries(data: bytes, cut: int, headers: bool) -> None:
    outcome = assert_agreement(data[: max(0, len(data) - cut)], headers=headers)
    assert outcome.damage is None


@given(
    data=record_sets(max_entries=3),
    places=st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), min_size=1, max_size=3),
    options=st.fixed_dictionaries(
        {"verify_crc": st.booleans(), "headers": st.booleans(), "aborted": ABORTED}
    ),
)
def test_damage_is_seen_where_the_oracle_sees_it(
    data: bytes, places: list[tuple[int, int]], options: dict[str, Any]
) -> None:
    damaged = bytearray(data or b"\0")
    for place, value in places:
        damaged[place % len(damaged)] = value
    assert_agreement(bytes(damaged), **options)


@given(data=st.binary(max_size=200), headers=st.booleans())
def test_random_bytes_are_read_or_refused_as_by_the_oracle(data: bytes, headers: bool) -> None:
    assert_agreement(data, headers=headers, verify_crc=False)


@pytest.mark.parametrize(("encoded", "wanted"), MESSAGES)
def test_messages_of_the_spec_are_read(encoded: str, wanted: Record) -> None:
    assert read(bytes.fromhex(encoded), headers=True).records == [wanted]


# ---- offsets, formats, times


def test_a_mixed_set_gives_every_offset_once() -> None:
    outcome = assert_agreement(mixed_set(), headers=True)
    wanted = [*range(21), *range(26, 38)]
    assert [one.offset for one in outcome.records] == wanted
    assert (outcome.next_offset, outcome.valid_bytes) == (38, len(mixed_set()))


def test_a_mixed_set_can_be_entered_at_any_offset() -> None:
    data = mixed_set()
    for start in range(40):
        outcome = assert_agreement(data, from_offset=start)
        assert all(one.offset >= start for one in outcome.records)
        assert outcome.next_offset == max(start, 38)


def test_a_mixed_set_cut_at_any_byte_gives_the_complete_prefix() -> None:
    data = mixed_set()
    whole = expected(data).records
    for length in range(0, len(data), 1 if kernel.JIT else 5):
        outcome = assert_agreement(data[:length])
        assert outcome.records == whole[: len(outcome.records)]
        assert outcome.valid_bytes is not None
        assert outcome.valid_bytes <= length
        assert outcome.damage is None


@pytest.mark.parametrize("codec", LEGACY_CODECS, ids=lambda codec: codec.label)
@pytest.mark.parametrize(("inner", "wanted"), [((0, 1, 2), [8, 9, 10]), ((0, 2), [8, 10])])
def test_format_1_counts_back_from_the_wrappers_offset(
    codec: Codec, inner: tuple[int, ...], wanted: list[int]
) -> None:
    data = wrapper(1, 10, [message(1, n, b"k", b"v") for n in inner], codec)
    assert [one.offset for one in assert_agreement(data).records] == wanted
    assert read(data).next_offset == 11


def test_format_0_keeps_the_offsets_inside_a_wrapper() -> None:
    data = wrapper(0, 10, [message(0, n, b"k", b"v") for n in (4, 7, 10)], Codec.GZIP)
    assert [one.offset for one in assert_agreement(data).records] == [4, 7, 10]


def test_a_wrapper_at_0_over_several_messages_keeps_their_offsets() -> None:
    """As some librdkafka producers left them; Java's reader does the same."""
    data = wrapper(1, 0, [message(1, n, b"k", b"v") for n in range(3)], Codec.GZIP)
    assert [one.offset for one in assert_agreement(data).records] == [0, 1, 2]


def test_a_wrapper_below_its_own_messages_is_damaged() -> None:
    data = wrapper(1, 2, [message(1, n, b"k", b"v") for n in range(6)], Codec.GZIP)
    assert assert_agreement(data).damage == (2, 3)


def test_log_append_time_of_a_wrapper_is_that_of_its_messages() -> None:
    inner = [message(1, n, b"k", b"v", timestamp=n) for n in range(2)]
    own, broker = (wrapper(1, 1, inner, Codec.LZ4, timestamp=99, attributes=bits) for bits in (0, 8))
    assert [(one.timestamp, one.timestamp_type) for one in assert_agreement(own).records] == [(0, 0), (1, 0)]
    assert [(one.timestamp, one.timestamp_type) for one in assert_agreement(broker).records] == [(99, 1)] * 2


def test_log_append_time_of_a_batch_is_its_largest_timestamp() -> None:
    data = batch(records(2), base_timestamp=5, max_timestamp=99, attributes=0x08)
    assert [(one.timestamp, one.timestamp_type) for one in assert_agreement(data).records] == [(99, 1)] * 2


def test_a_missing_timestamp_is_null_and_a_negative_one_is_not() -> None:
    data = message(1, 0, None, b"a", timestamp=-1) + message(1, 1, None, b"b", timestamp=-2)
    data += batch([record(0, timestamp_delta=-1), record(1, timestamp_delta=-7)], base_offset=2)
    assert [one.timestamp for one in assert_agreement(data).records] == [None, -2, None, -7]


def test_gaps_that_compaction_left_are_kept_and_passed() -> None:
    data = batch([record(2, b"k"), record(7, b"k")], base_offset=100, last_delta=20)
    outcome = assert_agreement(data)
    assert [one.offset for one in outcome.records] == [102, 107]
    assert outcome.next_offset == 121


@pytest.mark.parametrize("attributes", [0, *COMPRESSING, 0x10])
def test_an_empty_batch_moves_the_next_offset(attributes: int) -> None:
    data = batch(base_offset=7, last_delta=4, attributes=attributes)
    assert assert_agreement(data) == ([], 12, len(data), None, False)


@given(sets=st.lists(st.tuples(record_sets(max_entries=3), st.integers(0, 100)), max_size=5))
def test_plain_sets_that_are_decoded_together_are_what_each_is_alone(sets: list[tuple[bytes, int]]) -> None:
    entries = [(verified(scan(read_only(data), verify_crc=True)), start, data) for data, start in sets]
    plain = [found for found in entries if is_plain(found[0])]
    together = decode_together([(found, start) for found, start, _ in plain])
    alone = [decode(data, from_offset=start) for _, start, data in plain]
    assert [plain_rows(one.batch) for one in together] == [plain_rows(one.batch) for one in alone]
    for one, other in zip(together, alone, strict=True):
        assert (one.next_offset, one.valid_bytes) == (other.next_offset, other.valid_bytes)
        assert one.nbytes <= other.nbytes  # bits for nulls are not counted


def test_sets_behind_a_damaged_one_are_left_out() -> None:
    sound, damaged = batch(records(3)), batch([b"\x7f"])
    sets = [(scan(read_only(data), verify_crc=True), 0) for data in (sound, damaged, sound)]
    assert [one.batch.num_rows for one in decode_together(sets)] == [3]


def test_nothing_comes_of_nothing() -> None:
    assert assert_agreement(b"", from_offset=5) == ([], 5, 0, None, False)
    decoded = decode(b"", headers=True)
    assert decoded.batch.schema == SCHEMA_WITH_HEADERS
    assert decoded.batch.num_rows == 0


def test_the_schema_is_the_documented_one() -> None:
    assert decode(mixed_set()).batch.schema == SCHEMA
    assert decode(mixed_set(), headers=True).batch.schema == SCHEMA_WITH_HEADERS


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, lambda data: np.frombuffer(data, np.uint8)])
def test_bytes_may_come_as_any_buffer(kind: type) -> None:
    assert decode(kind(mixed_set())).batch.equals(decode(mixed_set()).batch)


def test_the_brokers_overflow_entry_is_a_partial_tail() -> None:
    """Down-conversion fills a response with an entry at offset -1 that is larger than what is left."""
    data = message(1, 3, b"k", b"v")
    outcome = assert_agreement(data + struct.pack(">qi", -1, 1000) + bytes(40))
    assert (outcome.next_offset, outcome.valid_bytes, outcome.damage) == (4, len(data), None)


def test_more_entries_than_one_table_holds_are_found() -> None:
    count = 5000 if kernel.JIT else 400
    data = b"".join(message(1, n, b"k%d" % n, b"v", timestamp=n) for n in range(count))
    assert len(assert_agreement(data).records) == count


def test_formats_may_change_at_every_entry() -> None:
    parts = []
    for offset in range(150):
        if offset % 3 == 2:
            parts.append(batch([record(0, b"2", b"v", headers=[(b"h", b"%d" % offset)])], base_offset=offset))
        else:
            parts.append(message(offset % 3, offset, b"k", b"v%d" % offset))
    assert [one.offset for one in assert_agreement(b"".join(parts), headers=True).records] == [*range(150)]


@pytest.mark.parametrize("size", [0, 1, 62, 63, 64, 65, 127, 128, 8191, 8192, 70_000])
def test_keys_and_values_of_any_length_are_copied_whole(size: int) -> None:
    text = bytes(n * 7 % 256 for n in range(min(size, 256))) * (size // 256 + 1)
    text = text[:size]
    data = batch([record(0, text, b"next"), record(1, b"", text), record(2, text[::-1], text)])
    data += message(0, 3, text, text) + message(1, 4, None, text)
    assert_agreement(data)


def test_header_keys_that_are_not_utf_8_are_read_with_replacement_characters() -> None:
    data = batch([record(0, headers=[(b"a\xff", b"1"), ("é€".encode(), None)])])
    assert assert_agreement(data, headers=True).records[0].headers == (("a�", b"1"), ("é€", None))


# ---- compression


@pytest.mark.parametrize("magic", [0, 1])
def test_format_0_lz4_is_read_with_the_wrong_and_the_right_header_checksum(magic: int) -> None:
    inner = b"".join(message(magic, n, b"k", b"v") for n in range(2))
    for written_as in (0, 1, 2):
        value = bytes(compress(Codec.LZ4, inner, magic=written_as))
        data = message(magic, 1, None, value, attributes=Codec.LZ4)
        if magic == 0 or written_as > 0:
            assert len(assert_agreement(data).records) == 2
        else:
            assert assert_agreement(data).damage == (1, 2)


def test_zstd_in_formats_0_and_1_is_damage() -> None:
    for magic in (0, 1):
        data = message(magic, 4, None, b"\x28\xb5\x2f\xfd\x04\x00\x01\x00\x00", attributes=Codec.ZSTD)
        with pytest.raises(CorruptRecord, match=f"zstd data in message format {magic}") as caught:
            decode(data)
        assert (caught.value.offset, caught.value.next_offset) == (4, 5)


@pytest.mark.parametrize("number", [5, 6, 7])
def test_a_codec_that_does_not_exist_is_damage(number: int) -> None:
    for data in (batch(records(1), attributes=number), message(1, 0, None, b"v", attributes=number)):
        with pytest.raises(CorruptRecord, match=f"codec {number}, which does not exist"):
            decode(data)


def test_wrappers_in_wrappers_and_other_formats_in_wrappers_are_damage() -> None:
    nested = wrapper(1, 0, [wrapper(1, 0, [message(1, 0)], Codec.GZIP)], Codec.GZIP)
    other = wrapper(1, 0, [message(0, 0)], Codec.GZIP)
    newer = wrapper(1, 0, [batch(records(1))], Codec.GZIP)
    for data, text in (
        (nested, "holds another compressed message"),
        (other, "of format 1 holds messages of another"),
        (newer, "of format 1 holds messages of another"),
    ):
        assert assert_agreement(data).raised
        with pytest.raises(CorruptRecord, match=text):
            decode(data)


def test_a_damaged_message_inside_a_wrapper_is_damage_of_the_wrapper() -> None:
    broken = bytearray(message(1, 1, b"k", b"v"))
    broken[-1] ^= 1
    data = message(0, 0) + wrapper(1, 2, [message(1, 0), bytes(broken)], Codec.GZIP)
    outcome = assert_agreement(data)
    assert ([one.offset for one in outcome.records], outcome.damage) == ([0], (2, 3))
    assert "inside a compressed message" in str(decode(data).damage)
    assert len(assert_agreement(data, verify_crc=False).records) == 3


def test_messages_before_a_damaged_one_in_the_same_wrapper_are_delivered() -> None:
    """Checksums are right, lengths are not: seen only when the message itself is read."""
    broken = sealed_message(1, struct.pack(">BBqii", 1, 0, 0, 90, -1))
    inner = [message(1, 0, b"k", b"v"), broken, message(1, 2, b"k", b"v")]
    data = batch(records(2), base_offset=5) + wrapper(1, 9, inner, Codec.LZ4)
    outcome = assert_agreement(data)
    assert [one.offset for one in outcome.records] == [5, 6, 7]
    assert (outcome.next_offset, outcome.damage) == (8, (8, 9))
    assert outcome.valid_bytes == len(batch(records(2), base_offset=5))


def test_a_wrapper_without_a_value_or_with_wrong_lengths_is_damage() -> None:
    cases = [
        message(1, 3, None, None, attributes=1),
        sealed_message(3, struct.pack(">BBqii", 1, 1, 0, 90, 0)),
        sealed_message(3, struct.pack(">BBqii", 1, 1, 0, -1, 7)),
        sealed_message(3, struct.pack(">BBqii", 1, 1, 0, -5, 0)),
    ]
    for data in cases:
        assert assert_agreement(data).damage == (3, 4)
        with pytest.raises(CorruptRecord, match="does not fit its bytes"):
            decode(data)


@pytest.mark.parametrize("codec", COMPRESSING, ids=lambda codec: codec.label)
def test_a_bomb_stops_at_the_limit(codec: Codec) -> None:
    bomb = batch([record(0, None, bytes(4_000_000))], codec=codec)
    with pytest.raises(CorruptRecord, match="become more than the limit of 100,000 bytes") as caught:
        decode(bomb, decompressed_bytes_max=100_000)
    assert (caught.value.offset, caught.value.next_offset) == (0, 1)
    assert decode(bomb).batch.num_rows == 1


@pytest.mark.parametrize("codec", COMPRESSING, ids=lambda codec: codec.label)
def test_data_over_the_limit_are_read_in_several_calls(codec: Codec) -> None:
    batches = [batch(records(20), base_offset=20 * n, codec=codec) for n in range(10)]
    data = b"".join(batches)
    whole = expected(data, headers=True).records
    limit = 2 * len(b"".join(records(20))) + 10
    found, at, start, calls = [], 0, 0, 0
    while at < len(data):
        outcome = assert_agreement(data[at:], from_offset=start, headers=True, decompressed_bytes_max=limit)
        assert outcome.damage is None
        found += outcome.records
        assert outcome.valid_bytes is not None
        assert outcome.next_offset is not None
        at, start, calls = at + outcome.valid_bytes, outcome.next_offset, calls + 1
    assert found == whole
    assert calls == 5


def test_an_entry_that_alone_exceeds_the_limit_is_reported_behind_what_fits() -> None:
    small, large = (batch([record(0, None, bytes(size))], codec=Codec.ZSTD) for size in (10, 100_000))
    data = small + batch([record(0, None, b"plain")], base_offset=1) + large
    first = assert_agreement(data, decompressed_bytes_max=1000)
    assert (len(first.records), first.damage) == (2, None)
    rest = assert_agreement(data[first.valid_bytes :], decompressed_bytes_max=1000)
    assert rest.raised


def test_columns_over_the_size_that_arrow_can_index_are_read_in_several_calls(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The real bound is 2 GiB; a smaller one shows the same."""
    data = b"".join(batch(records(5), base_offset=5 * n) for n in range(6)) + message(1, 30, b"k", b"v" * 50)
    whole = expected(data).records
    monkeypatch.setattr(reader, "COLUMN_BYTES_MAX", 2 * len(b"".join(records(5))) + 1)
    found, at, start, calls = [], 0, 0, 0
    while at < len(data):
        outcome = read(data[at:], from_offset=start)
        found += outcome.records
        assert outcome.valid_bytes is not None
        assert outcome.next_offset is not None
        at, start, calls = at + outcome.valid_bytes, outcome.next_offset, calls + 1
    assert found == whole
    assert calls == 4


@pytest.mark.parametrize("limit", [0, -1, 1 << 31])
def test_a_limit_beyond_what_arrow_can_index_is_refused(limit: int) -> None:
    with pytest.raises(ConfigError, match=f"decompressed_bytes_max is {limit}"):
        decode(b"", decompressed_bytes_max=limit)
