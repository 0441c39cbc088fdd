"""Bombs and damage: what hostile or broken data cost a codec."""

from __future__ import annotations

import resource
import struct
import tracemalloc
from pathlib import Path

import cramjam
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.model.errors import CorruptRecord
from ottla.records import compression, expansion
from ottla.records.compression import (
    Arena,
    Codec,
    OverLimit,
    compress,
    decompress,
    decompress_into,
)
from ottla.records.reader import decode
from tests.naive import record_set
from tests.records.codec_samples import (
    COMPRESSING,
    MIB,
    ROOM,
    TEXT,
    each_compressing,
    payloads,
)
from tests.scale import sized


def bomb(codec: Codec, size: int) -> bytes:
    if codec is Codec.SNAPPY:
        return snappy_bomb(size)
    data = np.zeros(size, np.uint8)
    return bytes(cramjam.lz4.compress(data.data, level=1) if codec is Codec.LZ4 else compress(codec, data))


def snappy_bomb(size: int) -> bytes:
    """One literal zero, then copies of 64 bytes from one byte back: snappy's best ratio, in one raw block."""
    varint = bytearray()
    rest = size
    while rest >= 0x80:
        varint.append(rest & 0x7F | 0x80)
        rest >>= 7
    varint.append(rest)
    copies, last = divmod(size - 1, 64)
    tail = bytes([(last - 1) << 2 | 2, 1, 0]) if last else b""
    return bytes(varint) + b"\x00\x00" + bytes([63 << 2 | 2, 1, 0]) * copies + tail


def peak_rss_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@each_compressing
def test_a_bomb_stops_at_the_limit(codec: Codec) -> None:
    packed = bomb(codec, 300 * MIB)
    limit = 8 * MIB
    if (clear := Path("/proc/self/clear_refs")).exists():
        clear.write_text("5")  # resets the peak that getrusage reports
    before = peak_rss_bytes()
    tracemalloc.start()
    with pytest.raises(
        CorruptRecord, match=f"{codec.label} data of {len(packed):,} bytes .* 8,388,608 bytes"
    ):
        decompress(codec, packed, limit=limit)
    with pytest.raises(CorruptRecord):
        Arena(limit=limit).append(codec, packed)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2.1 * limit
    assert peak_rss_bytes() - before < 4 * limit


@each_compressing
def test_one_byte_above_the_limit_is_refused(codec: Codec) -> None:
    packed = compress(codec, TEXT)
    assert len(decompress(codec, packed, limit=len(TEXT))) == len(TEXT)
    with pytest.raises(OverLimit):
        decompress(codec, packed, limit=len(TEXT) - 1)


def test_none_is_bounded_too() -> None:
    with pytest.raises(CorruptRecord, match="none data of 4 bytes become more than the limit of 3 bytes"):
        decompress(Codec.NONE, b"abcd", limit=3)


@pytest.mark.parametrize(
    "data",
    [
        b"\xff\xff\xff\xff\x0f",
        b"\xff\xff\xff\xff\x0f\x00a",
        b"\x82SNAPPY\x00" + struct.pack(">iii", 1, 1, 5) + b"\xff\xff\xff\xff\x0f",
    ],
)
def test_a_snappy_size_is_checked_before_allocating(data: bytes) -> None:
    tracemalloc.start()
    with pytest.raises(CorruptRecord):
        decompress(Codec.SNAPPY, data, limit=MIB)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 3 * MIB


# ---- damage


@pytest.mark.parametrize(
    ("codec", "magic"),
    [(codec, magic) for codec in COMPRESSING for magic in (0, 1, 2) if codec is not Codec.ZSTD or magic == 2],
)
@pytest.mark.parametrize("size", [0, 40, 3000])
def test_truncation_at_every_byte_is_corrupt_or_a_value(codec: Codec, magic: int, size: int) -> None:
    packed = bytes(compress(codec, TEXT[:size], magic=magic))
    for end in range(len(packed)):
        try:
            short = decompress(codec, packed[:end], limit=ROOM, magic=magic)
        except CorruptRecord:
            continue
        # A lone xerial header is an empty stream; anything else that is cut must be noticed.
        assert (codec, end, len(short)) == (Codec.SNAPPY, 16, 0)


@each_compressing
@settings(deadline=None, max_examples=sized(100, 3000))
@given(
    data=payloads,
    magic=st.sampled_from([0, 1, 2]),
    changes=st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), min_size=1, max_size=4),
    cut=st.integers(0, 20),
)
def test_mutated_bytes_are_corrupt_or_a_value(
    codec: Codec, data: bytes, magic: int, changes: list[tuple[int, int]], cut: int
) -> None:
    packed = bytearray(compress(codec, data))
    for position, byte in changes:
        packed[position % len(packed)] = byte
    del packed[len(packed) - cut :]
    assert codec.label in outcome(codec, bytes(packed), magic)


@each_compressing
@settings(deadline=None, max_examples=sized(100, 3000))
@given(
    data=st.binary(max_size=300),
    prefix=st.sampled_from(["", "1f8b08", "82534e4150505900", "04224d18", "28b52ffd"]),
)
def test_any_bytes_are_corrupt_or_a_value(codec: Codec, data: bytes, prefix: str) -> None:
    for magic in (0, 1, 2):
        assert codec.label in outcome(codec, bytes.fromhex(prefix) + data, magic)


def outcome(codec: Codec, data: bytes, magic: int) -> str:
    """What became of hostile data: any other exception than CorruptRecord fails the test."""
    try:
        return f"{codec.label} gives {len(decompress(codec, data, limit=MIB, magic=magic))} bytes"
    except CorruptRecord as error:
        return str(error)


@each_compressing
def test_damage_is_told_from_lack_of_room(codec: Codec) -> None:
    with pytest.raises(CorruptRecord, match=codec.label) as caught:
        decompress_into(codec, b"\x00 no codec writes this", np.empty(0, np.uint8), limit=ROOM)
    assert not isinstance(caught.value, OverLimit)


def test_cramjam_still_says_when_the_room_is_full() -> None:
    assert compression._FULL_MESSAGES


def test_snappy_of_absurdly_many_blocks_is_refused() -> None:
    """Each block costs a call; ten megabytes of empty ones would keep a reader busy for seconds."""
    header = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
    with pytest.raises(CorruptRecord, match="absurdly many blocks"):
        decompress(
            Codec.SNAPPY,
            header + struct.pack(">i", 1) * 1 + b"\0" + (struct.pack(">i", 1) + b"\0") * 20_000,
            limit=1 << 20,
        )


def test_a_small_batch_of_millions_of_records_is_refused_by_its_header() -> None:
    count = expansion.RECORDS_MAX + 1
    content = record_set.record(0) * count
    packed = record_set.batch([content], count=count, last_delta=count - 1, codec=Codec.ZSTD)
    assert len(packed) < 10_000
    decode(record_set.batch([record_set.record(0)]))  # which loads the kernels
    tracemalloc.start()
    with pytest.raises(CorruptRecord, match=f"{count:,} records in one batch, above the limit") as refused:
        decode(packed)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < MIB
    assert refused.value.next_offset == count


def many(magic: int, count: int, first: int) -> bytes:
    """A compressed batch, or a compressed message."""
    if magic == 2:
        records = [record_set.record(number, value=b"v") for number in range(count)]
        return record_set.batch(records, base_offset=first, codec=Codec.ZSTD)
    start = 0 if magic else first
    inner = [record_set.message(magic, start + number, None, b"v") for number in range(count)]
    return record_set.wrapper(magic, first + count - 1, inner, Codec.GZIP)


@pytest.mark.parametrize("magic", [0, 1, 2])
def test_what_is_around_a_batch_of_too_many_records_is_read(
    magic: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = 500
    monkeypatch.setattr(expansion, "RECORDS_MAX", limit)
    large = many(magic, 2 * limit, limit)
    data = many(magic, limit, 0) + large + many(magic, 3, 3 * limit)
    sound = decode(data)
    assert (sound.batch.num_rows, sound.next_offset) == (limit, limit)
    assert sound.damage is not None  # at once: what came before it does not matter
    with pytest.raises(CorruptRecord, match=f"records .*in one batch, above the limit of {limit}"):
        decode(data[sound.valid_bytes :], from_offset=limit)
    rest = decode(data[sound.valid_bytes + len(large) :], from_offset=3 * limit)
    assert rest.batch["offset"].to_pylist() == [3 * limit, 3 * limit + 1, 3 * limit + 2]
