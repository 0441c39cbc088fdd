"""What is decoded and encoded: record sets of about 1 MB, as fetch responses bring them.

Values are pieces of JSON-like text. The sets differ from each other, and together they are larger than a
processor's cache, so that nobody decodes one hot buffer over and over. They are built by aiokafka, so that
ours is not measured on data of its own making.
"""

from __future__ import annotations

import itertools
import json
import random
import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from benchmarks.harness import version_of

SET_BYTES = 1 << 20
CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
_FIRST_TIMESTAMP = 1_700_000_000_000
Row = tuple[int, bytes | None, bytes]  # timestamp, key, value


@dataclass(frozen=True)
class Shape:
    """What the records look like."""

    value_bytes: int = 100
    key_bytes: int = 0
    batch_records: int = 1000
    magic: int = 2
    codec: str = "none"
    headers: int = 0

    def __str__(self) -> str:
        parts = [f"{self.value_bytes} B values", f"{self.key_bytes} B keys" if self.key_bytes else "no keys"]
        if self.magic < 2:
            parts.append(f"format {self.magic}")
        if self.codec != "none":
            parts.append(self.codec)
        if self.headers:
            parts.append(f"{self.headers} headers")
        if self.batch_records != 1000:
            parts.append(f"{self.batch_records} a batch")
        return ", ".join(parts)

    @property
    def header_list(self) -> list[tuple[str, bytes | None]]:
        """The headers of every record."""
        return [(f"header-{n}", b"value of it") for n in range(self.headers)]


@dataclass(frozen=True)
class RecordSets:
    """Record sets of one shape. `nbytes` is what they are uncompressed, to compare codecs by."""

    shape: Shape
    sets: list[bytes]
    record_count: int
    nbytes: int

    def first(self, megabytes: int) -> RecordSets:
        """The first `megabytes` of the sets, for slower contenders."""
        kept = min(megabytes, len(self.sets))
        share = kept / len(self.sets)
        return replace(
            self,
            sets=self.sets[:kept],
            record_count=round(self.record_count * share),
            nbytes=round(self.nbytes * share),
        )


def _text(chance: random.Random) -> bytes:
    words = [f"{chance.choice('bcdfghklmnprst')}{n:x}{chance.choice('aeiou')}" for n in range(3000)]
    people = (
        {"id": n, "user": chance.choice(words), "city": chance.choice(words), "score": chance.random()}
        for n in range(20_000)
    )
    return "".join(map(json.dumps, people)).encode()


def rows(shape: Shape) -> Iterator[Row]:
    """Records without end; the same ones each time."""
    chance = random.Random(20_240_101)
    text = _text(chance)
    timestamp = _FIRST_TIMESTAMP
    for number in itertools.count(1):
        timestamp += chance.randrange(20)
        start = chance.randrange(len(text) - shape.value_bytes)
        key = b"%0*d" % (shape.key_bytes, number % 10_000_000) if shape.key_bytes else None
        yield timestamp, key, text[start : start + shape.value_bytes]


def record_sets(shape: Shape, megabytes: int) -> RecordSets:
    """`megabytes` different sets of about 1 MB, whose offsets continue from one to the next.

    All sets have the same number of records, so that a part of them is as good as the whole.
    """
    batch_bytes = shape.batch_records * (shape.value_bytes + shape.key_bytes + 12 + 22 * shape.headers)
    batches_per_set = max(1, SET_BYTES // batch_bytes)
    source = rows(shape)
    sets = []
    offset = 0
    for _ in range(megabytes):
        batches = []
        for _ in range(batches_per_set):
            batch = [next(source) for _ in range(shape.batch_records)]
            batches.append(built(shape, offset, batch))
            offset += shape.batch_records
        sets.append(b"".join(batches))
    return RecordSets(shape, sets, offset, megabytes * batches_per_set * batch_bytes)


def built(shape: Shape, offset: int, batch: list[Row]) -> bytes:
    """One batch, or one message set, of these records."""
    if version_of("aiokafka") is None:
        raise SystemExit("the record sets of the benchmarks are built by aiokafka, which is not installed")
    return _built_v2(shape, offset, batch) if shape.magic == 2 else _built_legacy(shape, offset, batch)


def _built_v2(shape: Shape, offset: int, batch: list[Row]) -> bytes:
    from aiokafka.record.default_records import DefaultRecordBatchBuilder

    builder: Any = DefaultRecordBatchBuilder(2, CODECS[shape.codec], 0, -1, -1, -1, 1 << 30)
    headers = shape.header_list
    for delta, (timestamp, key, value) in enumerate(batch):
        builder.append(delta, timestamp, key, value, headers)
    built = bytearray(builder.build())
    struct.pack_into(">q", built, 0, offset)  # as a broker does: the base offset is outside the checksum
    return bytes(built)


def _built_legacy(shape: Shape, offset: int, batch: list[Row]) -> bytes:
    from aiokafka.record.legacy_records import LegacyRecordBatchBuilder

    builder: Any = LegacyRecordBatchBuilder(shape.magic, CODECS[shape.codec], 1 << 30)
    for delta, (timestamp, key, value) in enumerate(batch):
        builder.append(offset + delta, timestamp, key, value)
    return bytes(builder.build())
