"""The kernels that decompress, beside the libraries: what a kernel takes, the library takes, and alike."""

from __future__ import annotations

import gzip
import io
import struct
import zlib
from random import Random

import cramjam
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.kernels import kernel, lz4
from ottla.kernels.memory import pointer
from ottla.model.errors import CorruptRecord
from ottla.records.compression import Arena, Codec, compress, decompress
from ottla.records.reader import decode
from tests.kernels.decompressors import ROOM_MAX, by_kernel
from tests.naive import record_set
from tests.records.codec_samples import lz4_frame, payloads
from tests.scale import SEED, sized

CODECS = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4]
each_codec = pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.label)
TEXT = b"".join(b'{"id":%d,"name":"user-%d","ok":true}' % (n, n * 7919 % 1000) for n in range(90))
SMALL = [b"", b"x", b"ab" * 20, bytes(3000), TEXT, bytes(range(256)) * 3]
# Every distance up to and beyond a block of a copy, whose bytes overlap.
REPEATS = [Random(n).randbytes(n) * (300 // n + 2) for n in (*range(1, 20), 31, 32, 33, 63, 64, 65, 130)]


def packers(codec: Codec, data: bytes) -> list[bytes]:
    """The data as several writers compress them, in small pieces and in large ones."""
    if codec is Codec.SNAPPY:
        return [bytes(compress(codec, data)), bytes(cramjam.snappy.compress_raw(data))]
    if codec is Codec.GZIP:
        return [gzip.compress(data, level) for level in (0, 1, 6, 9)] + [bytes(compress(codec, data))]
    with_checksums = cramjam.lz4.Compressor(level=1, content_checksum=True, block_linked=True)
    with_checksums.compress(data)
    return [
        bytes(compress(codec, data)),
        bytes(compress(codec, data, level=9)),
        bytes(cramjam.lz4.compress(data)),
        bytes(with_checksums.finish()),
        pa.Codec("lz4").compress(data, asbytes=True),
    ]


def by_library(codec: Codec, packed: bytes, room: int) -> bytes | None:
    try:
        return decompress(codec, packed, limit=room).tobytes()
    except CorruptRecord:
        return None


def assert_agreement(codec: Codec, packed: bytes, room: int = ROOM_MAX) -> bytes | None:
    """What the kernel takes is what the library makes of it."""
    found = by_kernel(codec, packed, room)
    if found is not None:
        assert found == by_library(codec, packed, room), packed.hex()
    return found


@each_codec
@pytest.mark.parametrize("data", [*SMALL, *REPEATS], ids=len)
def test_sound_data_are_taken_in_just_enough_room(codec: Codec, data: bytes) -> None:
    for packed in packers(codec, data):
        for room in (len(data), len(data) + 1, len(data) + 500):
            assert by_kernel(codec, packed, room) == data
        if data:
            assert by_kernel(codec, packed, len(data) - 1) is None


@each_codec
@given(data=payloads)
def test_whatever_a_writer_writes_is_taken(codec: Codec, data: bytes) -> None:
    for packed in packers(codec, data):
        found = by_kernel(codec, packed, len(data))
        assert found == data or (codec is Codec.GZIP and len(packed) > 4096 and found is None)


@pytest.mark.parametrize("codec", [Codec.SNAPPY, Codec.LZ4], ids=lambda codec: codec.label)
def test_large_data_are_taken(codec: Codec) -> None:
    chance = Random(SEED)
    data = b"".join(chance.choice(REPEATS)[: chance.randrange(400)] + chance.randbytes(9) for _ in range(900))
    for packed in packers(codec, data):
        assert by_kernel(codec, packed, len(data)) == data


@each_codec
@pytest.mark.parametrize("data", [b"x", b"ab" * 20, TEXT[:400]], ids=len)
def test_damage_at_every_byte_is_left_or_read_alike(codec: Codec, data: bytes) -> None:
    for packed in packers(codec, data):
        assert_agreement(codec, packed + b"\0")
        for at in range(len(packed)):
            assert_agreement(codec, packed[:at], len(data) + 100)
            for change in (0x01, 0x80, 0xFF, 1 << at % 8):
                damaged = bytearray(packed)
                damaged[at] ^= change
                assert_agreement(codec, bytes(damaged), len(data) + 100)


@each_codec
def test_random_damage_is_left_or_read_alike(codec: Codec) -> None:
    chance = Random(SEED)
    taken = 0
    for _ in range(sized(600, 20_000) if kernel.JIT else 60):
        data = chance.choice([*SMALL, *REPEATS])
        packed = bytearray(chance.choice(packers(codec, data)))
        for _ in range(chance.choice((0, 1, 1, 2, 5))):
            packed[chance.randrange(len(packed))] = chance.choice(
                (0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256))
            )
        taken += assert_agreement(codec, bytes(packed), chance.choice((len(data), ROOM_MAX))) is not None
    assert taken


# ---- what is not certainly sound


def snappy_block(size: int, *tags: bytes) -> bytes:
    return bytes([size]) + b"".join(tags)


FAR = b"\x0f\x04\0\0\0"  # 4 bytes from 4 back, by a distance of 32 bits


@pytest.mark.parametrize(
    ("packed", "data"),
    [
        (snappy_block(8, b"\x0cabcd", FAR), b"abcdabcd"),
        (snappy_block(4, b"\xf0\x03abcd"), b"abcd"),
        (snappy_block(4, b"\xfc\x03\0\0\0abcd"), b"abcd"),
        (snappy_block(8, b"\x0cabcd", b"\x0f\x05\0\0\0"), None),
        (snappy_block(8, b"\x0cabcd", b"\x01\0"), None),
        (snappy_block(8, b"\x0cabcd", b"\x0e\0"), None),
        (snappy_block(9, b"\x0cabcd", FAR), None),
        (snappy_block(7, b"\x0cabcd", FAR), None),
        (b"\xff\xff\xff\xff\x0f\x0cabcd", None),
        (b"\x80\x80\x80\x80\x80\x80", None),
        (b"\x82SNAPPY\0" + struct.pack(">iii", 1, 1, 9) + b"\x04\x0cabcd", None),
    ],
)
def test_snappy_by_hand(packed: bytes, data: bytes | None) -> None:
    assert assert_agreement(Codec.SNAPPY, packed) == data


def test_lz4_checksums_are_compared() -> None:
    whole = packers(Codec.LZ4, TEXT)[3]
    assert whole[4] & 0x04, "the content has a checksum"
    assert by_kernel(Codec.LZ4, whole, len(TEXT)) == TEXT
    for at in (6, len(whole) - 1):
        damaged = bytearray(whole)
        damaged[at] ^= 1
        assert by_kernel(Codec.LZ4, bytes(damaged), len(TEXT)) is None
    sized_frame = lz4_frame(TEXT, content_size=len(TEXT))
    assert by_kernel(Codec.LZ4, sized_frame, len(TEXT)) == TEXT
    assert by_kernel(Codec.LZ4, lz4_frame(TEXT, content_size=len(TEXT) - 1), len(TEXT)) is None
    assert by_kernel(Codec.LZ4, sized_frame * 2, 2 * len(TEXT)) is None, "several frames are the library's"


@given(data=st.binary(max_size=200))
def test_xxh32_is_the_one_of_the_library(data: bytes) -> None:
    array = np.frombuffer(data, np.uint8)
    expected = int.from_bytes(packers(Codec.LZ4, data)[3][-4:], "little")
    assert lz4.xxh32(pointer_of(array), 0, array.size) == expected


def pointer_of(array: np.ndarray) -> object:
    """What a kernel takes for its address."""
    return array.ctypes.data if kernel.JIT else pointer(array)


def deflated(data: bytes, strategy: int) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, 31, 9, strategy)
    return packer.compress(data) + packer.flush()


@pytest.mark.parametrize("strategy", [zlib.Z_FIXED, zlib.Z_HUFFMAN_ONLY, zlib.Z_RLE, zlib.Z_DEFAULT_STRATEGY])
@pytest.mark.parametrize("data", [*SMALL, REPEATS[0] * 30], ids=len)
def test_each_kind_of_deflate_block_is_taken(strategy: int, data: bytes) -> None:
    assert by_kernel(Codec.GZIP, deflated(data, strategy), len(data)) == data


def test_gzip_with_long_codes_several_blocks_and_names() -> None:
    skewed = b"".join(bytes([n]) * (1 << max(0, 11 - n)) for n in range(40))
    shuffled = bytes(Random(1).sample(skewed, len(skewed)))
    assert by_kernel(Codec.GZIP, deflated(shuffled, zlib.Z_HUFFMAN_ONLY), len(skewed)) == shuffled
    packer = zlib.compressobj(6, zlib.DEFLATED, 31)
    pieces = [packer.compress(TEXT) + packer.flush(zlib.Z_FULL_FLUSH) for _ in range(5)] + [packer.flush()]
    assert by_kernel(Codec.GZIP, b"".join(pieces), 5 * len(TEXT)) == 5 * TEXT
    with io.BytesIO() as buffer:
        with gzip.GzipFile("a name", "wb", fileobj=buffer) as file:
            file.write(TEXT)
        assert by_kernel(Codec.GZIP, buffer.getvalue(), len(TEXT)) is None, "names are the library's"


# ---- in record sets


@each_codec
def test_sound_batches_are_not_left_to_the_libraries(codec: Codec, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [record_set.record(n, b"key", b"value %d" % n) for n in range(5)]
    batches = [record_set.batch(rows, base_offset=5 * n, codec=codec) for n in range(30)]
    wrappers = []
    for magic in (0, 1):
        inner = [record_set.message(magic, n, b"k", b"value") for n in range(4)]
        wrappers += [record_set.wrapper(magic, 4 * n + 3, inner, codec) for n in range(30)]
    sets = [b"".join(batches), b"".join(wrappers), b"".join([*batches, *wrappers, *batches])]
    monkeypatch.setattr(Arena, "append", None)
    for data in sets:
        assert decode(data).valid_bytes == len(data)
