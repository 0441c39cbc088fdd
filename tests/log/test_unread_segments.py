"""After a start, sealed segments are read when they are needed: nothing is seen of it, damage included."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.log import file_names, lost_offsets
from ottla.log.file_system import REAL
from ottla.log.log_config import LogConfig
from ottla.log.partition_log import PartitionLog
from ottla.log.reading import ColdRead
from ottla.log.retention import apply_retention
from ottla.log.segment_list import damage_in
from ottla.log.time_lookup import largest_timestamp, offset_for_timestamp
from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError
from tests.log.faulty_files import QuickFiles
from tests.log.record_sets import NOW, add, batch, open_log, rows_of, values

SMALL = LogConfig(segment_bytes=1000, index_interval_bytes=200, retention_ms=1_000_000)
BATCHES = 40
Rows = list[tuple[int, bytes | None, bytes | None]]


@pytest.fixture
def rows(tmp_path: Path) -> Rows:
    """What a log in t-0, which was stopped cleanly, has."""
    log = open_log(tmp_path / "t-0", SMALL, QuickFiles())
    for number in range(BATCHES):
        add(log, batch(*values(number * 3, 3, 50), timestamp=NOW + number))
    found = rows_of(log)
    log.close()
    return found


def opened(tmp_path: Path, config: LogConfig = SMALL) -> PartitionLog:
    return open_log(tmp_path / "t-0", config, QuickFiles(), clean=True, recovery_point=BATCHES * 3)


def read_segments(log: PartitionLog) -> list[int]:
    return [place for place, segment in enumerate(log.segments) if segment.is_read]


def test_a_start_reads_only_the_active_segment(tmp_path: Path, rows: Rows) -> None:
    log = opened(tmp_path)
    last = len(log.segments) - 1
    assert last > 4
    assert read_segments(log) == [last]
    assert log.size == sum(path.stat().st_size for path in (tmp_path / "t-0").glob("*.log"))
    assert log.read(log.segments[2].base_offset + 1, 100)
    assert read_segments(log) == [2, last]
    assert rows_of(log) == rows


def test_so_does_a_start_after_a_kill_below_the_recovery_point(tmp_path: Path, rows: Rows) -> None:
    log = opened(tmp_path)
    point = log.segments[3].base_offset + 1
    log.abandon()
    log = open_log(tmp_path / "t-0", SMALL, QuickFiles(), recovery_point=point)
    assert read_segments(log) == list(range(3, len(log.segments)))
    assert rows_of(log) == rows


def test_the_loop_does_not_wait_for_an_index(tmp_path: Path, rows: Rows) -> None:
    log, twin = opened(tmp_path), open_log(tmp_path / "t-0", SMALL, QuickFiles(), clean=True)
    for offset in range(0, BATCHES * 3, 7):
        ticket = log.read_cached(offset, 300)
        wanted = twin.read(offset, 300)
        assert (ticket.read() if isinstance(ticket, ColdRead) else bytes(ticket)) == wanted
    assert read_segments(log) == list(range(len(log.segments)))
    assert len(rows) == BATCHES * 3


def test_retention_reads_no_more_than_the_first_that_stays(tmp_path: Path, rows: Rows) -> None:
    log = opened(tmp_path)
    young = log.segments[2]
    assert apply_retention(log, NOW + SMALL.retention_ms + young.base_offset // 3 + 1) == 2
    assert read_segments(log) == [0, len(log.segments) - 1]
    assert log.segments[0] is young
    assert rows_of(log) == [row for row in rows if row[0] >= young.base_offset]


def test_times_are_found(tmp_path: Path, rows: Rows) -> None:
    log = opened(tmp_path)
    found = [offset_for_timestamp(log, NOW + number) for number in range(BATCHES)]
    assert [item.offset for item in found if item is not None] == list(range(0, BATCHES * 3, 3))
    newest = largest_timestamp(opened(tmp_path))
    assert newest is not None
    assert newest.timestamp_ms == NOW + BATCHES - 1
    assert len(rows) == BATCHES * 3


@pytest.mark.parametrize("suffix", [file_names.INDEX, file_names.TIME_INDEX])
@pytest.mark.parametrize("content", [b"\xff" * 24, b"no index", b"\0\0\0\1" * 6])
def test_a_damaged_index_is_made_anew_when_it_is_needed(
    tmp_path: Path, rows: Rows, suffix: str, content: bytes
) -> None:
    for path in (tmp_path / "t-0").glob(f"*{suffix}"):
        path.write_bytes(content)
    log = opened(tmp_path)
    assert rows_of(log) == rows
    found = [offset_for_timestamp(log, NOW + number) for number in range(BATCHES)]
    assert [item.offset for item in found if item is not None] == list(range(0, BATCHES * 3, 3))
    assert apply_retention(log, NOW + SMALL.retention_ms) == 0
    assert damage_in(log.segments) == []


def test_bytes_that_are_gone_are_told_and_not_passed_over(tmp_path: Path, rows: Rows) -> None:
    log = opened(tmp_path)
    victim = log.segments[1]
    log.abandon()
    victim.file.path.write_bytes(victim.file.path.read_bytes()[:-10])
    log = opened(tmp_path)
    with pytest.raises(KafkaError) as error:
        log.read(victim.next_offset - 1, 100)
    assert error.value.code == Code.CORRUPT_MESSAGE
    assert len(damage_in(log.segments)) == 1
    # What is behind the damage may be as young as the file: it stays.
    assert apply_retention(log, NOW + SMALL.retention_ms + BATCHES) == 1
    assert rows_of(log, log.segments[1].base_offset) == rows[log.segments[1].base_offset :]


@pytest.mark.parametrize("is_known", [False, True])
def test_a_segment_that_is_gone_is_told_unless_it_is_known(
    tmp_path: Path, rows: Rows, *, is_known: bool
) -> None:
    log = opened(tmp_path)
    gone = log.segments[2]
    log.abandon()
    for suffix in (file_names.LOG, file_names.INDEX, file_names.TIME_INDEX):
        gone.path_of(suffix).unlink()
    gap = gone.base_offset, gone.next_offset
    if is_known:
        lost_offsets.add_gaps(tmp_path / "t-0", [gap], REAL)
    log = opened(tmp_path)
    assert rows_of(log) == [row for row in rows if not gap[0] <= row[0] < gap[1]]
    told = [f"offsets {gap[0]} to {gap[1] - 1} are missing"] * (not is_known)
    assert [text.split(": ")[1].split(" between")[0] for text in damage_in(log.segments)] == told


def test_a_sealed_segment_becomes_the_active_one_again(tmp_path: Path, rows: Rows) -> None:
    log = opened(tmp_path)
    offset = log.segments[1].base_offset + 3
    log.truncate(offset)
    assert len(log.segments) == 2
    add(log, batch(*values(500, 2), timestamp=NOW + 500))
    assert rows_of(log)[:offset] == rows[:offset]
    assert log.high_watermark == offset + 2
    newest = largest_timestamp(log)
    assert newest is not None
    assert newest.offset == offset
