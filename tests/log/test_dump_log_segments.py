"""Kafka's own DumpLogSegments reads our files: batches, offset index and time index, without a complaint."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ottla.log.compaction import compact
from ottla.log.config import DAY_MS, LogConfig
from ottla.log.partition_log import PartitionLog
from ottla.records.compression import Codec
from ottla.records.reader import decode
from tests.log.kafka_tools import dump, kafka_0_9, kafka_3_9
from tests.log.record_sets import NOW, add, batch, open_log, values

pytestmark = pytest.mark.timeout(280)
CONFIG = LogConfig(segment_bytes=9000, index_interval_bytes=1000)
COMPLAINT = re.compile(r"mismatch|Mismatch|isvalid: false|out of order|Non-consec|not found|[Ee]xception")


def written(path: Path, magic: int, codecs: list[Codec]) -> PartitionLog:
    log = open_log(path, CONFIG)
    for number in range(70):
        codec = codecs[number % len(codecs)]
        rows = values(number * 3, 3, 80)
        add(log, batch(*rows, magic=magic, codec=codec, timestamp=NOW + number), epoch=number // 30)
    return log


def files(log: PartitionLog, *suffixes: str) -> str:
    return ",".join(str(segment.path_of(suffix)) for segment in log.segments for suffix in suffixes)


def offsets(text: str) -> list[int]:
    return [int(found) for found in re.findall(r"^(?:\| )?offset: (\d+) .*?(?:keysize|keySize)", text, re.M)]


def times_of(log: PartitionLog) -> list[tuple[int, int]]:
    """(offset, timestamp) of all records, by our reader."""
    found: list[tuple[int, int]] = []
    for segment in log.segments:
        rows = decode(segment.file.read(0, segment.size)).batch
        times = rows.column("timestamp").cast("int64").to_pylist()
        found += zip(rows.column("offset").to_pylist(), times, strict=True)
    return found


@pytest.mark.parametrize("magic", [0, 1, 2])
def test_kafka_3_9_reads_logs_and_indexes(tmp_path: Path, magic: int) -> None:
    jars = kafka_3_9()
    codecs = list(Codec) if magic == 2 else [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4]
    log = written(tmp_path / "t-0", magic, codecs)
    log.close()
    assert len(log.segments) > 1
    suffixes = (".log", ".index", ".timeindex") if magic else (".log", ".index")
    text = dump(jars, "--deep-iteration", "--print-data-log", "--files", files(log, *suffixes))
    assert offsets(text) == list(range(210))
    if magic:
        for segment in log.segments:
            assert f"timestamp: {segment.max_timestamp} offset: {segment.next_offset - 1}" in text
    assert not COMPLAINT.search(text)
    for segment in log.segments:
        for offset, position in segment.offset_index.entries():
            assert f"offset: {offset} position: {position}" in text


def test_kafka_3_9_reads_a_compacted_log(tmp_path: Path) -> None:
    jars = kafka_3_9()
    log = open_log(tmp_path / "t-0", CONFIG)
    for number in range(150):
        codec = list(Codec)[number % 5]
        value = None if number % 4 == 0 else b"w" * 90
        rows = ((b"k%d" % (number % 7), b"v" * 90), (b"u%d" % number, value))
        add(log, batch(*rows, codec=codec, timestamp=NOW + number))
    compact(log, 0, NOW)
    times = times_of(log)
    log.close()
    every = files(log, ".log", ".index", ".timeindex")
    text = dump(jars, "--deep-iteration", "--print-data-log", "--files", every)
    assert offsets(text) == [row[0] for row in times]
    assert not re.search(r"isvalid: false|[Mm]ismatch|out of order|[Ee]xception", text)
    # Tombstones have got their horizon, and every record has kept its time.
    assert len(re.findall(rf"deleteHorizonMs: OptionalLong\[{NOW + DAY_MS}\]", text)) > 10
    found = re.findall(r"^\| offset: (\d+) CreateTime: (\d+)", text, re.M)
    assert [(int(offset), int(time)) for offset, time in found] == times


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.SNAPPY], ids=lambda codec: codec.label)
def test_kafka_0_9_reads_format_0(tmp_path: Path, codec: Codec) -> None:
    jars = kafka_0_9()
    log = written(tmp_path / "t-0", 0, [codec])
    log.close()
    # 0.9 indexes the first offset of a wrapper, later brokers and we the last: it only accepts its own.
    suffixes = (".log", ".index") if codec is Codec.NONE else (".log",)
    text = dump(jars, "--deep-iteration", "--print-data-log", "--files", files(log, *suffixes))
    assert offsets(text) == list(range(210))
    assert not COMPLAINT.search(text)
