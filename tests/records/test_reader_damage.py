"""Damaged and hostile record sets, compared with the oracle of `tests.naive`."""

from __future__ import annotations

import struct
import time

import pytest

from ottla.model.errors import CorruptRecord
from ottla.records.compression import Codec
from ottla.records.reader import decode
from tests.naive.comparison import assert_agreement, expected, records_of
from tests.naive.record_set import (
    batch,
    marker,
    message,
    sealed_batch,
    sealed_message,
    varint,
    wrapper,
)
from tests.records.codec_samples import each_codec
from tests.records.set_samples import records


def damage_cases() -> dict[str, tuple[bytes, str, tuple[int, int | None]]]:
    """Name → (entry at offset 50, words of the message, offset and next offset of the damage)."""
    sound = batch(records(3), base_offset=50)
    flipped = bytearray(sound)
    flipped[-1] ^= 0xFF
    old = bytearray(message(1, 50, b"k", b"v"))
    old[-1] ^= 0xFF
    content = bytearray(sound[21:])
    magic = bytearray(sound)
    magic[16] = 3

    def changed(at: int, layout: str, value: int) -> bytes:
        other = bytearray(content)
        struct.pack_into(layout, other, at - 21, value)
        return sealed_batch(50, bytes(other))

    return {
        "crc": (bytes(flipped), "checksum does not match", (50, 53)),
        "old crc": (bytes(old), "checksum does not match", (50, 51)),
        "size 0": (struct.pack(">qi", 50, 0) + bytes(20), "size is smaller", (50, 51)),
        "size 13": (struct.pack(">qi", 50, 13) + bytes(20), "size is smaller", (50, 51)),
        "size -1": (struct.pack(">qi", 50, -1) + bytes(20), "size is smaller", (50, 51)),
        "size of format 1": (struct.pack(">qiIB", 50, 21, 0, 1) + bytes(40), "size is smaller", (50, 51)),
        "size of format 2": (struct.pack(">qiIB", 50, 48, 0, 2) + bytes(60), "size is smaller", (50, 51)),
        "format": (bytes(magic), "none of 0, 1, 2", (50, 51)),
        "negative offset": (struct.pack(">q", -3) + sound[8:], "impossible numbers", (-3, None)),
        "huge offset": (
            struct.pack(">q", 1 << 62) + sound[8:],
            "impossible numbers",
            (1 << 62, (1 << 62) + 1),
        ),
        "last offset": (changed(23, ">i", -1), "impossible numbers", (50, None)),
        "early": (changed(27, ">q", -(1 << 62)), "impossible numbers", (50, 53)),
        "late": (changed(27, ">q", 1 << 62), "impossible numbers", (50, 53)),
        "count -1": (changed(57, ">i", -1), "impossible numbers", (50, 53)),
        "count 4": (changed(57, ">i", 4), "lengths do not fit", (50, 53)),
        "count 2": (changed(57, ">i", 2), "lengths do not fit", (50, 53)),
        "huge count": (changed(57, ">i", 0x7FFFFFFF), "impossible numbers", (50, 53)),
        "key": (sealed_message(50, struct.pack(">BBii", 0, 0, 5, -1)), "lengths do not fit", (50, 51)),
        "value": (sealed_message(50, struct.pack(">BBii", 0, 0, -1, 5)), "lengths do not fit", (50, 51)),
        "behind value": (sealed_message(50, struct.pack(">BBiib", 0, 0, -1, -1, 0)), "do not fit", (50, 51)),
        "key -2": (sealed_message(50, struct.pack(">BBii", 0, 0, -2, -1)), "lengths do not fit", (50, 51)),
    }


@pytest.mark.parametrize("name", list(damage_cases()))
def test_damage_names_its_place_and_reason(name: str) -> None:
    entry, words, place = damage_cases()[name]
    with pytest.raises(CorruptRecord, match=words) as caught:
        decode(entry)
    assert (caught.value.offset, caught.value.next_offset) == place
    assert f"at offset {place[0]}, byte 0 of the record set" in str(caught.value)
    assert assert_agreement(entry).damage == place


@pytest.mark.parametrize("name", list(damage_cases()))
def test_what_stands_before_damage_is_delivered_with_it(name: str) -> None:
    before = message(0, 40, b"k", b"v") + batch(records(4), base_offset=41, codec=Codec.LZ4)
    entry, words, place = damage_cases()[name]
    data = before + entry + batch(records(2), base_offset=60)
    outcome = assert_agreement(data)
    assert [one.offset for one in outcome.records] == [40, 41, 42, 43, 44]
    assert (outcome.next_offset, outcome.valid_bytes, outcome.damage) == (45, len(before), place)
    damage = decode(data).damage
    assert words in str(damage)
    assert f"byte {len(before)} of the record set" in str(damage)
    assert assert_agreement(data, from_offset=45).raised


def test_damage_at_the_end_leaves_everything_before_it() -> None:
    data = b"".join(batch(records(2), base_offset=2 * n) for n in range(5))
    broken = bytearray(data)
    broken[-1] ^= 1
    outcome = assert_agreement(bytes(broken))
    assert (len(outcome.records), outcome.next_offset, outcome.damage) == (8, 8, (8, 10))


@pytest.mark.parametrize("magic", [0, 1, 2])
def test_checksums_are_not_looked_at_when_nobody_asks(magic: int) -> None:
    data = bytearray(message(magic, 0, b"k", b"value") if magic < 2 else batch(records(1)))
    data[17 if magic == 2 else 12] ^= 0xFF
    assert assert_agreement(bytes(data)).raised
    assert len(assert_agreement(bytes(data), verify_crc=False).records) == 1


# A record of format 2 is: attributes, timestamp delta, offset delta, key, value, headers.
BAD_RECORDS = {
    "empty": b"",
    "only attributes": b"\0",
    "negative offset delta": b"\0\0" + varint(-1) + b"\1\1\0",
    "large offset delta": b"\0\0" + varint(1 << 31) + b"\1\1\0",
    "key of -2": b"\0\0\0" + varint(-2) + b"\1\0\0\0",
    "key beyond the record": b"\0\0\0" + varint(9) + b"\1\0\0\0",
    "huge key": b"\0\0\0" + varint((1 << 62) - 1) + b"\1\0",
    "value of -2": b"\0\0\0\1" + varint(-2) + b"\0\0\0",
    "value beyond the record": b"\0\0\0\1" + varint(4) + b"\0\0\0",
    "no header count": b"\0\0\0\1\2\0",
    "negative header count": b"\0\0\0\1\1\1",
    "header count beyond the record": b"\0\0\0\1\1" + varint(2) + b"\0\1\0",
    "huge header count": b"\0\0\0\1\1" + varint((1 << 62) - 1) + b"\0\1\0",
    "bytes behind no headers": b"\0\0\0\1\1\0\0",
    "zero headers in two bytes": b"\0\0\0\1\1\x80\0",
    "time in ten bytes": b"\0" + b"\xff" * 9 + b"\x01" + b"\0\1\1\0",
    "endless varint": b"\0" + b"\xff" * 40,
}


@each_codec
@pytest.mark.parametrize("name", list(BAD_RECORDS))
def test_a_record_whose_lengths_do_not_fit_is_damage_of_its_batch(name: str, codec: Codec) -> None:
    content = BAD_RECORDS[name]
    data = batch([*records(2), varint(len(content)) + content, *records(3, 3)], base_offset=9, codec=codec)
    outcome = assert_agreement(batch(records(9)) + data)
    assert (outcome.damage, outcome.next_offset, len(outcome.records)) == ((9, 15), 9, 9)


@pytest.mark.parametrize("length", [-1, 1 << 20, (1 << 62) - 1], ids=str)
def test_a_record_length_beyond_its_batch_is_damage(length: int) -> None:
    data = batch([varint(length) + records(1)[0][1:]])
    with pytest.raises(CorruptRecord, match="a record's lengths do not fit its bytes"):
        decode(data)
    assert assert_agreement(data).raised


def bad_headers(offset_delta: int, headers: bytes) -> bytes:
    content = b"\0\0" + varint(offset_delta) + b"\1\1" + headers
    return varint(len(content)) + content


BAD_HEADERS = {
    "null key": b"\2\1\0",
    "key beyond": varint(1) + varint(9) + b"abc",
    "value beyond": b"\2\2k" + varint(9) + b"abc",
    "value of -2": b"\2\2k" + varint(-2),
    "no value": b"\2\4kk",
    "bytes behind": b"\2\2k\2v\0",
    "one too few": b"\4\2k\2v\0",
    "huge key": b"\2" + varint((1 << 62) - 1) + b"\0\0\0",
}


@each_codec
@pytest.mark.parametrize("name", list(BAD_HEADERS))
def test_damaged_headers_are_damage_only_when_asked_for(name: str, codec: Codec) -> None:
    rows = [*records(2), bad_headers(2, BAD_HEADERS[name]), *records(2, 3)]
    data = batch(rows, base_offset=7, codec=codec)
    assert len(assert_agreement(data).records) == 5
    decoded = decode(data, headers=True)
    assert records_of(decoded.batch) == expected(data, headers=True).records
    assert decoded.next_offset == 9
    assert decoded.damage is not None
    assert (decoded.damage.offset, decoded.damage.next_offset) == (9, 10)
    assert "damaged record at offset 9: a record's headers do not fit its bytes" in str(decoded.damage)
    with pytest.raises(CorruptRecord, match="damaged record at offset 9"):
        decode(data, headers=True, from_offset=9)
    assert len(decode(data, headers=True, from_offset=10).batch) == 2


# ---- what hostile or careless writers leave


@pytest.mark.parametrize("magic", [0, 1])
def test_the_next_offset_passes_a_wrapper_that_holds_nothing(magic: int) -> None:
    """Else a consumer would ask for it forever."""
    data = wrapper(magic, 10, [], Codec.GZIP)
    assert assert_agreement(data, from_offset=10).next_offset == 11


def test_the_next_offset_passes_a_wrapper_whose_messages_claim_smaller_offsets() -> None:
    data = wrapper(0, 10, [message(0, 1, b"k", b"v")], Codec.GZIP)
    assert assert_agreement(data, from_offset=10).next_offset == 11


def test_relative_offsets_beyond_their_wrappers_are_damage() -> None:
    data = wrapper(1, 5, [message(1, n, b"k", b"v") for n in (6, 7)], Codec.GZIP)
    assert assert_agreement(data).damage == (5, 6)


@pytest.mark.parametrize("behind", [b"", marker(1, base_offset=1, kind=1)], ids=["alone", "with another"])
def test_a_marker_without_bytes_is_passed_like_any_marker(behind: bytes) -> None:
    outcome = assert_agreement(batch(count=1, last_delta=0, attributes=0x30) + behind)
    assert (outcome.records, outcome.damage) == ([], None)


@pytest.mark.parametrize("name", list(BAD_HEADERS))
def test_damaged_headers_end_the_valid_bytes_in_front_of_their_batch(name: str) -> None:
    """A caller who goes on by `valid_bytes` must not lose what stands behind the damage."""
    sound = batch(records(2))
    data = sound + batch([*records(1), bad_headers(1, BAD_HEADERS[name])], base_offset=2)
    data += batch(records(2), base_offset=4)
    assert assert_agreement(data, headers=True).valid_bytes == len(sound)


def test_damaged_headers_are_placed_right_behind_a_batch_with_a_huge_last_offset() -> None:
    before = batch(records(1), last_delta=0x7FFFFFFF)
    data = before + batch([*records(1), bad_headers(1, BAD_HEADERS["value beyond"])], base_offset=1)
    assert assert_agreement(data, headers=True).valid_bytes == len(before)


def test_a_marker_of_endless_varints_costs_no_time() -> None:
    content = struct.pack(">hiqqqhii", 0x30, 0, 0, 0, 3, 0, 0, 1) + b"\xff" * 1_000_000
    started = time.process_time()
    assert_agreement(sealed_batch(0, content), aborted=[(0, 3)])
    assert time.process_time() - started < 1
