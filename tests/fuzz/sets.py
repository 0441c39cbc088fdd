"""Record sets as structures: damage goes in behind checksums and inside compressed data.

Bytes that are changed from outside die at the checksum, or in the decompressor; what lies behind those
would never be tried. So an entry is kept in parts, a part is changed, and the entry is put together anew.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from functools import cached_property
from random import Random

from ottla.model.errors import OttlaError
from ottla.records.compression import Codec, compress
from tests.fuzz import mutations
from tests.fuzz.mutations import INT16, INT32, INT64, mutated
from tests.naive import record_set
from tests.naive.record_set import read_varint, record, varint

# Offsets of the fields of a batch header behind its checksum, with their layouts.
BATCH_FIELDS = [
    (0, ">h", [0, 1, 2, 3, 4, 5, 7, 8, 0x10, 0x20, 0x30, 0x38, -1, 0x40]),
    (2, ">i", INT32),
    (6, ">q", INT64),
    (14, ">q", INT64),
    (22, ">q", [-1, 0, 1, 2]),
    (30, ">h", INT16),
    (32, ">i", INT32),
    (36, ">i", INT32),
]


@dataclass(frozen=True)
class Entry:
    """A batch or message in parts. Its checksum covers `head` and what follows, which is one of three:

    `body` as it is, `rows` (records of a batch without their lengths), `inner` (messages of a wrapper).
    """

    magic: int
    offset: int
    head: bytes
    body: bytes = b""
    codec: Codec = Codec.NONE
    inner: tuple[Entry, ...] | None = None
    rows: tuple[bytes, ...] | None = None
    checksum: int | None = None
    spoiled: int | None = None
    """The seed of damage to what was compressed, which the checksum covers."""

    @cached_property
    def content(self) -> bytes:
        """What is compressed."""
        if self.inner is not None:
            return b"".join(entry.built for entry in self.inner)
        if self.rows is not None:
            return b"".join(varint(len(row)) + row for row in self.rows)
        return self.body

    @cached_property
    def built(self) -> bytes:
        """All of its bytes. An entry that is not changed is built once."""
        body = self.content
        if self.codec is not Codec.NONE:
            try:
                body = bytes(compress(self.codec, body, magic=self.magic))
            except OttlaError:  # zstd in an old format: our own compressor refuses to help
                body = bytes(compress(self.codec, body))
            if self.spoiled is not None:
                body = mutated(body, Random(self.spoiled))
        if self.magic == 2:
            data = bytearray(record_set.sealed_batch(self.offset, self.head + body))
        else:
            value = body if self.codec is Codec.NONE else struct.pack(">ii", -1, len(body)) + body
            data = bytearray(record_set.sealed_message(self.offset, self.head + value))
        if self.checksum is not None:
            struct.pack_into(">I", data, 17 if self.magic == 2 else 12, self.checksum)
        return bytes(data)


def batch(
    records: list[bytes], offset: int, codec: Codec = Codec.NONE, attributes: int = 0, producer: int = -1
) -> Entry:
    count = len(records)
    head = struct.pack(
        ">hiqqqhii",
        attributes | codec,
        max(count - 1, 0),
        1_500_000_000_000,
        1_500_000_000_500,
        producer,
        0,
        0,
        count,
    )
    rows = tuple(record[read_varint(record, 0, len(record))[1] :] for record in records)
    return Entry(2, offset, head, b"", codec, rows=rows)


def message(magic: int, offset: int, key: bytes | None, value: bytes | None, attributes: int = 0) -> Entry:
    whole = record_set.message(
        magic, offset, key, value, timestamp=1_500_000_000_000 + offset, attributes=attributes
    )
    split = 18 if magic == 0 else 26
    return Entry(magic, offset, whole[16:split], whole[split:])


def wrapper(magic: int, offset: int, inner: list[Entry], codec: Codec, attributes: int = 0) -> Entry:
    head = struct.pack(">BB", magic, attributes | codec)
    if magic == 1:
        head += struct.pack(">q", 1_500_000_000_000)
    return Entry(magic, offset, head, b"", codec, tuple(inner))


def _rows(count: int) -> list[bytes]:
    return [
        record(
            n,
            None if n % 3 == 2 else b"key-%d" % n,
            None if n % 5 == 4 else b"value " * n,
            timestamp_delta=n * 70 - 3,
            headers=[(b"h", b"x"), (b"trace", b"0123456789" * 7), (b"n", None)][: n % 4],
        )
        for n in range(count)
    ]


def _seeds() -> list[list[Entry]]:
    rows = _rows(6)
    seeds = [[batch(rows, 3, codec)] for codec in Codec]
    seeds += [[batch(rows[:1], 0, codec), batch(rows[:3], 1, codec)] for codec in Codec]
    seeds += [[batch(rows[:1], number, codec) for number in range(6)] for codec in Codec]
    seeds += [[batch([], 5)], [batch(rows, 0), batch([], 6), batch(rows, 7)]]
    for magic in (0, 1):
        alone = [message(magic, n, b"k%d" % n if n % 2 else None, b"v" * n or None) for n in range(4)]
        seeds += [alone[:1], alone]
        for codec in (Codec.GZIP, Codec.SNAPPY, Codec.LZ4):
            inner = [message(magic, n, b"k", b"value %d" % n) for n in range(3)]
            seeds += [
                [wrapper(magic, 2, inner, codec)],
                [*alone[:2], wrapper(magic, 12, inner, codec, 8 * magic)],
            ]
    marker = struct.pack(">hh", 0, 0), struct.pack(">hh", 0, 1)
    transactions = [
        batch(rows[:2], 0, attributes=0x10, producer=1),
        batch(rows[:2], 2, Codec.ZSTD, attributes=0x10, producer=2),
        batch([record(0, marker[0], b"\0" * 6)], 4, attributes=0x30, producer=1),
        batch([record(0, marker[1], b"\0" * 6)], 5, attributes=0x30, producer=2),
        batch(rows[:2], 6, attributes=0x10, producer=1),
    ]
    inner = [message(1, n, b"k", b"v") for n in range(2)]
    mixed = [
        message(0, 0, b"k", b"v"),
        wrapper(1, 2, inner, Codec.LZ4),
        batch(rows[:2], 3),
        message(1, 5, None, b"v"),
    ]
    many = [batch(rows[:2], 2 * n) for n in range(70)]
    return [*seeds, transactions, transactions, mixed, [*mixed, *transactions[2:]], many]


SEEDS = _seeds()


def random_set(chance: Random) -> bytes:
    """A record set with damage somewhere, its checksums mostly right."""
    entries = list(chance.choice(SEEDS))
    if chance.random() < 0.1:
        entries += chance.choice(SEEDS)
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        at = chance.randrange(len(entries))
        entries[at] = changed(entries[at], chance)
    if chance.random() < 0.05:
        chance.shuffle(entries)
    data = b"".join(entry.built for entry in entries)
    fate = chance.random()
    if fate < 0.15:
        return mutated(data, chance)
    if fate < 0.25:
        return data[: chance.randrange(len(data) + 1)]
    if fate < 0.28:
        return mutations.spliced(data, b"".join(entry.built for entry in chance.choice(SEEDS)), chance)
    return data


def changed(entry: Entry, chance: Random) -> Entry:
    """One part of an entry is changed."""
    if entry.inner and chance.random() < 0.6:
        inner = list(entry.inner)
        at = chance.randrange(len(inner))
        inner[at] = changed(inner[at], chance)
        return replace(entry, inner=tuple(inner))
    return chance.choice(CHANGES)(entry, chance)


def _with_body(entry: Entry, chance: Random) -> Entry:
    if entry.inner is not None:
        return replace(entry, body=mutated(entry.content, chance), inner=None)
    return replace(entry, body=mutated(entry.content, chance), rows=None)


def _with_spoiled(entry: Entry, chance: Random) -> Entry:
    """What was compressed is damaged, or, where nothing was, the body."""
    if entry.codec is Codec.NONE:
        return _with_body(entry, chance)
    return replace(entry, spoiled=chance.randrange(1 << 32))


def _with_varint(entry: Entry, chance: Random) -> Entry:
    out = bytearray(entry.content or b"\0")
    mutations.put_varint(out, chance)
    return replace(entry, body=bytes(out), rows=None, inner=None)


def _with_row(entry: Entry, chance: Random) -> Entry:
    """A record is changed, mostly in its headers, and keeps a length that fits."""
    if not entry.rows:
        return _with_body(entry, chance)
    rows = list(entry.rows)
    at = chance.randrange(len(rows))
    split = chance.randrange(len(rows[at]) + 1) if chance.random() < 0.7 else 0
    rows[at] = rows[at][:split] + mutated(rows[at][split:], chance, times=1)
    return replace(entry, rows=tuple(rows))


def _with_head(entry: Entry, chance: Random) -> Entry:
    return replace(entry, head=mutated(entry.head, chance, times=1))


def _with_offset(entry: Entry, chance: Random) -> Entry:
    return replace(entry, offset=chance.choice([*INT64, 5, 6]))


def _with_checksum(entry: Entry, chance: Random) -> Entry:
    return replace(entry, checksum=chance.randrange(1 << 32))


def _with_field(entry: Entry, chance: Random) -> Entry:
    head = bytearray(entry.head)
    if entry.magic == 2:
        at, layout, values = chance.choice(BATCH_FIELDS)
        if at + struct.calcsize(layout) <= len(head):
            struct.pack_into(layout, head, at, chance.choice(values))
    elif len(head) >= 2:
        head[1] = chance.choice((0, 1, 2, 3, 4, 5, 7, 8, 9, 0x10, 0x30, 0xFF))
    return replace(entry, head=bytes(head))


CHANGES = [
    *(14 * [_with_body] + 14 * [_with_spoiled] + 8 * [_with_varint] + 30 * [_with_row] + 17 * [_with_field]),
    *(7 * [_with_head] + 5 * [_with_offset] + 5 * [_with_checksum]),
]
