"""The codecs: names, round trips, room that is given, sizes found in the data."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from ottla.model.errors import ConfigError, CorruptRecord, LocalProtocolError
from ottla.records.compression import (
    DOES_NOT_FIT,
    Arena,
    Codec,
    compress,
    decompress,
    decompress_into,
    size_hint,
)
from tests.records.codec_samples import (
    ROOM,
    TEXT,
    each_codec,
    lz4_frame,
    payloads,
    unpacked,
)

# ---- names and numbers


def test_codecs_are_numbered_as_on_the_wire() -> None:
    assert [(codec.label, int(codec)) for codec in Codec] == [
        ("none", 0),
        ("gzip", 1),
        ("snappy", 2),
        ("lz4", 3),
        ("zstd", 4),
    ]


@each_codec
def test_a_codec_is_found_by_name_and_by_attributes(codec: Codec) -> None:
    assert Codec.named(codec.label) is codec
    assert Codec.of_attributes(0xFFF8 | codec) is codec


def test_an_unknown_name_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(ConfigError, match="unknown compression 'brotli': it is one of none, gzip, snappy"):
        Codec.named("brotli")


@pytest.mark.parametrize("number", [5, 6, 7])
def test_an_unassigned_codec_number_is_corrupt(number: int) -> None:
    with pytest.raises(CorruptRecord, match=f"codec {number}, which does not exist"):
        Codec.of_attributes(number)


# ---- round trips


@each_codec
@settings(deadline=None)
@given(data=payloads)
def test_round_trip(codec: Codec, data: bytes) -> None:
    packed = compress(codec, data)
    assert unpacked(codec, packed) == data
    assert decompress(codec, packed, limit=len(data)).tobytes() == data


@each_codec
@pytest.mark.parametrize("size", [0, 1, 32767, 32768, 32769, 65535, 65536, 65537, 5_000_000])
def test_round_trip_around_block_sizes(codec: Codec, size: int) -> None:
    data = (TEXT * (size // len(TEXT) + 1))[:size]
    assert unpacked(codec, compress(codec, data)) == data


@each_codec
def test_input_may_be_any_bytes_like(codec: Codec) -> None:
    array = np.frombuffer(TEXT, np.uint8)
    strided = np.repeat(array, 2)[::2]
    signed = array.view(np.int8).reshape(2, -1) if len(array) % 2 == 0 else array.view(np.int8)
    for data in (TEXT, bytearray(TEXT), memoryview(TEXT), array, strided, signed):
        packed = compress(codec, data)  # type: ignore[arg-type]  # int8 works as well
        assert unpacked(codec, bytes(packed)) == TEXT
        assert unpacked(codec, np.frombuffer(packed, np.uint8)) == TEXT
        assert unpacked(codec, memoryview(bytearray(packed)).toreadonly()) == TEXT


@pytest.mark.parametrize(
    ("codec", "level"),
    [(Codec.GZIP, n) for n in (-1, 1, 9)]
    + [(Codec.LZ4, n) for n in (1, 9, 17)]
    + [(Codec.ZSTD, n) for n in (-131072, -5, 1, 22)],
)
def test_every_level_that_kafka_accepts_works(codec: Codec, level: int) -> None:
    assert unpacked(codec, compress(codec, TEXT, level=level)) == TEXT


def test_a_higher_level_compresses_more() -> None:
    for codec, low, high in ((Codec.GZIP, 1, 9), (Codec.LZ4, 1, 12), (Codec.ZSTD, 1, 19)):
        assert len(compress(codec, TEXT, level=high)) < len(compress(codec, TEXT, level=low))


def test_default_levels_are_kafkas() -> None:
    assert compress(Codec.GZIP, TEXT) == compress(Codec.GZIP, TEXT, level=6)
    assert compress(Codec.ZSTD, TEXT) == compress(Codec.ZSTD, TEXT, level=3)
    assert compress(Codec.LZ4, TEXT) == compress(Codec.LZ4, TEXT, level=1)


@pytest.mark.parametrize(
    ("codec", "level", "message"),
    [
        (Codec.GZIP, 10, "gzip level 10 is not within 1 to 9"),
        (Codec.GZIP, 0, "gzip level 0 is not within 1 to 9"),
        (Codec.LZ4, 18, "lz4 level 18 is not within 1 to 17"),
        (Codec.ZSTD, 23, "zstd level 23 is not within -131072 to 22"),
        (Codec.SNAPPY, 1, "compression snappy has no levels, but level is 1"),
        (Codec.NONE, 1, "compression none has no levels, but level is 1"),
    ],
)
def test_a_level_that_kafka_refuses_is_refused(codec: Codec, level: int, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        compress(codec, b"x", level=level)


@pytest.mark.parametrize("magic", [0, 1])
def test_zstd_is_illegal_before_format_2(magic: int) -> None:
    with pytest.raises(LocalProtocolError, match=f"zstd needs message format 2, not {magic}"):
        compress(Codec.ZSTD, b"x", magic=magic)
    with pytest.raises(CorruptRecord, match=f"zstd data in message format {magic}"):
        unpacked(Codec.ZSTD, compress(Codec.ZSTD, b"x"), magic=magic)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4])
@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("data", [b"", b"x", TEXT], ids=["empty", "one", "text"])
def test_round_trip_of_old_formats(codec: Codec, magic: int, data: bytes) -> None:
    assert unpacked(codec, compress(codec, data, magic=magic), magic=magic) == data


# ---- into given room


@each_codec
def test_decompress_into_fits_exactly_and_says_when_not(codec: Codec) -> None:
    data = TEXT[:3000]
    packed = compress(codec, data)
    for room in (0, 1, 2, 1500, 2998, 2999):
        assert decompress_into(codec, packed, np.empty(room, np.uint8), limit=ROOM) == DOES_NOT_FIT
    out = np.zeros(3010, np.uint8)
    assert decompress_into(codec, packed, out, 7, limit=ROOM) == 3000
    assert out.tobytes() == bytes(7) + data + bytes(3)
    assert decompress_into(codec, packed, memoryview(bytearray(3000)), limit=3000) == 3000


@each_codec
def test_decompress_into_never_writes_outside_its_room(codec: Codec) -> None:
    packed = compress(codec, TEXT)
    for room in (0, 1, 100, 40_000, len(TEXT) - 1):
        out = np.full(len(TEXT) + 100, 0xAA, np.uint8)
        assert decompress_into(codec, packed, out[: 50 + room], 50, limit=ROOM) == DOES_NOT_FIT
        assert (out[:50] == 0xAA).all()
        assert (out[50 + room :] == 0xAA).all()


@each_codec
def test_the_limit_counts_only_when_there_is_room_for_it(codec: Codec) -> None:
    packed = compress(codec, TEXT)
    short = np.empty(100, np.uint8)
    assert decompress_into(codec, packed, short, limit=101) == DOES_NOT_FIT
    with pytest.raises(CorruptRecord, match=f"{codec.label} data of .* more than the limit of 100 bytes"):
        decompress_into(codec, packed, short, limit=100)


def test_room_that_is_not_contiguous_is_the_callers_mistake() -> None:
    with pytest.raises(TypeError):
        decompress_into(Codec.NONE, b"abc", np.empty(20, np.uint8)[::2], limit=9)


@each_codec
def test_an_arena_collects_batches_and_is_reused(codec: Codec) -> None:
    arena = Arena(limit=ROOM, capacity=10)
    pieces = [TEXT[: 100 * n] for n in range(20)]
    starts = [arena.append(codec, compress(codec, piece)) for piece in pieces]
    assert arena.view.tobytes() == b"".join(pieces)
    assert starts == [sum(map(len, pieces[:n])) for n in range(20)]
    capacity = arena.capacity
    arena.clear()
    assert arena.size == len(arena.view) == 0
    assert [arena.append(codec, compress(codec, piece)) for piece in pieces] == starts
    assert arena.capacity == capacity


@each_codec
def test_an_arena_that_refuses_a_batch_keeps_the_others(codec: Codec) -> None:
    arena = Arena(limit=1500, capacity=0)
    arena.append(codec, compress(codec, TEXT[:1000]))
    with pytest.raises(CorruptRecord, match="limit of 1,500 bytes, 1,000 of them taken by earlier batches"):
        arena.append(codec, compress(codec, TEXT[:501]))
    arena.append(codec, compress(codec, TEXT[:500]))
    assert arena.view.tobytes() == TEXT[:1000] + TEXT[:500]


def test_views_survive_the_growth_of_an_arena() -> None:
    arena = Arena(limit=ROOM, capacity=100)
    arena.append(Codec.GZIP, compress(Codec.GZIP, TEXT[:100]))
    view = arena.view
    arena.append(Codec.GZIP, compress(Codec.GZIP, TEXT))
    assert view.tobytes() == TEXT[:100]


# ---- sizes found in the data


@each_codec
@pytest.mark.parametrize("size", [0, 1, 200, 300, 65535 + 256, 65536 + 256, 144_000])
def test_the_hint_is_exact_where_the_data_carry_a_size(codec: Codec, size: int) -> None:
    packed = compress(codec, TEXT[:size])
    hint = size_hint(codec, packed, limit=ROOM)
    if codec is Codec.LZ4:
        assert hint == 4 * len(packed)
    else:
        assert hint == size
    assert size_hint(codec, packed, limit=10) <= 10


def test_the_hint_reads_the_content_size_of_a_foreign_lz4_frame() -> None:
    frame = lz4_frame(TEXT[:5000], content_size=5000)
    assert size_hint(Codec.LZ4, frame, limit=ROOM) == 5000


def test_a_hint_is_held_to_what_the_codec_can_produce() -> None:
    liar = bytes(compress(Codec.GZIP, b"x"))[:-4] + b"\xff\xff\xff\xff"
    assert size_hint(Codec.GZIP, liar, limit=1 << 40) == 1032 * len(liar)
    assert size_hint(Codec.SNAPPY, b"\xff\xff\xff\xff\x0f" + b"x", limit=1 << 40) == 22 * 6


def test_the_hint_of_nonsense_is_a_guess() -> None:
    for codec in (Codec.GZIP, Codec.LZ4, Codec.ZSTD):
        assert size_hint(codec, b"nonsense", limit=ROOM) <= 64
