"""Records as plain rows, so that what different readers say of the same bytes can be compared."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from itertools import product
from typing import NamedTuple

import pyarrow as pa

from ottla.records.compression import Codec
from ottla.records.reader import Decoded, decode

Headers = tuple[tuple[str, bytes | None], ...]

NO_TIMESTAMP_TYPE, CREATE_TIME, LOG_APPEND_TIME = -1, 0, 1

# Every format with every codec that is legal in it.
FORMATS = [
    (magic, codec) for magic, codec in product((0, 1, 2), Codec) if not (codec is Codec.ZSTD and magic < 2)
]
FORMAT_IDS = [f"format{magic}-{codec.label}" for magic, codec in FORMATS]


class Row(NamedTuple):
    """One record; `timestamp` is in milliseconds and None where the format has none."""

    offset: int
    timestamp: int | None
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()

    def __repr__(self) -> str:
        """Short, for values of 100 KB are no help in a failure's text."""
        shown = [_short(field) for field in (self.offset, self.timestamp, self.timestamp_type)]
        return f"Row({', '.join([*shown, _short(self.key), _short(self.value), _short(self.headers)])})"


def _short(field: object) -> str:
    text = repr(field)
    return text if len(text) < 60 else f"{text[:40]}… ({len(text):,} characters)"


# Times that go back and forth; keys and values that are null, empty, binary, text, and longer than a snappy
# block (32 KiB) and an lz4 block (64 KiB); all of it compressible, or some writers would not compress.
_TEXT = "größer als nichts ☃ ".encode()
_SAMPLES: list[tuple[int, bytes | None, bytes | None, Headers]] = [
    (1_700_000_000_000, b"key", b"value", ()),
    (1_700_000_000_001, None, b"no key", (("trace", b"\x00\x01\xff"),)),
    (1_699_999_999_000, b"tombstone", None, ()),
    (1_700_000_000_500, None, None, (("null", None), ("empty", b""))),
    (1_700_000_000_500, b"", b"", (("", b"empty key"),)),
    (1_700_000_100_000, bytes(range(256)), bytes(range(256)) * 4, (("twice", b"1"), ("twice", b"2"))),
    (0, _TEXT, _TEXT * 5_000, (("schlüssel ☃", _TEXT),)),
    (1_800_000_000_000, b"k" * 300, b"v" * 70_000, tuple((f"h{i}", b"x" * i) for i in range(70))),
    (1, b"last", b"value" * 200, ()),
]


def sample(magic: int, *, first_offset: int = 0, copies: int = 1) -> list[Row]:
    """Rows with all that is unusual, as far as the format can carry it."""
    return [
        Row(
            offset,
            timestamp if magic else None,
            CREATE_TIME if magic else NO_TIMESTAMP_TYPE,
            key,
            value,
            headers if magic == 2 else (),
        )
        for offset, (timestamp, key, value, headers) in enumerate(_SAMPLES * copies, first_offset)
    ]


def producible(rows: Sequence[Row]) -> list[Row]:
    """The same rows without a timestamp of 0, which producers take for "now" and librdkafka for none."""
    return [row._replace(timestamp=2) if row.timestamp == 0 else row for row in rows]


def table(rows: Sequence[Row]) -> pa.Table:
    """The columns that `builder.encode` takes."""
    columns = {
        "key": pa.array([row.key for row in rows], pa.binary()),
        "value": pa.array([row.value for row in rows], pa.binary()),
        "timestamp": pa.array([row.timestamp for row in rows], pa.int64()),
    }
    if any(row.headers for row in rows):
        kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
        headers = [[{"key": key, "value": value} for key, value in row.headers] for row in rows]
        columns["headers"] = pa.array(headers, kind)
    return pa.table(columns)


def rows_of(decoded: Decoded) -> list[Row]:
    """What we decoded. Damage is a failure here."""
    assert decoded.damage is None
    decoded.batch.validate(full=True)
    timestamps = decoded.batch.column("timestamp").cast(pa.int64()).to_pylist()
    headers = decoded.batch.column("headers").to_pylist()
    columns = [
        decoded.batch.column(name).to_pylist() for name in ("offset", "timestamp_type", "key", "value")
    ]
    return [
        Row(offset, timestamp, kind, key, value, tuple((item["key"], item["value"]) for item in items))
        for offset, kind, key, value, timestamp, items in zip(*columns, timestamps, headers, strict=True)
    ]


def our_rows(data: bytes) -> list[Row]:
    """All records of a record set, by our reader; every byte must be used."""
    decoded = decode(data, headers=True)
    assert decoded.valid_bytes == len(data)
    return rows_of(decoded)


# ---- what stands in front of the records, read here without any code under test


def entries(data: bytes | memoryview) -> Iterator[memoryview]:
    """The batches (format 2) or messages (formats 0, 1) of a record set."""
    view, at = memoryview(data), 0
    while at < len(view):
        end = at + 12 + struct.unpack_from(">i", view, at + 8)[0]
        assert end <= len(view)
        yield view[at:end]
        at = end


def magic_of(entry: bytes | bytearray | memoryview) -> int:
    return entry[16]


def codec_of(entry: bytes | memoryview) -> Codec:
    return Codec(entry[22 if magic_of(entry) == 2 else 17] & 7)


def last_offset_of(entry: bytes | bytearray | memoryview) -> int:
    offset: int = struct.unpack_from(">q", entry)[0]
    return offset + (struct.unpack_from(">i", entry, 23)[0] if magic_of(entry) == 2 else 0)


def formats_of(data: bytes) -> set[tuple[int, Codec]]:
    """The formats and codecs that occur in a record set."""
    return {(magic_of(entry), codec_of(entry)) for entry in entries(data)}
