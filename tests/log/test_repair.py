"""Inspecting and repairing a partition's directory, and reading by indexes that are wrong."""

from __future__ import annotations

import os
import struct
from pathlib import Path
from random import Random

import pytest

from ottla.log import file_names
from ottla.log.file_system import REAL
from ottla.log.inspection import Finding, Known, inspected
from ottla.log.log_config import LogConfig
from ottla.log.partition_log import PartitionLog
from ottla.log.reading import ColdRead, FirstBatch, ReadLimits
from ottla.log.repair import Workshop, carry_out, empty_batch
from ottla.log.retention import apply_retention
from ottla.log.time_lookup import offset_for_timestamp
from ottla.model.errors import DamagedLog, StorageError
from ottla.records.messages import MessageSet
from tests.log.record_sets import NOW, add, batch, open_log, rows_of, values
from tests.log.transactional_log import TransactionalLog

SMALL = LogConfig(segment_bytes=3000, index_interval_bytes=300)
COUNT = 40


def filled(path: Path) -> PartitionLog:
    log = open_log(path, SMALL)
    for number in range(COUNT):
        add(log, batch(*values(number, 1, 150), timestamp=NOW + number))
    return log


def repaired(directory: Path, known: Known) -> list[Finding]:
    """Repair all findings; returns them."""
    findings = inspected(directory, known)
    workshop = Workshop(directory.parent, directory.parent / "copies", REAL)
    for finding in findings:
        for action in finding.actions:
            carry_out(action, workshop)
    return findings


def test_a_sound_partition_has_no_findings(tmp_path: Path) -> None:
    log = filled(tmp_path / "t-0")
    assert len(log.segments) > 2
    log.close()
    assert inspected(tmp_path / "t-0", Known(COUNT, 0, COUNT)) == []


def test_a_damaged_compaction_can_be_finished(tmp_path: Path) -> None:
    """Its originals may be gone: what is sound in it is all there is."""
    log = filled(tmp_path / "t-0")
    rows = rows_of(log)
    log.close()
    first = log.segments[0].path_of(".log")
    swap = first.with_name(first.name + file_names.SWAP)
    data = bytearray(first.read_bytes())
    data[100] ^= 1
    swap.write_bytes(data)
    first.unlink()
    for _ in range(2):
        with pytest.raises(DamagedLog, match=f"ottla log repair {tmp_path} --dry-run"):
            open_log(tmp_path / "t-0", SMALL)
    (finding, *_) = repaired(tmp_path / "t-0", Known(may_have_gaps=True))
    assert finding.path == swap
    again = open_log(tmp_path / "t-0", SMALL)
    assert rows_of(again) == rows[1:]
    again.close()


def test_lost_offsets_are_passed_over_by_readers_and_not_given_again(tmp_path: Path) -> None:
    log = filled(tmp_path / "t-0")
    log.close()
    last = log.active.path_of(".log")
    os.truncate(last, 0)
    base = int(last.stem)
    (finding,) = repaired(tmp_path / "t-0", Known(COUNT, 0, COUNT))
    assert finding.offsets_lost == COUNT - base
    again = open_log(tmp_path / "t-0", SMALL, recovery_point=COUNT, start_offset=0, high_watermark=COUNT)
    assert again.report.offsets_lost == 0
    (piece,) = MessageSet(again.read(base, 1000)).decoded(from_offset=base)
    assert (piece.next_offset, piece.batch.num_rows) == (COUNT, 0)
    assert add(again, batch(*values(0, 1))) == COUNT
    assert [row[0] for row in rows_of(again)] == [*range(base), COUNT]
    again.close()
    assert inspected(tmp_path / "t-0", Known(COUNT, 0, COUNT)) == []


def test_an_empty_batch_has_its_offsets_and_a_right_checksum() -> None:
    (piece,) = MessageSet(empty_batch(7, 12)).decoded()
    assert (piece.next_offset, piece.damage) == (12, None)


def test_a_wrong_index_hides_no_record(tmp_path: Path, random: Random) -> None:
    """Any entry may be wrong but the last, which a start looks at."""
    filled(tmp_path / "t-0").close()
    paths = sorted((tmp_path / "t-0").glob("*.index"))
    originals = {path: path.read_bytes() for path in paths}
    for _ in range(30):
        for path, data in originals.items():
            wrong = bytearray(data)
            if len(wrong) > 8:
                place = random.randrange(len(wrong) - 8)
                wrong[place] ^= 1 << random.randrange(8)
            path.write_bytes(wrong)
        log = open_log(tmp_path / "t-0", SMALL, clean=True, recovery_point=COUNT)
        for offset in random.sample(range(COUNT), 8):
            for data in (log.read(offset, 10), cold(log, offset)):
                (piece, *_) = MessageSet(data).decoded(from_offset=offset)
                assert piece.batch["offset"].to_pylist()[0] == offset
        log.abandon()


def cold(log: PartitionLog, offset: int) -> bytes:
    segments = [item for item in log.segments if item.next_offset > offset]
    return ColdRead.of(segments, ReadLimits(offset, 10, FirstBatch.WHOLE)).read()


def test_a_damaged_time_index_deletes_nothing_and_finds_the_right_offset(
    tmp_path: Path, random: Random
) -> None:
    log = filled(tmp_path / "t-0")
    log.close()
    for segment in log.segments:
        path = segment.path_of(".timeindex")
        data = bytearray(path.read_bytes())
        kind = random.choice(["zero", "cut", "time", "offset"])
        if kind == "zero":
            data = bytearray(len(data))
        elif kind == "cut":
            del data[12:]
        elif len(data) >= 24:
            struct.pack_into(">q" if kind == "time" else ">i", data, 0 if kind == "time" else 8, 3)
        path.write_bytes(data)
    again = open_log(tmp_path / "t-0", SMALL, clean=True, recovery_point=COUNT)
    for number in range(COUNT):
        found = offset_for_timestamp(again, NOW + number)
        assert found is not None
        assert found.offset == number
    again.configure(LogConfig(segment_bytes=3000, retention_ms=1000))
    assert apply_retention(again, NOW + 900) == 0
    again.close()


def test_more_offsets_are_lost_than_a_batch_can_hold(tmp_path: Path) -> None:
    directory = tmp_path / "t-0"
    filled(directory).close()
    far = COUNT + (5 << 31)
    assert [finding.offsets_lost for finding in repaired(directory, Known(far, 0, far))] == [5 << 31]
    log = open_log(directory, SMALL)
    assert (log.high_watermark, len(rows_of(log))) == (far, COUNT)
    assert add(log, batch(*values(0, 1))) == far
    log.abandon()


def test_offsets_that_nobody_can_have_written_are_not_kept_free(tmp_path: Path) -> None:
    """A damaged digit of a checkpoint: no batches for millions of segments are written."""
    directory = tmp_path / "t-0"
    filled(directory).close()
    with pytest.raises(StorageError, match="not to be believed: correct the checkpoints"):
        repaired(directory, Known(1 << 60, 0, 1 << 60))


@pytest.mark.parametrize("damage", ["lost", "torn", "one entry less"])
def test_a_lost_index_of_aborts_is_found_and_made_anew(tmp_path: Path, damage: str) -> None:
    """Without it readers of committed data would get aborted records."""
    one = TransactionalLog(tmp_path / "t-0")
    for number in range(30):
        one.stage(b"x" * 60, number % 2)
        one.end(number % 2, is_commit=number % 3 == 0)
        one.write()
    expected = [segment.aborted.entries() for segment in one.log.segments]
    one.log.close()
    assert inspected(one.path, Known(was_clean=True)) == []
    path = one.log.segments[1].path_of(".txnindex")
    content = path.read_bytes()
    if damage == "lost":
        path.unlink()
    else:
        path.write_bytes(content[: -1 if damage == "torn" else -34])
    (finding,) = inspected(one.path, Known(was_clean=True))
    assert (finding.path, finding.kind, len(finding.actions)) == (path, "index", 1)
    for action in finding.actions:
        action.carry_out(Workshop(tmp_path, tmp_path / "copies", REAL))
    again = open_log(one.path, one.config, clean=True)
    assert [segment.aborted.entries() for segment in again.segments] == expected
    again.close()
    assert inspected(one.path, Known(was_clean=True)) == []
