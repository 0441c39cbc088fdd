"""After a start, sealed segments are read when they are needed: nothing is seen of it, damage included."""

from __future__ import annotations

import errno
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from threading import Barrier, BrokenBarrierError

import pytest

from ottla.log import file_names, lost_offsets, offset_index
from ottla.log.compaction import begin, finish
from ottla.log.file_system import REAL
from ottla.log.log_config import LogConfig
from ottla.log.partition_log import PartitionLog
from ottla.log.reading import ColdRead
from ottla.log.retention import apply_retention
from ottla.log.segment import Segment
from ottla.log.segment_file import SegmentFile
from ottla.log.segment_list import damage_in
from ottla.log.time_lookup import largest_timestamp, offset_for_timestamp
from ottla.log.undecided import StoredAbort
from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError, StorageError
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


def test_threads_that_ask_for_a_listed_segment_at_once_get_one_file(
    tmp_path: Path, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = opened(tmp_path)
    listed = log.segments[:-1]
    together, path_of = Barrier(4), file_names.segment_path

    def path_when_all_ask(directory: Path, base: int, suffix: str) -> str:
        with suppress(BrokenBarrierError):  # so that all of them make the first one
            together.wait(1)
        return path_of(directory, base, suffix)

    monkeypatch.setattr(file_names, "segment_path", path_when_all_ask)

    def asked(_: int) -> list[SegmentFile]:
        return [segment.file for segment in listed]

    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(asked, range(4)))
    assert all(mine is other for files in found[1:] for mine, other in zip(found[0], files, strict=True))
    assert found[0] == [segment.file for segment in listed]
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


def test_a_ticket_reads_what_was_removed_since_it_was_made(tmp_path: Path, rows: Rows) -> None:
    log = opened(tmp_path)
    wanted = opened(tmp_path).read(4, 300)
    ticket = log.read_cached(4, 300)
    assert isinstance(ticket, ColdRead)
    log.delete_oldest(2)
    log.purge()
    assert ticket.read() == wanted
    assert len(rows) == BATCHES * 3


def test_a_time_is_found_although_the_oldest_segment_goes_meanwhile(
    tmp_path: Path, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread looks, and reads each segment for it; the owner does not wait."""
    log = opened(tmp_path)
    first, second = log.segments[:2]
    read = Segment._read_files

    def slowly(segment: Segment) -> None:
        read(segment)
        if segment is first:
            log.delete_oldest(1)

    monkeypatch.setattr(Segment, "_read_files", slowly)
    record = offset_for_timestamp(log, NOW + second.base_offset // 3)
    assert record is not None
    assert record.offset == second.base_offset
    assert len(rows) == BATCHES * 3


def no_descriptor(*_: object) -> bytes:
    raise OSError(errno.EMFILE, "Too many open files")


def test_who_asks_is_told_that_files_cannot_be_read(
    tmp_path: Path, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = opened(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(offset_index, "read_whole", no_descriptor)
        with pytest.raises(StorageError):
            offset_for_timestamp(log, NOW)
        with pytest.raises(StorageError):
            largest_timestamp(log)
        with pytest.raises(StorageError):
            apply_retention(log, NOW)
    assert rows_of(log) == rows


def test_a_compaction_that_cannot_begin_leaves_the_log_to_the_next(
    tmp_path: Path, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = opened(tmp_path, replace(SMALL, min_compaction_lag_ms=1))
    with monkeypatch.context() as patch:
        patch.setattr(offset_index, "read_whole", no_descriptor)
        with pytest.raises(StorageError):
            begin(log, 0, NOW + 1000)
    assert not log.is_compacting
    finish(log, begin(log, 0, NOW + 1000))
    assert rows_of(log) == rows


def test_a_compaction_begins_without_reading_indexes(tmp_path: Path, rows: Rows) -> None:
    log, twin = opened(tmp_path), opened(tmp_path)
    assert rows_of(twin) == rows
    ticket = begin(log, 0, NOW)
    assert read_segments(log) == [len(log.segments) - 1]
    bases = [segment.base_offset for group in ticket.groups for segment in group.old]
    finish(log, ticket)
    wanted = begin(twin, 0, NOW)
    assert bases == [segment.base_offset for group in wanted.groups for segment in group.old]
    finish(twin, wanted)


def test_aborts_are_told_without_reading_indexes(tmp_path: Path, rows: Rows) -> None:
    log = opened(tmp_path)
    abort = StoredAbort(7, 3, BATCHES * 3 - 1, BATCHES * 3)
    log.active.note_aborted([abort])
    log.has_aborts = True
    assert log.aborted(0, 300, BATCHES * 3) == [abort]
    assert read_segments(log) == [len(log.segments) - 1]
    assert len(rows) == BATCHES * 3


@pytest.mark.parametrize("config", [SMALL, replace(SMALL, retention_ms=-1, retention_bytes=2000)])
def test_retention_goes_on_where_a_file_was_removed(tmp_path: Path, rows: Rows, config: LogConfig) -> None:
    log = opened(tmp_path, config)
    gone, sizes = log.segments[1], [segment.file.path.stat().st_size for segment in log.segments]
    gone.file.path.unlink()
    assert log.size == sum(sizes) - sizes[1]
    assert damage_in(log.segments) == [f"{gone.file.path}: the file is gone"]
    assert apply_retention(log, NOW + 10 * SMALL.retention_ms) > 5
    assert log.purge() > 5
    assert len(rows) == BATCHES * 3


def test_a_log_that_is_emptied_is_not_damaged(tmp_path: Path, rows: Rows) -> None:
    log = opened(tmp_path)
    log.truncate(0)
    assert damage_in(log.segments) == []
    assert log.high_watermark == 0
    assert len(rows) == BATCHES * 3


def test_an_offset_that_no_index_can_have_ends_the_sound_part(tmp_path: Path, rows: Rows) -> None:
    """No checksum covers offsets; the index is made anew, and the next segment may be far away."""
    log = opened(tmp_path)
    log.truncate(log.segments[1].base_offset)
    first = log.segments[0]
    batches = list(first.file.headers(0))
    log.abandon()
    with first.file.path.open("r+b") as file:
        file.seek(batches[-1].position)
        file.write((1 << 33).to_bytes(8, "big"))
    first.path_of(file_names.INDEX).write_bytes(b"no index")
    for suffix in (file_names.LOG, file_names.INDEX, file_names.TIME_INDEX):
        (tmp_path / "t-0" / f"{1 << 34:020d}{suffix}").touch()
    log = opened(tmp_path, replace(SMALL, index_interval_bytes=0))
    assert log.segments[0].offset_index.count
    assert "no batch begins there" in damage_in(log.segments)[0]
    assert len(rows) == BATCHES * 3
