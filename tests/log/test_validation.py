"""Produced record sets: what is taken, and the error code of what is not."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from random import Random

import cramjam
import crc32c
import pytest

from ottla.log import legacy_sets
from ottla.log.batch_header import header_at
from ottla.log.log_config import LogConfig, MessageTimestampType
from ottla.log.validation import CheckedSet, Depth, Rules, _checked_entries, checked
from ottla.model.errors import ConfigError, KafkaError
from ottla.records.compression import Codec
from tests.log.record_sets import NOW, batch, joined, values

PLAIN = LogConfig()
COMPACTED = LogConfig(cleanup_policy=frozenset({"compact"}))
FORMATS = [
    (0, Codec.NONE),
    (0, Codec.GZIP),
    (1, Codec.NONE),
    (1, Codec.LZ4),
    (2, Codec.NONE),
    (2, Codec.ZSTD),
]
all_formats = pytest.mark.parametrize(("magic", "codec"), FORMATS)


def code_of(data: bytes | bytearray, config: LogConfig = PLAIN, depth: Depth = Depth.HEADERS) -> int:
    before = bytes(data)
    with pytest.raises(KafkaError) as error:
        checked(data, config, NOW, depth)
    assert bytes(data) == before
    return error.value.code


def patched(data: bytearray, at: int, form: str, value: int) -> bytearray:
    """A batch of format 2 with a field changed and its checksum right."""
    struct.pack_into(form, data, at, value)
    struct.pack_into(">I", data, 17, crc32c.crc32c(bytes(data[21:])))
    return data


@all_formats
@pytest.mark.parametrize("depth", Depth)
def test_facts_of_a_sound_set(magic: int, codec: Codec, depth: Depth) -> None:
    data = joined(
        [batch(*values(0, 3), magic=magic, codec=codec), batch(*values(3, 2), magic=magic, codec=codec)]
    )
    found = checked(data + b"partial", PLAIN, NOW, depth)
    assert (found.offsets, found.size) == (5, len(data))
    assert {item.codec for item in found.batches} == {codec}
    assert {item.max_timestamp for item in found.batches} == {NOW if magic else -1}


def test_a_writable_buffer_is_kept_and_a_read_only_one_copied() -> None:
    data = batch(*values(0, 1))
    assert checked(data, PLAIN, NOW).data.obj is data
    assert not checked(bytes(data), PLAIN, NOW).data.readonly
    assert checked(b"", PLAIN, NOW).batches == ()


@all_formats
def test_any_flipped_bit_under_the_checksum_is_corrupt(magic: int, codec: Codec, random: Random) -> None:
    data = batch(*values(0, 3), magic=magic, codec=codec)
    size = struct.unpack_from(">i", data, 8)[0] + 12
    covered = range(17 if magic == 2 else 12, size)
    for place in random.sample(covered, 20):
        if place == 16:
            continue
        broken = bytearray(data)
        broken[place] ^= 1 << random.randrange(8)
        assert code_of(broken) == 2


def code_or_0(data: bytearray) -> int:
    try:
        checked(data, PLAIN, NOW, Depth.RECORDS)
    except KafkaError as error:
        return error.code
    return 0


def test_any_bytes_are_taken_or_refused_with_a_code(random: Random) -> None:
    codes = set()
    for _ in range(3000):
        data = batch(*values(0, 3), magic=random.randrange(3), codec=random.choice([Codec.NONE, Codec.GZIP]))
        for _ in range(random.randrange(1, 4)):
            data[random.randrange(min(len(data), 70))] = random.randrange(256)
        codes.add(code_or_0(data[: random.randrange(len(data) + 1)]))
    assert codes <= {0, 2, 10, 32, 76, 87}
    assert {0, 2} <= codes


def answer(check: Callable[[], CheckedSet]) -> object:
    """What a check gives: headers and bytes, or the whole refusal."""
    try:
        found = check()
    except KafkaError as error:
        return error.code, str(error)
    return found.batches, bytes(found.data)


FIELDS = [(0, "q"), (8, "i"), (12, "i"), (16, "b"), (21, "h"), (23, "i"), (27, "q"), (35, "q"), (43, "q")]
FIELDS += [(51, "h"), (53, "i"), (57, "i")]
NUMBERS = [-(1 << 31), -2, -1, 0, 1, 2, 3, 4, 5, 8, 16, 20, 32, 64, 100, NOW - 2000, NOW, NOW + 1, 1 << 62]


def mutated(random: Random) -> bytearray:
    """A batch with header fields changed, its checksum mostly right, sometimes cut or with more behind."""
    data = batch(*values(0, 3), codec=random.choice(list(Codec)), producer_id=random.choice([-1, 5]))
    for at, kind in random.sample(FIELDS, random.randrange(3)):
        bits = 8 * struct.calcsize(kind)
        number = random.choice(NUMBERS) % (1 << bits)
        data[at : at + bits // 8] = number.to_bytes(bits // 8, "big")
    if random.random() < 0.9:
        struct.pack_into(">I", data, 17, crc32c.crc32c(bytes(data[21:])))
    if random.random() < 0.1:
        return data + batch(*values(0, 1))[: random.randrange(200)]
    return data[: random.randrange(len(data))] if random.random() < 0.1 else data


def test_the_quick_look_answers_as_the_general_way_does(random: Random) -> None:
    strict = LogConfig(message_timestamp_before_max_ms=1000, message_timestamp_after_max_ms=0)
    small = LogConfig(max_message_bytes=len(batch(*values(0, 3))) - 1)
    seen: set[object] = set()
    for _ in range(6000):
        data, config = mutated(random), random.choice([PLAIN, strict, small])
        quick = answer(lambda data=data, config=config: checked(bytes(data), config, NOW))
        general = answer(
            lambda data=data, config=config: _checked_entries(
                memoryview(data), Rules(config, NOW, Depth.HEADERS, at_once=False)
            )
        )
        assert quick == general
        seen.add(general[0] if isinstance(general[0], int) else 0)  # type: ignore[index]
    assert seen == {0, 2, 10, 32, 76, 87}


@pytest.mark.parametrize("size", [-1, 0, 13, -(1 << 31)])
def test_impossible_sizes_are_corrupt(size: int) -> None:
    data = batch(*values(0, 1))
    struct.pack_into(">i", data, 8, size)
    assert code_of(data) == 2


def test_unknown_format_is_corrupt() -> None:
    data = batch(*values(0, 1))
    data[16] = 3
    assert code_of(data) == 2


@all_formats
def test_entry_above_the_limit_is_too_large(magic: int, codec: Codec) -> None:
    data = batch((b"k", Random(1).randbytes(500)), magic=magic, codec=codec)
    assert checked(data, LogConfig(max_message_bytes=len(data)), NOW).offsets == 1
    assert code_of(data, LogConfig(max_message_bytes=len(data) - 1)) == 10


@pytest.mark.parametrize(
    ("at", "form", "value", "code"),
    [
        (57, ">i", 4, 87),  # count
        (57, ">i", 0, 87),
        (57, ">i", -1, 87),
        (23, ">i", 7, 87),  # last offset delta
        (0, ">q", 5, 87),  # base offset
        (21, ">h", 0x20, 87),  # control
        (21, ">h", 0x08, 32),  # append time
        (21, ">h", 0x05, 76),  # codec 5
        (43, ">q", 7, 87),  # producer without sequence
        (35, ">q", -5, 32),
    ],
)
def test_contradicting_headers_are_refused(at: int, form: str, value: int, code: int) -> None:
    assert code_of(patched(batch(*values(0, 3)), at, form, value)) == code


@all_formats
def test_compacted_topics_take_no_record_without_a_key(magic: int, codec: Codec) -> None:
    keyed = batch((b"k", None), (b"", b"v"), magic=magic, codec=codec)
    assert checked(keyed, COMPACTED, NOW).offsets == 2
    assert code_of(batch((b"k", b"v"), (None, b"v"), magic=magic, codec=codec), COMPACTED) == 87


@pytest.mark.parametrize("magic", [1, 2])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_times_far_from_the_clock_are_refused(magic: int, codec: Codec) -> None:
    strict = LogConfig(message_timestamp_before_max_ms=1000, message_timestamp_after_max_ms=100)
    by_broker = LogConfig(
        message_timestamp_type=MessageTimestampType.LOG_APPEND_TIME, message_timestamp_before_max_ms=1000
    )
    for shift, is_right in ((0, True), (-1000, True), (-1001, False), (100, True), (101, False)):
        data = batch(*values(0, 2), timestamp=NOW + shift, magic=magic, codec=codec)
        if is_right:
            checked(data, strict, NOW)
        else:
            assert code_of(data, strict) == 32
        checked(data, by_broker, NOW)


def test_records_that_do_not_fit_are_found_when_asked_for() -> None:
    data = batch(*values(0, 3))
    data[61] = 0x7E  # the first record's length
    patched(data, 12, ">i", -1)
    assert checked(data, PLAIN, NOW, Depth.HEADERS).offsets == 3
    assert code_of(data, PLAIN, Depth.RECORDS) == 87
    assert code_of(data, COMPACTED) == 87


def test_wrappers_are_looked_into() -> None:
    data = batch(*values(0, 3), magic=1, codec=Codec.GZIP)
    header = header_at(data, 0, 0)
    assert header is not None
    inner = legacy_sets.unwrapped(memoryview(data), header)
    broken = bytearray(inner)
    broken[40] ^= 1
    assert code_of(legacy_sets.rewrapped(broken, header, 2, NOW)) == 2
    assert code_of(legacy_sets.rewrapped(inner[:-1], header, 2, NOW)) == 2
    assert code_of(legacy_sets.rewrapped(b"", header, 2, NOW)) == 87
    assert code_of(legacy_sets.rewrapped(data, header, 2, NOW)) == 87  # within another
    by_broker = bytearray(inner)
    by_broker[17] |= 0x08
    size = struct.unpack_from(">i", by_broker, 8)[0] + 12
    struct.pack_into(">I", by_broker, 12, zlib.crc32(by_broker[16:size]))
    assert code_of(legacy_sets.rewrapped(by_broker, header, 2, NOW)) == 32


@pytest.mark.parametrize(
    "wrong",
    [
        {"segment_bytes": 13},
        {"segment_bytes": 1 << 31},
        {"retention_ms": -2},
        {"cleanup_policy": frozenset({"x"})},
        {"cleanup_policy": frozenset()},
        {"min_cleanable_dirty_ratio": 1.5},
        {"min_compaction_lag_ms": 6, "max_compaction_lag_ms": 5},
        {"max_compaction_lag_ms": 0},
    ],
    ids=str,
)
def test_impossible_settings_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(
        ConfigError, match=r"segment\.bytes|retention\.ms|cleanup\.policy|dirty\.ratio|lag\.ms"
    ):
        LogConfig(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("size", [0, 1, 55, 60, 65, 5000, 9000, 200_000])
def test_records_of_every_size_and_codec_are_taken(codec: Codec, size: int) -> None:
    for count in (1, 2, 50 if size < 1000 else 3):
        data = batch(*((None, bytes(size)) for _ in range(count)), codec=codec)
        assert checked(data, LogConfig(max_message_bytes=1 << 30), NOW).offsets == count


def test_raw_snappy_is_taken() -> None:
    """librdkafka writes it without the frame that Java puts around it."""
    plain = batch(*values(0, 200))
    data = plain[:61] + bytes(cramjam.snappy.compress_raw(bytes(plain[61:])))
    struct.pack_into(">i", data, 8, len(data) - 12)
    assert checked(patched(data, 21, ">h", Codec.SNAPPY), PLAIN, NOW).offsets == 200


def test_a_first_record_with_a_time_of_its_own_is_taken() -> None:
    """Most have that of the batch, for which there is a shorter check."""
    data = batch(*values(0, 3))
    struct.pack_into(">q", data, 27, NOW - 5)
    data[63] = 10  # the first record's time, five later
    assert checked(patched(data, 21, ">h", 0), PLAIN, NOW).offsets == 3
