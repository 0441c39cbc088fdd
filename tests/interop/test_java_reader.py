"""Kafka's own reader and writer of record sets, from the kafka-clients jars, as the judge of ours.

One run of a small Java program (RecordSets.java) per Kafka version reads all that we wrote and writes all
that we are to read. Without Java, or where its jars cannot be fetched, everything here is skipped. 3.9 is
the last Kafka whose brokers converted to formats 0 and 1.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ottla.records.builder import Stamp, encode
from ottla.records.compression import Codec
from ottla.records.reader import decode
from ottla.wire.api.fetch import AbortedTransaction
from tests.interop.rows import (
    FORMAT_IDS,
    FORMATS,
    LOG_APPEND_TIME,
    Row,
    entries,
    formats_of,
    our_rows,
    rows_of,
    sample,
    table,
)
from tests.kafka_programs import run_program
from tools.peer_cache import KAFKA_3, KAFKA_CLIENTS

pytestmark = pytest.mark.timeout(20, func_only=True)  # the programs in the fixture have limits of their own

PROGRAM = Path(__file__).with_name("RecordSets.java")
APPEND_TIME = 1_750_000_000_123  # as in the program
JAVA_OFFSET = 100  # likewise
PRODUCER = Stamp(
    base_offset=7, producer_id=2**40 + 1, producer_epoch=32_000, base_sequence=9, transactional=True
)
ZSTD_LEVELS, LZ4_LEVELS, GZIP_LEVELS = [-5, 1, 3, 12], [1, 9, 17], [1, 9]

all_formats = pytest.mark.parametrize(("magic", "codec"), FORMATS, ids=FORMAT_IDS)
all_codecs = pytest.mark.parametrize("codec", Codec, ids=lambda codec: codec.label)

MOVED = {
    "common.record.": "common.record.internal.",
    "common.record.internal.TimestampType": "common.record.TimestampType",
    "common.utils.ByteBufferOutputStream": "common.utils.internals.ByteBufferOutputStream",
}
"""Where the classes that the program imports are since Kafka 4.3."""


@dataclass(frozen=True)
class Java:
    """What one run of the program left behind."""

    out: Path

    def wrote(self, name: str) -> bytes:
        """A record set that Kafka wrote."""
        return (self.out / f"java-{name}.bin").read_bytes()

    def read(self, name: str) -> tuple[list[dict[str, Any]], list[Row]]:
        """The batches and rows that Kafka read from a record set of ours."""
        lines = [json.loads(line) for line in (self.out / f"{name}.jsonl").read_text().splitlines()]
        assert [line["refused"] for line in lines if "refused" in line] == []
        return [line for line in lines if "batch" in line], [
            _row(*line["row"]) for line in lines if "row" in line
        ]

    def lz4_checksums(self, name: str) -> list[int]:
        """Of our lz4 frame: its header checksum, and Java's hashes with and without the magic number."""
        return [int(word) for word in (self.out / f"{name}.lz4").read_text().split()]


def _row(
    offset: int,
    timestamp: int,
    kind: int,
    key: str | None,
    value: str | None,
    headers: list[list[str | None]],
) -> Row:
    return Row(
        offset,
        None if timestamp == -1 else timestamp,
        kind,
        _bytes(key),
        _bytes(value),
        tuple(((_bytes(name) or b"").decode(), _bytes(content)) for name, content in headers),
    )


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text)


@pytest.fixture(scope="module", params=[KAFKA_3, KAFKA_CLIENTS])
def java(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Java:
    work = tmp_path_factory.mktemp(f"java-{request.param}")
    source = PROGRAM.read_text()
    for old, new in MOVED.items() if request.param == KAFKA_CLIENTS else ():
        source = source.replace(old, new)
    (work / PROGRAM.name).write_text(source)
    ours, out = work / "ours", work / "out"
    ours.mkdir()
    out.mkdir()
    (work / "rows.txt").write_text("\n".join(map(_line, sample(2))))
    _write_ours(ours)
    run_program(work / PROGRAM.name, work / "rows.txt", ours, out, version=request.param)
    return Java(out)


def _line(row: Row) -> str:
    """A row as the program reads it."""

    def text(data: bytes | None) -> str:
        return "-" if data is None else data.hex()

    headers = ",".join(f"{key.encode().hex()}:{text(value)}" for key, value in row.headers)
    return "\t".join([str(row.timestamp), text(row.key), text(row.value), headers])


def _write_ours(where: Path) -> None:
    for (magic, codec), name in zip(FORMATS, FORMAT_IDS, strict=True):
        _save(where / name, table(sample(magic)), magic=magic, codec=codec)
        many = {"batch_bytes": 10_000, "stamp": Stamp(base_offset=10**12)}
        _save(where / f"{name}-many", table(sample(magic, copies=20)), magic=magic, codec=codec, **many)
        lone = [sample(magic)[0]._replace(key=None, value=None)]
        _save(where / f"{name}-lone", table(lone), magic=magic, codec=codec)
    for codec in Codec:
        _save(
            where / f"{codec.label}-producer",
            table(sample(2)),
            codec=codec,
            stamp=PRODUCER,
            batch_bytes=50_000,
        )
    for codec, levels in ((Codec.GZIP, GZIP_LEVELS), (Codec.LZ4, LZ4_LEVELS), (Codec.ZSTD, ZSTD_LEVELS)):
        for level in levels:
            _save(where / f"{codec.label}-level{level}", table(sample(2)), codec=codec, level=level)


def _save(path: Path, columns: Any, **options: Any) -> None:
    path.with_name(f"{path.name}.bin").write_bytes(b"".join(encode(columns, **options)))


# ---- Kafka reads ours


@all_formats
def test_kafka_reads_what_we_write(java: Java, magic: int, codec: Codec) -> None:
    batches, rows = java.read(f"format{magic}-{codec.label}")
    assert rows == sample(magic)
    assert {tuple(batch["batch"][:2]) for batch in batches} == {(magic, codec)}


@all_formats
def test_kafka_reads_many_of_our_batches(java: Java, magic: int, codec: Codec) -> None:
    batches, rows = java.read(f"format{magic}-{codec.label}-many")
    assert len(batches) > 40
    assert rows == sample(magic, first_offset=10**12, copies=20)


@all_formats
def test_kafka_reads_our_record_with_nothing_in_it(java: Java, magic: int, codec: Codec) -> None:
    _, rows = java.read(f"format{magic}-{codec.label}-lone")
    assert rows == [sample(magic)[0]._replace(key=None, value=None)]


@all_codecs
def test_kafka_finds_our_producer_fields(java: Java, codec: Codec) -> None:
    batches, rows = java.read(f"{codec.label}-producer")
    assert rows == sample(2, first_offset=7)
    assert len(batches) > 1
    for batch in batches:
        _, _, base_offset, _ = batch["batch"]
        assert batch["producer"] == [2**40 + 1, 32_000, 9 + base_offset - 7]
        assert batch["flags"] == [True, False]


@pytest.mark.parametrize(
    "name",
    [
        *(f"gzip-level{level}" for level in GZIP_LEVELS),
        *(f"lz4-level{level}" for level in LZ4_LEVELS),
        *(f"zstd-level{level}" for level in ZSTD_LEVELS),
    ],
)
def test_kafka_reads_our_other_compression_levels(java: Java, name: str) -> None:
    _, rows = java.read(name)
    assert rows == sample(2)


# ---- we read Kafka's


@all_formats
def test_we_read_what_kafka_writes(java: Java, magic: int, codec: Codec) -> None:
    data = java.wrote(f"format{magic}-{codec.label}")
    assert formats_of(data) == {(magic, codec)}
    assert our_rows(data) == sample(magic, first_offset=JAVA_OFFSET)


@pytest.mark.parametrize(
    ("magic", "codec"),
    [pair for pair in FORMATS if pair[0] > 0],
    ids=[name for pair, name in zip(FORMATS, FORMAT_IDS, strict=True) if pair[0] > 0],
)
def test_we_read_kafkas_append_time(java: Java, magic: int, codec: Codec) -> None:
    rows = sample(magic, first_offset=JAVA_OFFSET)
    expected = [row._replace(timestamp=APPEND_TIME, timestamp_type=LOG_APPEND_TIME) for row in rows]
    assert our_rows(java.wrote(f"format{magic}-{codec.label}-append-time")) == expected


@all_formats
def test_we_keep_the_offsets_of_a_compacted_batch(java: Java, magic: int, codec: Codec) -> None:
    decoded = decode(java.wrote(f"format{magic}-{codec.label}-gaps"), headers=True)
    assert rows_of(decoded) == sample(magic, first_offset=200)[1::3]
    assert decoded.next_offset == (251 if magic == 2 else 208)


@all_codecs
def test_we_hide_markers_and_deliver_uncommitted_records_if_not_told_otherwise(
    java: Java, codec: Codec
) -> None:
    decoded = decode(java.wrote(f"format2-{codec.label}-transactions"), headers=True)
    assert [row.offset for row in rows_of(decoded)] == [300, 301, 302, 303, 304, 305, 308, 310]
    assert decoded.next_offset == 311


@all_codecs
def test_we_hide_what_an_abort_marker_ended(java: Java, codec: Codec) -> None:
    data = java.wrote(f"format2-{codec.label}-transactions")
    decoded = decode(data, headers=True, aborted=[AbortedTransaction(first_offset=300, producer_id=7)])
    rows = rows_of(decoded)
    assert [row.offset for row in rows] == [302, 303, 304, 308, 310]
    expected = sample(2)
    assert rows == [
        row._replace(offset=offset)
        for offset, row in zip([302, 303, 304, 308, 310], [*expected[:3], *expected[4:6]], strict=True)
    ]
    assert decoded.next_offset == 311


@all_codecs
def test_a_delete_horizon_leaves_the_timestamps_alone(java: Java, codec: Codec) -> None:
    assert our_rows(java.wrote(f"format2-{codec.label}-horizon")) == sample(2, first_offset=JAVA_OFFSET)


def test_a_batch_that_was_compacted_away_still_moves_the_position(java: Java) -> None:
    decoded = decode(java.wrote("empty"))
    assert (decoded.batch.num_rows, decoded.next_offset) == (0, 40)


def test_a_leader_change_is_hidden_and_passed_over(java: Java) -> None:
    decoded = decode(java.wrote("leader-change"))
    assert (decoded.batch.num_rows, decoded.next_offset) == (0, 61)


# ---- oddities


def test_kafkas_zstd_frames_carry_no_content_size(java: Java) -> None:
    """So what we read from it above was read without knowing the size."""
    descriptor = java.wrote("format2-zstd")[61 + 4]
    assert descriptor >> 6 == 0
    assert not descriptor & 0x20


def test_kafka_writes_a_wrong_lz4_checksum_in_format_0_only(java: Java) -> None:
    wrong, right = _lz4_header(java.wrote("format0-lz4"), 0), _lz4_header(java.wrote("format1-lz4"), 1)
    assert wrong[:6] == right[:6]
    assert wrong[6] != right[6]


def test_our_wrong_lz4_checksum_of_format_0_is_the_one_that_old_readers_insist_on(java: Java) -> None:
    """Kafka since 0.10 reads format 0 with any checksum, so that it reads ours proves nothing here."""
    ours, hash_with_magic_number, hash_by_specification = java.lz4_checksums("format0-lz4")
    assert ours == hash_with_magic_number
    assert ours != hash_by_specification


def test_our_lz4_checksum_of_format_1_is_the_right_one(java: Java) -> None:
    ours, _, hash_by_specification = java.lz4_checksums("format1-lz4")
    assert ours == hash_by_specification


def _lz4_header(data: bytes, magic: int) -> bytes:
    """Magic number, flags, block size and header checksum of the frame in a wrapper with a null key."""
    (wrapper,) = entries(data)
    return bytes(wrapper[(18, 26)[magic] + 8 :][:7])
