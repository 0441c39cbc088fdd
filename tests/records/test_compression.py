"""The codecs: round trips, bounds, damage, foreign writers and readers.

Other writers are stdlib gzip, pyarrow (raw snappy, linked lz4, zstd without content size), aiokafka and
kafka-python; the latter's snappy and lz4 code runs on top of cramjam here, since the packages that it wants
are not installed: what is tested is its framing.
"""

from __future__ import annotations

import gzip
import io
import resource
import struct
import tracemalloc
from pathlib import Path
from types import SimpleNamespace

import cramjam
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.model.errors import ConfigError, CorruptRecord, LocalProtocolError
from ottla.records import compression, lz4_header
from ottla.records.compression import (
    DOES_NOT_FIT,
    Arena,
    Codec,
    OverLimit,
    compress,
    decompress,
    decompress_into,
    size_hint,
)

COMPRESSING = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]
ROOM = 1 << 24
TEXT = b"".join(b'{"id":%d,"name":"user-%d","ok":true}' % (n, n * 7919 % 1000) for n in range(4000))
MIB = 1 << 20
GOLDEN_OLD_HEADER = "04224d187040ec"

each_codec = pytest.mark.parametrize("codec", list(Codec), ids=lambda codec: codec.label)
each_compressing = pytest.mark.parametrize("codec", COMPRESSING, ids=lambda codec: codec.label)

# Random bytes, and runs of few distinct ones so that there is something to compress.
payloads = st.one_of(
    st.binary(max_size=2000),
    st.lists(st.tuples(st.binary(min_size=1, max_size=40), st.integers(1, 4000)), max_size=6).map(
        lambda runs: b"".join(piece * count for piece, count in runs)
    ),
)


def unpacked(codec: Codec, data: bytes, magic: int = 2) -> bytes:
    return decompress(codec, data, limit=ROOM, magic=magic).tobytes()


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
        packed = compress(codec, data)
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


# ---- bombs


def bomb(codec: Codec, size: int) -> bytes:
    if codec is Codec.SNAPPY:
        return snappy_bomb(size)
    data = np.zeros(size, np.uint8)
    return bytes(cramjam.lz4.compress(data, level=1) if codec is Codec.LZ4 else compress(codec, data))


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
@settings(deadline=None, max_examples=300)
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
@settings(deadline=None, max_examples=300)
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


# ---- snappy framing


def xerial(*blocks: bytes, version: bytes = struct.pack(">ii", 1, 1)) -> bytes:
    framed = b"".join(struct.pack(">i", len(block)) + block for block in blocks)
    return b"\x82SNAPPY\x00" + version + framed


def raw_snappy(data: bytes) -> bytes:
    return bytes(cramjam.snappy.compress_raw(data))


def test_snappy_is_written_in_xerial_blocks_of_32_kib() -> None:
    packed = bytes(compress(Codec.SNAPPY, TEXT[:70_000]))
    assert packed == xerial(*(raw_snappy(TEXT[at : min(at + 32768, 70_000)]) for at in (0, 32768, 65536)))


@pytest.mark.parametrize(
    ("packed", "data"),
    [
        (raw_snappy(b""), b""),
        (raw_snappy(TEXT), TEXT),
        (xerial(), b""),
        (xerial(raw_snappy(b"")), b""),
        (xerial(raw_snappy(b"ab"), raw_snappy(b""), raw_snappy(b"cd")), b"abcd"),
        (xerial(raw_snappy(b"ab")) + xerial(raw_snappy(b"cd")), b"abcd"),
        (xerial(raw_snappy(b"ab"), version=struct.pack("<ii", 1, 1)), b"ab"),
        (xerial(raw_snappy(TEXT)), TEXT),
    ],
    ids=[
        "raw empty",
        "raw",
        "header only",
        "empty block",
        "blocks",
        "streams",
        "little endian version",
        "large block",
    ],
)
def test_snappy_that_others_write_is_read(packed: bytes, data: bytes) -> None:
    assert unpacked(Codec.SNAPPY, packed) == data


@pytest.mark.parametrize(
    ("packed", "message"),
    [
        (b"", "does not start with its size"),
        (b"\xff\xff\xff\xff\xff\x01", "does not start with its size"),
        (xerial()[:-1], "end inside the xerial header"),
        (xerial(b""), "snappy block of 0 bytes"),
        (xerial() + struct.pack(">i", -5), "snappy block of -5 bytes at position 20 of 20 bytes"),
        (
            xerial() + struct.pack(">i", 5) + b"\x01\x00a",
            "snappy block of 5 bytes at position 20 of 23 bytes",
        ),
        (xerial(raw_snappy(b"ab")) + b"\x00\x00", "snappy block of 0 bytes"),
        (xerial(b"\x05\x00a"), "damaged"),
    ],
)
def test_damaged_snappy_is_named(packed: bytes, message: str) -> None:
    with pytest.raises(CorruptRecord, match=message):
        unpacked(Codec.SNAPPY, packed)


# ---- lz4 framing


def xxh32(data: bytes) -> int:
    """XXH32 by cramjam: the content checksum that ends a frame."""
    return int.from_bytes(bytes(cramjam.lz4.compress(data))[-4:], "little")


def lz4_frame(data: bytes, *, content_size: int | None = None, flags: int = 0x60) -> bytes:
    """A frame with one stored block."""
    descriptor = bytes([flags | (8 if content_size is not None else 0), 0x40])
    if content_size is not None:
        descriptor += struct.pack("<Q", content_size)
    block = struct.pack("<I", len(data) | 1 << 31) + data if data else b""
    return b"\x04\x22\x4d\x18" + descriptor + bytes([xxh32(descriptor) >> 8 & 0xFF]) + block + bytes(4)


@pytest.mark.parametrize(("data", "value"), [(b"", 0x02CC5D05), (b"a", 0x550D7456), (b"abc", 0x32D153FF)])
def test_xxh32_has_the_published_values(data: bytes, value: int) -> None:
    assert lz4_header.xxh32_short(data) == value


@given(data=st.binary(max_size=15))
def test_xxh32_equals_the_librarys(data: bytes) -> None:
    assert lz4_header.xxh32_short(data) == xxh32(data)


def test_xxh32_is_for_short_input() -> None:
    with pytest.raises(ConfigError, match="fewer than 16 bytes, not 16"):
        lz4_header.xxh32_short(bytes(16))


@pytest.mark.parametrize("data", [b"", b"x", TEXT, TEXT * 40], ids=["empty", "one", "text", "large"])
@pytest.mark.parametrize("level", [None, 9])
def test_lz4_frames_are_such_that_java_reads_them(data: bytes, level: int | None) -> None:
    flags, block_size = bytes(compress(Codec.LZ4, data, level=level))[4:6]
    assert flags >> 6 == 1, "version"
    assert flags & 0x20, "blocks are independent"
    assert not flags & 0x0D, "no content size, content checksum or dictionary"
    assert block_size == 0x40, "64 KiB"


def test_the_lz4_header_of_format_0_has_kafkas_wrong_checksum() -> None:
    new, old = (bytes(compress(Codec.LZ4, TEXT, magic=magic)) for magic in (1, 0))
    assert new[:7].hex() == "04224d187040ad"
    assert old[:7].hex() == GOLDEN_OLD_HEADER
    assert old[6] == xxh32(old[:6]) >> 8 & 0xFF
    assert old[7:] == new[7:]


@pytest.mark.parametrize("content_size", [None, 3000])
def test_format_0_is_read_with_the_wrong_and_the_right_checksum(content_size: int | None) -> None:
    frame = bytearray(lz4_frame(TEXT[:3000], content_size=content_size))
    at = 6 if content_size is None else 14
    right = frame[at]
    for checksum in (right, xxh32(bytes(frame[:at])) >> 8 & 0xFF, right ^ 0xFF):
        frame[at] = checksum
        assert unpacked(Codec.LZ4, bytes(frame), magic=0) == TEXT[:3000]
        if checksum != right:
            with pytest.raises(CorruptRecord, match="lz4"):
                unpacked(Codec.LZ4, bytes(frame), magic=1)


def test_lz4_that_others_write_is_read() -> None:
    large = TEXT * 10
    linked_with_checksum = bytes(cramjam.lz4.compress(large))
    assert not linked_with_checksum[4] & 0x20
    for packed in (linked_with_checksum, pa.Codec("lz4").compress(large, asbytes=True)):
        assert unpacked(Codec.LZ4, packed) == large
    assert unpacked(Codec.LZ4, lz4_frame(b"abc", content_size=3)) == b"abc"
    assert unpacked(Codec.LZ4, lz4_frame(b"abc") + lz4_frame(b"def")) == b"abcdef"


# ---- gzip and zstd of others


def test_gzip_that_others_write_is_read() -> None:
    assert unpacked(Codec.GZIP, gzip.compress(TEXT)) == TEXT
    assert (
        unpacked(Codec.GZIP, gzip.compress(TEXT) + gzip.compress(b"") + gzip.compress(b"end"))
        == TEXT + b"end"
    )
    buffer = io.BytesIO()
    with gzip.GzipFile("a name", "wb", fileobj=buffer) as file:
        file.write(TEXT)
    assert unpacked(Codec.GZIP, buffer.getvalue()) == TEXT


def zstd_stream(data: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        for at in range(0, len(data), 1000):
            stream.write(data[at : at + 1000])
    return sink.getvalue().to_pybytes()


def test_zstd_without_content_size_is_read() -> None:
    packed = zstd_stream(TEXT)
    assert not packed[4] & 0xE0, "no content size"
    assert unpacked(Codec.ZSTD, packed) == TEXT
    assert size_hint(Codec.ZSTD, packed, limit=ROOM) == 6 * len(packed)
    assert unpacked(Codec.ZSTD, zstd_stream(TEXT) + bytes(compress(Codec.ZSTD, b"end"))) == TEXT + b"end"
    assert unpacked(Codec.ZSTD, zstd_stream(bytes(MIB))) == bytes(MIB)


# ---- interoperation


@each_compressing
@pytest.mark.parametrize("data", [b"", b"x", TEXT], ids=["empty", "one", "text"])
def test_aiokafka_and_we_read_each_other(codec: Codec, data: bytes) -> None:
    peer = pytest.importorskip("aiokafka.codec")
    assert unpacked(codec, getattr(peer, f"{codec.label}_encode")(data)) == data
    assert bytes(getattr(peer, f"{codec.label}_decode")(compress(codec, data))) == data


@pytest.fixture
def kafka_python(monkeypatch: pytest.MonkeyPatch):
    peer = pytest.importorskip("kafka.codec")

    def lz4_encode(data: bytes) -> bytes:
        compressor = cramjam.lz4.Compressor(level=1, content_checksum=False, block_linked=False)
        compressor.compress(data)
        return bytes(compressor.finish())

    def digest(data: bytes) -> SimpleNamespace:
        return SimpleNamespace(digest=lambda: xxh32(bytes(data)).to_bytes(4, "big"))

    library = SimpleNamespace(
        compress=raw_snappy, decompress=lambda data: bytes(cramjam.snappy.decompress_raw(data))
    )
    monkeypatch.setattr(peer, "snappy", library)
    monkeypatch.setattr(peer, "lz4_encode", lz4_encode)
    monkeypatch.setattr(peer, "lz4_decode", lambda data: bytes(cramjam.lz4.decompress(data)))
    monkeypatch.setattr(peer, "xxhash", SimpleNamespace(xxh32=digest))
    return peer


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4])
@pytest.mark.parametrize("data", [b"x", TEXT], ids=["one", "text"])
def test_kafka_python_and_we_read_each_other(kafka_python, codec: Codec, data: bytes) -> None:
    assert unpacked(codec, getattr(kafka_python, f"{codec.label}_encode")(data)) == data
    assert bytes(getattr(kafka_python, f"{codec.label}_decode")(bytes(compress(codec, data)))) == data


def test_kafka_pythons_lz4_of_format_0_is_ours(kafka_python) -> None:
    theirs = kafka_python.lz4_encode_old_kafka(TEXT)
    ours = bytes(compress(Codec.LZ4, TEXT, magic=0))
    assert ours == theirs
    assert unpacked(Codec.LZ4, theirs, magic=0) == TEXT
    assert kafka_python.lz4_decode_old_kafka(ours) == TEXT


def test_snappy_of_absurdly_many_blocks_is_refused() -> None:
    """Each block costs a call; ten megabytes of empty ones would keep a reader busy for seconds."""
    header = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
    with pytest.raises(CorruptRecord, match="absurdly many blocks"):
        decompress(
            Codec.SNAPPY,
            header + struct.pack(">i", 1) * 1 + b"\0" + (struct.pack(">i", 1) + b"\0") * 20_000,
            limit=1 << 20,
        )
