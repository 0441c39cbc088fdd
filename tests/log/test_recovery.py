"""After a crash: a torn end is cut, indexes are rebuilt, damage in the middle is refused and never served."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest

from ottla.log.log_config import LogConfig
from ottla.log.log_directory import LogDirectory
from ottla.log.partition_log import PartitionLog
from ottla.log.segment import INDEX_ENTRIES_UNSTORED_MAX
from ottla.log.segment_list import FLUSHED_SEGMENTS_MAX
from ottla.log.validation import checked
from ottla.model.errors import DamagedLog, LogOffline, StorageError
from tests.log.faulty_files import DyingFiles, FullDisk, Killed, QuickFiles
from tests.log.record_sets import NOW, add, batch, names, open_log, rows_of, values

pytestmark = pytest.mark.each_alone

SMALL = LogConfig(segment_bytes=3000, index_interval_bytes=300)


def filled(path: Path, batches: int = 40, config: LogConfig = SMALL) -> PartitionLog:
    log = open_log(path, config)
    for number in range(batches):
        add(log, batch(*values(number * 3, 3, 50), timestamp=NOW + number))
    return log


def ends(path: Path) -> list[int]:
    """Where the batches of the last segment end."""
    log = open_log(path, SMALL)
    found = [header.position + header.size for header in log.active.file.headers(0)]
    log.abandon()
    return found


def test_a_torn_end_is_cut_at_any_byte(tmp_path: Path, random: Random) -> None:
    filled(tmp_path / "t-0").close()
    boundaries = ends(tmp_path / "t-0")
    before, last = sorted((tmp_path / "t-0").glob("*.log"))[-2:]
    whole = rows_of(open_log(tmp_path / "t-0", SMALL))
    batches_before = 40 - len(boundaries)
    for cut in random.sample(range(boundaries[-1]), 40):
        copy = tmp_path / "copy-0"
        shutil.copytree(tmp_path / "t-0", copy)
        os.truncate(copy / last.name, cut)
        log = open_log(copy, SMALL, recovery_point=int(last.stem))
        kept = batches_before + sum(1 for end in boundaries if end <= cut)
        assert rows_of(log) == whole[: kept * 3]
        assert log.next_offset == kept * 3
        assert log.report.segments_verified == [int(before.stem), int(last.stem)]
        assert add(log, batch(*values(0, 1))) == kept * 3
        log.close()
        shutil.rmtree(copy)


@pytest.mark.parametrize(
    "tail", [b"\0" * 5000, b"\xff" * 700, bytes(range(256)) * 3], ids=["zeros", "ones", "mixed"]
)
def test_garbage_behind_the_last_batch_is_cut(tmp_path: Path, tail: bytes) -> None:
    log = filled(tmp_path / "t-0")
    rows = rows_of(log)
    log.close()
    with log.active.path_of(".log").open("ab") as file:
        file.write(tail)
    again = open_log(tmp_path / "t-0", SMALL)
    assert rows_of(again) == rows
    assert again.report.bytes_cut == len(tail)
    again.close()


def test_lost_and_broken_indexes_are_rebuilt_as_they_were(tmp_path: Path, random: Random) -> None:
    filled(tmp_path / "t-0").close()
    files = sorted((tmp_path / "t-0").glob("*.*index"))
    originals = {path: path.read_bytes() for path in files}
    assert sum(map(len, originals.values())) > 300
    for number, path in enumerate(files):
        if number % 2:
            path.unlink()
        else:
            path.write_bytes(random.randbytes(13))
    log = open_log(tmp_path / "t-0", SMALL, clean=True, recovery_point=120)
    assert len(rows_of(log)) == 120
    log.close()
    assert {path: path.read_bytes() for path in files} == originals


@pytest.mark.parametrize("is_flushed", [False, True])
@pytest.mark.parametrize("place", [0, 1, -1])
@pytest.mark.parametrize("kind", ["flip", "size", "zeros"])
def test_damage_is_cut_above_the_recovery_point_and_refused_below_it(
    tmp_path: Path, place: int, kind: str, is_flushed: bool
) -> None:
    """With sound batches after it: after a power cut, later pages may be on disk that earlier ones lack."""
    log = filled(tmp_path / "t-0")
    segment = log.segments[place]
    victim = list(segment.file.headers(0))[1]
    path = segment.file.path
    log.close()
    data = bytearray(path.read_bytes())
    if kind == "flip":
        data[victim.position + 70] ^= 0x10
    elif kind == "size":
        data[victim.position + 9] ^= 0x70
    else:
        data[victim.position : victim.position + 150] = bytes(150)
    path.write_bytes(data)
    total = sum(item.stat().st_size for item in (tmp_path / "t-0").glob("*.log"))
    if is_flushed:
        for _ in range(2):
            segment_index(path).unlink()  # so that it is looked at in any case
            with pytest.raises(DamagedLog, match=f"ottla log repair {tmp_path} --dry-run") as error:
                open_log(tmp_path / "t-0", SMALL, recovery_point=victim.base_offset + 1, clean=place != -1)
            assert error.value.offset == victim.base_offset
            assert (error.value.path, error.value.position) == (str(path), victim.position)
            segment_index(path).touch()
        assert path.read_bytes() == data
        return
    cut = open_log(tmp_path / "t-0", SMALL, recovery_point=victim.base_offset, high_watermark=120)
    assert cut.high_watermark == victim.base_offset
    assert [row[0] for row in rows_of(cut)] == list(range(victim.base_offset))
    assert cut.report.bytes_cut == total - cut.size
    assert cut.report.offsets_lost == 120 - victim.base_offset
    lines = list(cut.report.sentences())
    assert f"cut from byte {victim.position} of {path.name}" in lines[0]
    assert lines[1] == f"the log ends at offset {victim.base_offset} now"
    assert lines[2] == f"offsets {victim.base_offset} to 119 could be read before the crash, and are lost"
    cut.close()


def segment_index(log_path: Path) -> Path:
    return log_path.with_suffix(".index")


def test_segments_below_the_recovery_point_are_trusted(tmp_path: Path) -> None:
    log = filled(tmp_path / "t-0")
    log.flush()
    point = log.recovery_point
    assert point == log.high_watermark
    log.abandon()
    again = open_log(tmp_path / "t-0", SMALL, recovery_point=point)
    assert again.report.segments_verified == [again.active.base_offset]
    again.close()


def test_indexes_of_a_segment_that_ends_at_the_recovery_point_are_rebuilt(tmp_path: Path) -> None:
    """It may have been sealed after the flush: then a power cut may have taken the end of its time index."""
    log = open_log(tmp_path / "t-0", SMALL)
    times = [5] * 4 + [50] * 4 + [1] * 4  # without the entry of 50, nothing contradicts that of 5
    for number in range(40):
        add(log, batch(*values(number * 3, 3, 50), timestamp=NOW + times[number % len(times)]))
    log.abandon()
    for segment, behind in pairwise(log.segments):
        time_index = segment.path_of(".timeindex")
        whole = time_index.read_bytes()
        time_index.write_bytes(whole[:-12])
        open_log(tmp_path / "t-0", SMALL, recovery_point=behind.base_offset).close()
        assert time_index.read_bytes() == whole


def test_recovery_killed_at_any_change_can_be_repeated(tmp_path: Path) -> None:
    """Torn end, orphan index, a pending delete; recovery itself dies again and again."""
    log = filled(tmp_path / "t-0")
    rows = rows_of(log)
    start = log.delete_records(10)
    log.abandon()
    (tmp_path / "t-0" / f"{7:020d}.index").write_bytes(bytes(8))
    (tmp_path / "t-0" / "leader-epoch-checkpoint.tmp").write_bytes(b"half")
    with log.active.path_of(".log").open("ab") as file:
        file.write(b"torn" * 9)
    changes, dead = 0, True
    while dead:
        files = DyingFiles(changes)
        try:
            again = open_log(tmp_path / "t-0", SMALL, files, start_offset=start)
            dead = False
        except Killed:
            changes += 1
    assert rows_of(again) == rows[10:]
    assert changes > 2
    left = {name for name in names(tmp_path / "t-0") if not name.endswith((".log", ".index", ".timeindex"))}
    assert left == {"leader-epoch-checkpoint"}
    assert {name[:20] for name in names(tmp_path / "t-0")} - {"leader-epoch-checkpoi"[:20]} == {
        f"{segment.base_offset:020d}" for segment in again.segments
    }
    again.abandon()


def test_killed_at_any_change_of_appending_and_rolling_written_data_stays(tmp_path: Path) -> None:
    changes = 0
    while True:
        path = tmp_path / f"t-{changes}"
        files = DyingFiles(changes)
        written = 0
        try:
            log = open_log(path, LogConfig(segment_bytes=700), files)
            for number in range(12):
                add(log, batch(*values(number, 1, 100)))
                written = log.high_watermark
            log.delete_records(5)
            log.purge()
            log.close()
        except Killed:
            pass
        again = open_log(path, LogConfig(segment_bytes=700), QuickFiles())
        offsets = [row[0] for row in rows_of(again)]
        assert offsets == list(range(again.start_offset, again.high_watermark))
        assert again.high_watermark >= written
        again.close()
        if not files.is_dead:
            break
        changes += 1
    assert changes > 20


def test_a_full_disk_fails_the_turn_and_the_log_goes_on(tmp_path: Path) -> None:
    files = FullDisk()
    log = open_log(tmp_path / "t-0", LogConfig(segment_bytes=1000), files)
    for number in range(8):
        add(log, batch(*values(number, 1, 100)))
    for room in (0, 50, 400, 900, 1500):
        rows, sizes = rows_of(log), [segment.size for segment in log.segments]
        end = log.high_watermark
        for number in range(12):
            log.append(checked(batch(*values(100 + number, 1, 100)), log.config, NOW), NOW, leader_epoch=1)
        files.room = room
        with pytest.raises(StorageError, match="No space left"):
            log.write_staged()
        files.room = 1 << 60
        assert (rows_of(log), log.next_offset, log.high_watermark) == (rows, end, end)
        assert [segment.size for segment in log.segments] == sizes
        assert [os.path.getsize(segment.file.path) for segment in log.segments] == sizes
        assert add(log, batch(*values(50, 1, 100))) == end
    rows = rows_of(log)
    log.close()
    again = open_log(tmp_path / "t-0", LogConfig(segment_bytes=1000))
    assert rows_of(again) == rows
    assert again.report.bytes_cut == 0
    again.close()


def test_a_log_that_ends_before_its_start_begins_anew_there(tmp_path: Path) -> None:
    log = filled(tmp_path / "t-0")
    log.delete_records(115)
    last = log.active.file.path
    log.abandon()
    os.truncate(last, 50)
    again = open_log(tmp_path / "t-0", SMALL, start_offset=115)
    assert (again.start_offset, again.high_watermark, rows_of(again)) == (115, 115, [])
    assert add(again, batch(*values(115, 2))) == 115
    again.truncate(115)
    again.close()


class NoTruncate(FullDisk):
    """A disk that cannot even undo."""

    def truncate(self, fd: int, size: int) -> None:
        if self.room < 1 << 50:
            raise OSError(5, "Input/output error")
        super().truncate(fd, size)


def test_a_log_that_cannot_undo_goes_offline_and_recovers_when_opened_again(tmp_path: Path) -> None:
    files = NoTruncate()
    log = open_log(tmp_path / "t-0", SMALL, files)
    add(log, batch(*values(0, 2)))
    files.room = 30
    with pytest.raises(LogOffline):
        add(log, batch(*values(2, 2)))
    with pytest.raises(LogOffline, match="open it again"):
        log.append(checked(batch(*values(2, 2)), SMALL, NOW), NOW)
    log.abandon()
    again = open_log(tmp_path / "t-0", SMALL)
    assert [row[0] for row in rows_of(again)] == [0, 1]
    again.close()


def config_of(topic: str, partition: int) -> LogConfig:
    return LogConfig()


class LyingDisk(QuickFiles):
    """A disk of which a flush fails once, and the next one would succeed, as Linux does it."""

    failures = 0

    def sync(self, fd: int) -> None:
        if self.failures:
            self.failures -= 1
            raise OSError(5, f"Input/output error on descriptor {fd}")


def test_a_failed_flush_takes_the_log_offline_instead_of_being_repeated(tmp_path: Path) -> None:
    disk = LyingDisk()
    log = open_log(tmp_path / "t-0", SMALL, disk)
    add(log, batch(*values(0, 2)))
    disk.failures = 1
    with pytest.raises(StorageError, match="cannot flush"):
        log.flush()
    assert log.recovery_point == 0
    with pytest.raises(LogOffline):
        log.append(checked(batch(*values(2, 2)), SMALL, NOW), NOW)
    with pytest.raises(LogOffline):
        log.close()
    log.abandon()


def test_a_flush_ticket_covers_what_was_written_before_it(tmp_path: Path) -> None:
    log = filled(tmp_path / "t-0", batches=20)
    ticket = log.begin_flush()
    add(log, batch(*values(60, 3, 50)))
    ticket.sync()
    log.finish_flush(ticket)
    assert (log.recovery_point, log.high_watermark) == (60, 63)
    log.flush()
    assert log.recovery_point == 63
    log.close()


class FewDescriptors(QuickFiles):
    """A process that has no descriptor left after `left` more of them."""

    left = 1 << 60

    def open(self, path: Path) -> int:
        if self.left == 0:
            raise OSError(24, "Too many open files")
        self.left -= 1
        return super().open(path)


def open_files(path: Path) -> int:
    count = 0
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # the descriptor of listdir itself
            count += os.readlink(f"/proc/self/fd/{name}").startswith(str(path))
    return count


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="descriptors are counted in /proc")
def test_a_flush_that_gets_no_descriptor_gives_back_those_it_has(tmp_path: Path) -> None:
    files = FewDescriptors()
    log = open_log(tmp_path / "t-0", SMALL, files)
    for number in range(240):
        add(log, batch(*values(number * 3, 3, 50), timestamp=NOW + number))
    assert len(log.segments) > FLUSHED_SEGMENTS_MAX
    before = open_files(tmp_path)
    for left in (0, 1, 5):
        files.left = left
        with pytest.raises(StorageError, match="Too many open files"):
            log.flush()
        assert open_files(tmp_path) == before
    files.left = 1 << 60
    ticket = log.begin_flush()
    assert len(ticket.descriptors) <= 3 * FLUSHED_SEGMENTS_MAX + 1, "and one for the leader epochs"
    assert ticket.offset == log.segments[FLUSHED_SEGMENTS_MAX].base_offset
    ticket.close()
    log.flush()
    assert log.recovery_point == log.high_watermark
    assert open_files(tmp_path) == before
    log.close()


WRITER = """
import sys
from pathlib import Path
from ottla.log.log_config import LogConfig
from ottla.log.log_directory import LogDirectory
from ottla.log.validation import checked
from tests.log.record_sets import NOW, batch, values
directory = LogDirectory.open(Path(sys.argv[1]), lambda topic, partition: LogConfig(segment_bytes=20000), NOW)
log = directory.logs.get(("t", 0)) or directory.create("t", 0, LogConfig(segment_bytes=20000), NOW)
while True:
    for _ in range(3):
        log.append(checked(batch(*values(log.next_offset, 4, 100)), log.config, NOW), NOW)
    log.write_staged()
    sys.stdout.write(f"{log.high_watermark}\\n")
    sys.stdout.flush()
"""


@pytest.mark.parametrize("kills", [4])
def test_kill_9_loses_nothing_that_was_written(tmp_path: Path, random: Random, kills: int) -> None:
    root = Path(__file__).parents[2]
    for _ in range(kills):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path / "data")],
            stdout=subprocess.PIPE,
            text=True,
            cwd=root,
        )
        assert writer.stdout is not None
        for _ in range(random.randrange(5, 60)):
            acked = int(writer.stdout.readline())
        writer.send_signal(signal.SIGKILL)
        acked = max(
            [
                acked,
                *(
                    int(line)
                    for line in writer.stdout.read().splitlines(keepends=True)
                    if line.endswith("\n")
                ),
            ]
        )
        writer.wait()
        writer.stdout.close()
        directory = LogDirectory.open(tmp_path / "data", config_of, NOW)
        log = directory.logs["t", 0]
        assert not directory.was_clean
        assert log.high_watermark >= acked
        assert rows_of(log) == [(n, *values(n, 1, 100)[0]) for n in range(log.high_watermark)]
        directory.abandon()


def test_the_active_segment_has_index_files(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", LogConfig(index_interval_bytes=100))
    index, times = log.active.path_of(".index"), log.active.path_of(".timeindex")
    assert not index.exists()
    add(log, batch(*values(0, 1, 100), timestamp=NOW))
    assert index.read_bytes() == times.read_bytes() == b"", "with the first record"
    for number in range(1, 2 * INDEX_ENTRIES_UNSTORED_MAX + 20):
        add(log, batch(*values(number, 1, 100), timestamp=NOW + number))
    entries = log.active.offset_index.count
    assert entries > 2 * INDEX_ENTRIES_UNSTORED_MAX
    assert len(index.read_bytes()) == 8 * 2 * INDEX_ENTRIES_UNSTORED_MAX
    assert len(times.read_bytes()) == 12 * 2 * INDEX_ENTRIES_UNSTORED_MAX
    log.flush()
    assert len(index.read_bytes()) == 8 * entries
    log.truncate(10)
    assert len(index.read_bytes()) == 8 * log.active.offset_index.count < 80
    log.abandon()


@pytest.mark.parametrize(
    "left", [b"", bytes(80), b"\x7f" * 16, b"odd"], ids=["empty", "zeros", "ahead", "torn"]
)
def test_after_a_crash_the_active_index_is_rebuilt(tmp_path: Path, left: bytes) -> None:
    log = filled(tmp_path / "t-0")
    rows, path = rows_of(log), log.active.path_of(".index")
    entries = log.active.offset_index.entries()
    log.abandon()
    path.write_bytes(left)
    again = open_log(tmp_path / "t-0", SMALL, recovery_point=120)
    assert again.active.offset_index.entries() == entries
    assert len(path.read_bytes()) == 8 * len(entries)
    assert rows_of(again) == rows
    again.close()


def test_a_lost_end_of_a_sealed_segment_ends_the_log(tmp_path: Path) -> None:
    """Of unflushed files the system writes some and not others: no record comes back without those before."""
    log = filled(tmp_path / "t-0")
    segment = log.segments[-2]
    last = list(segment.file.headers(0))[-1]
    rows = [row for row in rows_of(log) if row[0] < last.base_offset]
    log.close()
    os.truncate(segment.file.path, last.position)
    shutil.copytree(tmp_path / "t-0", tmp_path / "u-0")
    again = open_log(tmp_path / "t-0", SMALL, recovery_point=segment.base_offset)
    assert rows_of(again) == rows
    assert again.next_offset == last.base_offset
    assert again.report.cut is not None
    assert again.report.cut.segments == 1
    again.close()
    flushed = open_log(tmp_path / "u-0", SMALL, recovery_point=last.base_offset + 1)
    assert [gap[0] for gap in flushed.report.gaps] == [last.base_offset], "the disk lost it: told, and kept"
    flushed.close()
