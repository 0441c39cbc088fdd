"""Kafka's producer snapshots: the file format, and which of them is believed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ottla.log import producer_snapshots
from ottla.log.producer_snapshots import ProducerEntry, Snapshot
from ottla.model.errors import StorageError
from tests.kafka_programs import dump_log
from tests.log.faulty_files import FullDisk, QuickFiles
from tools.peer_cache import KAFKA_3

FILES = QuickFiles()
ENTRIES = [
    ProducerEntry(7, 0, 41, 1376, 9, 1_700_000_000_000),
    ProducerEntry(1 << 40, 32767, 3, 99, 8, 1_700_000_000_001, coordinator_epoch=4, transaction_offset=91),
    ProducerEntry(8, 2, -1, -1, 0, -1),
]


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_what_is_written_is_read(tmp_path: Path) -> None:
    producer_snapshots.write(tmp_path, Snapshot(1377, ENTRIES), FILES)
    assert names(tmp_path) == ["00000000000000001377.snapshot"]
    assert producer_snapshots.read_latest(tmp_path, 0, 1377, FILES) == Snapshot(1377, ENTRIES)
    assert producer_snapshots.newest_offset(tmp_path) == 1377


def test_every_changed_byte_and_every_cut_is_noticed() -> None:
    data = producer_snapshots.encode(ENTRIES)
    assert producer_snapshots.decode(data) == ENTRIES
    for place in range(len(data)):
        damaged = bytearray(data)
        damaged[place] ^= 0x10
        assert producer_snapshots.decode(bytes(damaged)) is None
        assert producer_snapshots.decode(data[:place]) is None
    assert producer_snapshots.decode(data + b"\0") is None


def test_the_newest_two_are_kept(tmp_path: Path) -> None:
    for offset in (10, 20, 30):
        producer_snapshots.write(tmp_path, Snapshot(offset, []), FILES)
    assert names(tmp_path) == ["00000000000000000020.snapshot", "00000000000000000030.snapshot"]


@pytest.mark.parametrize(
    ("start", "end", "found"),
    [(0, 30, 30), (30, 30, 30), (0, 29, 20), (20, 29, 20), (21, 29, None), (0, 19, None), (31, 40, None)],
)
def test_a_snapshot_counts_within_the_log(tmp_path: Path, start: int, end: int, found: int | None) -> None:
    for offset in (20, 30):
        producer_snapshots.write(tmp_path, Snapshot(offset, ENTRIES), FILES)
    snapshot = producer_snapshots.read_latest(tmp_path, start, end, FILES)
    assert (snapshot.offset if snapshot else None) == found
    assert all(int(name[:20]) <= (found or 0) for name in names(tmp_path))


def test_a_full_disk_leaves_the_older_ones(tmp_path: Path) -> None:
    producer_snapshots.write(tmp_path, Snapshot(10, ENTRIES), FILES)
    with pytest.raises(StorageError, match=r"20\.snapshot: cannot write the producer snapshot"):
        producer_snapshots.write(tmp_path, Snapshot(20, ENTRIES), FullDisk(5))
    assert producer_snapshots.read_latest(tmp_path, 0, 100, FILES) == Snapshot(10, ENTRIES)


@pytest.mark.timeout(280)
def test_kafka_3_9_reads_them(tmp_path: Path) -> None:
    producer_snapshots.write(tmp_path, Snapshot(1377, ENTRIES), FILES)
    text = dump_log(KAFKA_3, "--files", tmp_path / "00000000000000001377.snapshot")
    first, open_transaction, without_batch = re.findall(r"^producerId: .*$", text, re.M)
    assert first == (
        "producerId: 7 producerEpoch: 0 coordinatorEpoch: -1 currentTxnFirstOffset: OptionalLong.empty "
        "lastTimestamp: 1700000000000 firstSequence: 32 lastSequence: 41 lastOffset: 1376 offsetDelta: 9 "
        "timestamp: 1700000000000"
    )
    assert "coordinatorEpoch: 4 currentTxnFirstOffset: OptionalLong[91]" in open_transaction
    assert "firstSequence: 2147483643 lastSequence: 3 lastOffset: 99" in open_transaction
    assert "lastOffset" not in without_batch
