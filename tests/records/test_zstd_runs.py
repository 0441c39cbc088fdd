"""Zstd batches that are decompressed by one call are what they are one by one, or are left to that."""

from __future__ import annotations

import random
from collections.abc import Callable

import cramjam
import pytest

from ottla.model.errors import CorruptRecord
from ottla.records.compression import Arena, Codec
from ottla.records.zstd_runs import _SEPARATOR, decompress_run
from tests.scale import SEED

HEAD = b"\x28\xb5\x2f\xfd"
RAW, RLE = 0, 1


def block(kind: int, size: int, data: bytes, *, is_last: bool) -> bytes:
    return (size << 3 | kind << 1 | is_last).to_bytes(3, "little") + data


def frame(blocks: bytes, descriptor: int = 0) -> bytes:
    """A frame with a window of 1 MiB, and without its size."""
    return HEAD + bytes([descriptor, 10 << 3]) + blocks


def content(chance: random.Random) -> bytes:
    words = [chance.randbytes(chance.randrange(1, 9)) for _ in range(5)]
    return b"".join(chance.choice(words) for _ in range(chance.choice((0, 1, 5, 40, 400))))


def compressed(data: bytes, chance: random.Random) -> bytes:
    """As some writer would: one frame or two, blocks of its own, or a frame that is to be skipped."""
    half = len(data) // 2
    made: list[Callable[[], bytes]] = [
        lambda: bytes(cramjam.zstd.compress(data, level=chance.choice((-5, 1, 3, 19)))),
        lambda: bytes(cramjam.zstd.compress(data[:half])) + bytes(cramjam.zstd.compress(data[half:])),
        lambda: frame(block(RAW, len(data), data, is_last=True)),
        lambda: b"\x50\x2a\x4d\x18\x03\0\0\0abc" + bytes(cramjam.zstd.compress(data)),
    ]
    return chance.choice(made)()


def one_by_one(batches: list[bytes]) -> list[bytes] | None:
    arena, found = Arena(limit=1 << 20), []
    for batch in batches:
        try:
            start = arena.append(Codec.ZSTD, batch)
        except CorruptRecord:
            return None
        found.append(arena.view[start:].tobytes())
    return found


def together(batches: list[bytes], size: int = 1 << 18) -> list[bytes] | None:
    room = memoryview(bytearray(size))
    spans = decompress_run([memoryview(batch) for batch in batches], room)
    return None if spans is None else [bytes(room[start:end]) for start, end in spans]


def test_a_run_is_what_its_batches_are() -> None:
    chance = random.Random(SEED)
    for _ in range(300):
        contents = [content(chance) for _ in range(chance.randrange(1, 20))]
        assert together([compressed(data, chance) for data in contents]) == contents


def test_a_damaged_run_is_left_to_calls_for_each_batch() -> None:
    chance = random.Random(SEED)
    accepted = refused = 0
    for _ in range(2000):
        batches = [compressed(content(chance), chance) for _ in range(chance.randrange(1, 6))]
        place = chance.randrange(len(batches))
        damaged = bytearray(batches[place])
        for _ in range(chance.choice((1, 1, 3))):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        batches[place] = bytes(damaged[: len(damaged) - chance.choice((0, 0, 1, 4))])
        found = together(batches)
        if found is None:
            refused += 1
        else:
            assert found == one_by_one(batches)
            accepted += 1
    assert accepted > 50 < refused


SWALLOWED = len(HEAD) + 2


@pytest.mark.parametrize(
    "batch",
    [
        pytest.param(frame(block(RAW, 3, b"abc", is_last=False)), id="goes on with the separator's head"),
        pytest.param(
            frame(block(RAW, 3 + SWALLOWED, b"abc", is_last=False)), id="goes on with the separator's blocks"
        ),
        pytest.param(
            frame(block(RAW, 3 + SWALLOWED, b"abc", is_last=False), descriptor=4),
            id="goes on with the separator's blocks and checksum",
        ),
        pytest.param(
            frame(block(RAW, 3 + len(_SEPARATOR), b"abc", is_last=True)), id="takes the separator for its own"
        ),
        pytest.param(frame(block(RLE, 3, b"", is_last=True)), id="takes the separator's first byte"),
        pytest.param(
            b"\x50\x2a\x4d\x18" + len(_SEPARATOR).to_bytes(4, "little"), id="has the separator skipped"
        ),
    ],
)
def test_a_batch_that_goes_on_in_what_follows_it_is_not_taken(batch: bytes) -> None:
    other = bytes(cramjam.zstd.compress(b"other"))
    for batches in ([batch], [batch, other], [other, batch, other], [batch, batch, other]):
        assert together(batches) in (None, one_by_one(batches))


def test_a_run_without_room_is_left_to_calls_for_each_batch() -> None:
    batches = [bytes(cramjam.zstd.compress(bytes(1000)))] * 4
    assert together(batches, 4063) is None
    assert together(batches, 4064) == [bytes(1000)] * 4
