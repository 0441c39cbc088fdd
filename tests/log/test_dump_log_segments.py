"""Kafka's own DumpLogSegments reads our files: batches, offset index and time index, without a complaint."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ottla.cli.kafka.dump_log import run
from ottla.log import producer_snapshots
from ottla.log.compaction import compact
from ottla.log.file_system import REAL
from ottla.log.log_config import DAY_MS, LogConfig
from ottla.log.partition_log import PartitionLog
from ottla.log.segment import INDEX_ENTRIES_UNSTORED_MAX
from ottla.records.compression import Codec
from ottla.records.reader import decode
from tests.kafka_programs import dump_log
from tests.log.record_sets import NOW, add, batch, open_log, values
from tests.log.transactional_log import TransactionalLog
from tools.peer_cache import KAFKA_0_9, KAFKA_3

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
    codecs = list(Codec) if magic == 2 else [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4]
    log = written(tmp_path / "t-0", magic, codecs)
    log.close()
    assert len(log.segments) > 1
    suffixes = (".log", ".index", ".timeindex") if magic else (".log", ".index")
    text = dump_log(KAFKA_3, "--deep-iteration", "--print-data-log", "--files", files(log, *suffixes))
    assert offsets(text) == list(range(210))
    if magic:
        for segment in log.segments:
            assert f"timestamp: {segment.max_timestamp} offset: {segment.next_offset - 1}" in text
    assert not COMPLAINT.search(text)
    for segment in log.segments:
        for offset, position in segment.offset_index.entries():
            assert f"offset: {offset} position: {position}" in text


def test_kafka_3_9_reads_the_indexes_of_a_log_in_use(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", LogConfig(index_interval_bytes=100))
    add(log, batch(*values(0, 1, 100), timestamp=NOW))  # an empty log has no files
    empty = dump_log(KAFKA_3, "--files", files(log, ".log", ".index", ".timeindex"))
    for number in range(1, 100):
        add(log, batch(*values(number, 1, 100), timestamp=NOW + number))
    text = dump_log(KAFKA_3, "--files", files(log, ".log", ".index", ".timeindex"))
    offset, position = log.active.offset_index.entries()[INDEX_ENTRIES_UNSTORED_MAX - 1]
    assert f"offset: {offset} position: {position}" in text
    assert not COMPLAINT.search(empty + text)
    log.close()


def test_kafka_3_9_reads_a_compacted_log(tmp_path: Path) -> None:
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
    text = dump_log(KAFKA_3, "--deep-iteration", "--print-data-log", "--files", every)
    assert offsets(text) == [row[0] for row in times]
    assert not re.search(r"isvalid: false|[Mm]ismatch|out of order|[Ee]xception", text)
    # Tombstones have got their horizon, and every record has kept its time.
    assert len(re.findall(rf"deleteHorizonMs: OptionalLong\[{NOW + DAY_MS}\]", text)) > 10
    found = re.findall(r"^\| offset: (\d+) CreateTime: (\d+)", text, re.M)
    assert [(int(offset), int(time)) for offset, time in found] == times


def dumped_last(text: str) -> list[str]:
    """The lines of indexes of aborts and of snapshots."""
    return [line.rstrip() for line in text.splitlines() if line.startswith(("version:", "producerId:"))]


def test_kafka_3_9_reads_transactions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = TransactionalLog(tmp_path / "t-0", CONFIG)
    for number in range(80):
        one.stage(b"x" * 60, 7)
        one.stage(b"y" * 60, 8)
        if number % 5 == 0:
            one.end(7, is_commit=number % 2 == 0, epochs=1)
        one.write()
    one.end(8, is_commit=False)
    one.write()
    snapshot = producer_snapshots.Snapshot(one.log.high_watermark, one.states.snapshot_entries())
    producer_snapshots.write(one.path, snapshot, REAL)
    expected = [item for segment in one.log.segments for item in segment.aborted.entries()]
    assert len(expected) == 9
    assert len(one.log.segments) > 1
    one.log.close()
    indexes = [path for segment in one.log.segments if (path := segment.path_of(".txnindex")).exists()]
    snapshots = sorted(one.path.glob("*.snapshot"))
    every = ",".join([files(one.log, ".log"), *map(str, [*indexes, *snapshots])])
    text = dump_log(KAFKA_3, "--print-data-log", "--files", every)
    assert not COMPLAINT.search(text)
    run(["--print-data-log", "--files", every])
    assert dumped_last(capsys.readouterr().out) == dumped_last(text), "our tool says the same"
    for item in expected:
        assert (
            f"version: 0 producerId: {item.producer_id} firstOffset: {item.first_offset}"
            f" lastOffset: {item.last_offset} lastStableOffset: {item.last_stable_offset}"
        ) in text
    assert text.count("endTxnMarker: COMMIT coordinatorEpoch: 0") == 8
    assert text.count("endTxnMarker: ABORT coordinatorEpoch: 0") == 9
    assert re.search(
        r"producerId: 7 producerEpoch: 16 coordinatorEpoch: 0 currentTxnFirstOffset: \S*\d", text
    )
    assert re.search(
        r"producerId: 8 producerEpoch: 0 coordinatorEpoch: 0 currentTxnFirstOffset: \S*mpty", text
    )


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.SNAPPY], ids=lambda codec: codec.label)
def test_kafka_0_9_reads_format_0(tmp_path: Path, codec: Codec) -> None:
    log = written(tmp_path / "t-0", 0, [codec])
    log.close()
    # 0.9 indexes the first offset of a wrapper, later brokers and we the last: it only accepts its own.
    suffixes = (".log", ".index") if codec is Codec.NONE else (".log",)
    text = dump_log(KAFKA_0_9, "--deep-iteration", "--print-data-log", "--files", files(log, *suffixes))
    assert offsets(text) == list(range(210))
    assert not COMPLAINT.search(text)
