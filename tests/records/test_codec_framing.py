"""How codecs frame their blocks, and what other writers and readers make of it.

Other writers are stdlib gzip, pyarrow (raw snappy, linked lz4, zstd without content size), aiokafka and
kafka-python; the latter's snappy and lz4 code runs on top of cramjam here, since the packages that it wants
are not installed: what is tested is its framing.
"""

from __future__ import annotations

import gzip
import io
import struct
from types import SimpleNamespace
from typing import Any

import cramjam
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.model.errors import ConfigError, CorruptRecord
from ottla.records import lz4_header
from ottla.records.compression import (
    Codec,
    compress,
    size_hint,
)
from tests.records.codec_samples import (
    MIB,
    ROOM,
    TEXT,
    each_compressing,
    lz4_frame,
    unpacked,
    xxh32,
)

GOLDEN_OLD_HEADER = "04224d187040ec"

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


@pytest.mark.parametrize("data", [b"short", TEXT], ids=["small", "large"])
def test_damaged_gzip_is_named_and_members_are_joined(data: bytes) -> None:
    whole = gzip.compress(data)
    assert unpacked(Codec.GZIP, whole + gzip.compress(b" end")) == data + b" end"
    wrong_sum = whole[:-8] + bytes(4) + whole[-4:]
    for damaged in (whole[:-9], wrong_sum, b"\x1f\x8b" + bytes(20), whole + b"more"):
        with pytest.raises(CorruptRecord, match=r"gzip data of .* bytes are damaged"):
            unpacked(Codec.GZIP, damaged)


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
def kafka_python(monkeypatch: pytest.MonkeyPatch) -> Any:
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
def test_kafka_python_and_we_read_each_other(kafka_python: Any, codec: Codec, data: bytes) -> None:
    assert unpacked(codec, getattr(kafka_python, f"{codec.label}_encode")(data)) == data
    assert bytes(getattr(kafka_python, f"{codec.label}_decode")(bytes(compress(codec, data)))) == data


def test_kafka_pythons_lz4_of_format_0_is_ours(kafka_python: Any) -> None:
    theirs = kafka_python.lz4_encode_old_kafka(TEXT)
    ours = bytes(compress(Codec.LZ4, TEXT, magic=0))
    assert ours == theirs
    assert unpacked(Codec.LZ4, theirs, magic=0) == TEXT
    assert kafka_python.lz4_decode_old_kafka(ours) == TEXT
