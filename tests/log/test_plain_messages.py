"""Plain messages of formats 0 and 1 as columns: the same as one by one, and found again at every offset."""

from __future__ import annotations

import random
import struct
import zlib
from pathlib import Path

import pytest

from ottla.log import validation
from ottla.log.log_config import LogConfig
from ottla.log.message_walk import few_messages, starts_of
from ottla.log.partition_log import PartitionLog
from ottla.log.plain_messages import plain_messages
from ottla.log.reading import FirstBatch
from ottla.log.validation import CheckedSet, checked
from ottla.model.errors import KafkaError
from tests.log.record_sets import NOW

CONFIG = LogConfig(message_timestamp_before_max_ms=10_000, max_message_bytes=3000)


def message(magic: int, key: bytes | None, value: bytes | None, time_ms: int = NOW) -> bytes:
    body = struct.pack(">BB", magic, 0) + (struct.pack(">q", time_ms) if magic else b"")
    for part in (key, value):
        body += struct.pack(">i", -1) if part is None else struct.pack(">i", len(part)) + part
    return struct.pack(">qiI", 0, 4 + len(body), zlib.crc32(body)) + body


def looked_at(data: bytes, way: str, monkeypatch: pytest.MonkeyPatch) -> CheckedSet:
    with monkeypatch.context() as patch:
        if way == "general":
            patch.setattr(validation, "_sound_messages", lambda *_: None)
        else:
            patch.setattr(validation, "COLUMNS_FROM", 0 if way == "columns" else 1000)
        return checked(bytearray(data), CONFIG, NOW)


def outcome(data: bytes, tmp_path: Path, way: str, monkeypatch: pytest.MonkeyPatch) -> object:
    """The error, or what the log holds and notes after an append."""
    try:
        found = looked_at(data, way, monkeypatch)
    except KafkaError as error:
        return error.code, str(error)
    tmp_path.mkdir()
    log = PartitionLog.open(tmp_path, CONFIG, NOW)
    log.append(found, NOW)
    log.write_staged()
    stored = [tuple(header)[:8] for header in log.headers()]
    facts = (log.high_watermark, log.active.max_timestamp, log.read(0, 1 << 20) if stored else b"")
    log.close()
    return stored, facts


@pytest.mark.parametrize("seed", range(40))
def test_all_ways_decide_the_same(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(seed)
    magic = chance.choice((0, 1))
    data = bytearray()
    for _ in range(chance.randint(1, 60)):
        key, value = (
            None if chance.random() < 0.2 else chance.randbytes(chance.randint(0, 200)) for _ in range(2)
        )
        time_ms = NOW + chance.choice((0, 0, 0, -1, -5_000))
        data += message(magic, key, value, time_ms)
    for _ in range(chance.choice((0, 0, 1, 2))):
        data[chance.randrange(len(data))] = chance.randrange(256)
    if chance.random() < 0.2:
        data = data[: chance.randrange(len(data))]
    ways = ("columns", "one by one", "general")
    results = [outcome(bytes(data), tmp_path / way, way, monkeypatch) for way in ways]
    assert results[0] == results[1] == results[2]


@pytest.mark.parametrize(
    "bad",
    [
        message(1, b"k", b"v", NOW - 20_000),
        message(0, b"k", b"v"),
        message(1, b"k", b"x" * 3000),
        message(1, b"k", b"v")[:-1],
    ],
    ids=["too old", "another format", "too large", "cut"],
)
def test_one_that_is_not_right_leaves_the_set_to_the_general_way(bad: bytes) -> None:
    good = message(1, b"k", b"v") * 3
    for data, is_sound in ((good, True), (good + bad, False)):
        view = memoryview(data)
        starts = starts_of(view)
        columns = plain_messages(view, starts, CONFIG, NOW) if starts else None
        assert (columns is not None) == (few_messages(view, CONFIG, NOW) is not None) == is_sound


@pytest.mark.parametrize("seed", range(20))
def test_messages_of_one_size_in_a_row_are_found_as_all_others(seed: int) -> None:
    chance = random.Random(seed)
    data, starts = bytearray(), []
    for _ in range(chance.randint(1, 6)):
        size = chance.choice((0, 5, 5, 256))
        for _ in range(chance.choice((1, 2, 15, 16, 17, 40, 300))):
            starts.append(len(data))
            data += message(0, None, bytes(size))
    assert starts_of(memoryview(data)) == starts
    changed = chance.choice(starts)
    larger = struct.unpack_from(">i", data, changed + 8)[0] + 1
    struct.pack_into(">i", data, changed + 8, larger)
    found = starts_of(memoryview(data))
    assert found == [] or (found[: starts.index(changed) + 1] == starts[: starts.index(changed) + 1])


@pytest.mark.parametrize("first_batch", FirstBatch)
def test_every_message_is_found_with_the_fewest_bytes_that_hold_it(
    tmp_path: Path, first_batch: FirstBatch
) -> None:
    """A reader of Fetch 0 to 2 may ask for little: what it gets must begin with the message it wants."""
    log = PartitionLog.open(tmp_path, LogConfig(), NOW)
    data = b"".join(message(0, None, b"%d" % number * 50) for number in range(300))
    for _ in range(2):
        log.append(checked(bytearray(data), log.config, NOW), NOW)
        log.write_staged()
    assert log.high_watermark == 600
    for offset in range(600):
        found = log.read(offset, 300, first_batch)
        assert struct.unpack_from(">q", found)[0] == offset
    log.close()
