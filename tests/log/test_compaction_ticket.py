"""Compaction off the owner's thread: whatever happens to the log meanwhile, nothing is lost."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from ottla.log.compaction import CompactionTicket, begin, compact, finish
from ottla.log.file_names import CLEANED, SWAP
from ottla.log.file_system import FileSystem
from ottla.log.log_config import LogConfig
from ottla.log.log_directory import LogDirectory
from ottla.log.partition_log import PartitionLog
from ottla.log.retention import apply_retention
from ottla.model.errors import DamagedLog, LogOffline, StorageError
from tests.log.faulty_files import DyingFiles, Killed, QuickFiles
from tests.log.record_sets import NOW, add, batch, names, open_log, rows_of

COMPACTED = LogConfig(cleanup_policy=frozenset({"compact"}), segment_bytes=2000, index_interval_bytes=200)


def write(log: PartitionLog, random: Random, batches: int) -> None:
    for _ in range(batches):
        rows = [(b"key-%d" % random.randrange(15), random.randbytes(30)) for _ in range(3)]
        add(log, batch(*rows, timestamp=NOW + log.next_offset))


def filled(path: Path, random: Random, files: FileSystem | None = None) -> PartitionLog:
    log = open_log(path, COMPACTED, files or QuickFiles())
    write(log, random, 50)
    return log


def last_values(log: PartitionLog) -> dict[bytes | None, bytes | None]:
    return {key: value for _, key, value in rows_of(log)}


def leftovers(path: Path) -> list[str]:
    return [name for name in names(path) if name.endswith((CLEANED, SWAP))]


def in_a_thread(ticket: CompactionTicket) -> None:
    thread = threading.Thread(target=ticket.run)
    thread.start()
    thread.join()


@pytest.mark.parametrize("is_run_late", [False, True])
def test_appends_and_reads_go_on_meanwhile(tmp_path: Path, random: Random, is_run_late: bool) -> None:
    log = filled(tmp_path / "t-0", random)
    before, sealed = rows_of(log), log.active.base_offset
    ticket = begin(log, 0, NOW)
    if not is_run_late:
        in_a_thread(ticket)
    assert rows_of(log) == before
    write(log, random, 30)
    wanted, end = last_values(log), log.high_watermark
    if is_run_late:
        in_a_thread(ticket)
    result = finish(log, ticket)
    assert result.first_dirty_offset == sealed
    assert result.bytes_after < result.bytes_before
    assert (last_values(log), log.high_watermark) == (wanted, end)
    assert log.size == sum(item.path_of(".log").stat().st_size for item in log.segments)
    assert leftovers(log.path) == []
    log.flush()
    log.abandon()
    again = open_log(tmp_path / "t-0", COMPACTED, recovery_point=log.recovery_point)
    assert last_values(again) == wanted
    again.close()


def test_appends_and_reads_race_with_the_run(tmp_path: Path, random: Random) -> None:
    log = filled(tmp_path / "t-0", random)
    write(log, random, 600)
    ticket = begin(log, 0, NOW)
    thread = threading.Thread(target=ticket.run)
    thread.start()
    while thread.is_alive():
        write(log, random, 5)
        assert rows_of(log, log.high_watermark - 15)
        log.flush()
    thread.join()
    wanted = last_values(log)
    assert finish(log, ticket).records_dropped > 1500
    assert last_values(log) == wanted
    log.close()


@pytest.mark.parametrize("is_run_late", [False, True])
def test_what_was_made_of_a_log_that_was_cut_is_thrown_away(
    tmp_path: Path, random: Random, is_run_late: bool
) -> None:
    """The record that superseded an older one may be among those that were cut."""
    log = filled(tmp_path / "t-0", random)
    ticket = begin(log, 0, NOW)
    if not is_run_late:
        ticket.run()
    log.truncate(log.segments[len(log.segments) // 2].base_offset + 6)
    if is_run_late:
        with pytest.raises(DamagedLog, match="was cut"):
            ticket.run()
    write(log, random, 40)
    rows = rows_of(log)
    result = finish(log, ticket)
    assert (result.first_dirty_offset, result.records_dropped) == (0, 0)
    assert rows_of(log) == rows
    assert leftovers(log.path) == []
    assert compact(log, 0, NOW).records_dropped > 0
    log.close()


@pytest.mark.parametrize("is_group_left_whole", [False, True])
def test_segments_that_retention_dropped_do_not_come_back(
    tmp_path: Path, random: Random, is_group_left_whole: bool
) -> None:
    log = filled(tmp_path / "t-0", random)
    log.configure(replace(COMPACTED, segment_bytes=5000))
    ticket = begin(log, 0, NOW)
    ticket.run()
    sizes = [len(group.old) for group in ticket.groups]
    assert len(sizes) > 1
    assert min(sizes) > 1
    log.delete_records(log.segments[sizes[0] if is_group_left_whole else 1].base_offset)
    log.purge()
    start, wanted, rows = log.start_offset, last_values(log), rows_of(log)
    result = finish(log, ticket)
    assert (log.start_offset, last_values(log)) == (start, wanted)
    assert leftovers(log.path) == []
    if is_group_left_whole:
        assert 0 < result.records_dropped == len(rows) - len(rows_of(log))
        assert result.first_dirty_offset == log.active.base_offset
    else:
        assert rows_of(log) == rows
        assert result.first_dirty_offset == 0
    log.close()


def test_retention_by_time_may_drop_everything_meanwhile(tmp_path: Path, random: Random) -> None:
    log = filled(tmp_path / "t-0", random)
    log.configure(LogConfig(cleanup_policy=frozenset({"compact", "delete"}), retention_ms=1000))
    ticket = begin(log, 0, NOW)
    apply_retention(log, NOW + 9000)
    log.purge()
    ticket.run()
    finish(log, ticket)
    assert (rows_of(log), leftovers(log.path)) == ([], [])
    add(log, batch((b"a", b"b")))
    log.close()


@pytest.mark.parametrize("is_run_late", [False, True])
def test_a_partition_of_the_same_name_is_left_alone(
    tmp_path: Path, random: Random, is_run_late: bool
) -> None:
    directory = LogDirectory.open(tmp_path, lambda *_: COMPACTED, NOW)
    log = directory.create("t", 0, COMPACTED, NOW)
    write(log, random, 50)
    ticket = begin(log, 0, NOW)
    if not is_run_late:
        ticket.run()
    directory.purge_deleted([directory.delete("t", 0)])
    new = directory.create("t", 0, COMPACTED, NOW)
    write(new, random, 50)
    own = begin(new, 0, NOW)
    rows = rows_of(new)
    if is_run_late:
        ticket.run()
    assert finish(log, ticket).records_dropped == 0
    assert rows_of(new) == rows
    own.run()
    assert finish(new, own).records_dropped > 0
    directory.close()


def test_a_closed_log_is_left_alone(tmp_path: Path, random: Random) -> None:
    log = filled(tmp_path / "t-0", random)
    ticket, rows = begin(log, 0, NOW), rows_of(log)
    log.close()
    ticket.run()
    finish(log, ticket)
    again = open_log(tmp_path / "t-0", COMPACTED, clean=True)
    assert rows_of(again) == rows
    assert leftovers(again.path) == []
    again.close()


def test_a_cancelled_run_ends_early_and_changes_nothing(tmp_path: Path, random: Random) -> None:
    log = filled(tmp_path / "t-0", random)
    ticket, rows = begin(log, 0, NOW), rows_of(log)
    ticket.cancel()
    ticket.run()
    assert finish(log, ticket).first_dirty_offset == 0
    assert (rows_of(log), leftovers(log.path)) == (rows, [])
    log.close()


def test_damage_stops_a_run_and_is_told(tmp_path: Path, random: Random) -> None:
    log = filled(tmp_path / "t-0", random)
    victim = log.segments[2].file.path
    data = bytearray(victim.read_bytes())
    data[150] ^= 1
    victim.write_bytes(data)
    before = {name: (log.path / name).stat().st_size for name in names(log.path)}
    with pytest.raises(DamagedLog, match="checksum") as error:
        compact(log, 0, NOW)
    assert error.value.path == str(victim)
    assert {name: (log.path / name).stat().st_size for name in names(log.path)} == before
    log.abandon()


class FailingRename(QuickFiles):
    """A disk whose n-th rename fails."""

    renames_left = 1 << 60

    def rename(self, old: Path, new: Path) -> None:
        if not self.renames_left:
            raise OSError(5, "Input/output error")
        self.renames_left -= 1
        super().rename(old, new)


def failure_of_compaction(log: PartitionLog) -> StorageError | None:
    try:
        compact(log, 0, NOW)
    except StorageError as error:
        return error
    return None


def test_a_swap_that_fails_is_undone_or_finished_by_the_next_opening(tmp_path: Path, random: Random) -> None:
    state, count = random.getstate(), 0
    while True:
        random.setstate(state)
        files = FailingRename()
        log = filled(tmp_path / f"t-{count}", random, files)
        wanted = last_values(log)
        files.renames_left = count
        error = failure_of_compaction(log)
        is_done = error is None
        assert isinstance(error, LogOffline) == (count > 0 and not is_done)
        files.renames_left = 1 << 60
        assert last_values(log) == wanted
        log.abandon()
        again = open_log(tmp_path / f"t-{count}", COMPACTED)
        assert last_values(again) == wanted
        assert bool(again.report.swaps_finished) == (count > 0 and not is_done)
        again.close()
        if is_done:
            break
        count += 1
    assert count > 10


def test_killed_between_begin_and_finish_at_any_change(tmp_path: Path, random: Random) -> None:
    """Appends, a roll and deleted records are in between."""
    state, changes = random.getstate(), 0
    while True:
        random.setstate(state)
        path, files = tmp_path / f"t-{changes}", DyingFiles(1 << 60)
        log = filled(path, random, files)
        start = written = 0
        files.changes_left = changes
        try:
            ticket = begin(log, 0, NOW)
            write(log, random, 12)
            written = log.high_watermark
            ticket.run()
            start = log.delete_records(log.segments[1].base_offset + 1)
            finish(log, ticket)
            log.purge()
        except Killed:
            pass
        wanted = {key: value for offset, key, value in rows_of(log) if offset >= start}
        log.abandon()
        again = open_log(path, COMPACTED, QuickFiles(), start_offset=start)
        assert last_values(again) == wanted, f"killed after {changes} changes"
        assert again.high_watermark >= written
        assert not [name for name in names(path) if name.endswith((CLEANED, SWAP, ".deleted"))]
        again.close()
        if not files.is_dead:
            break
        changes += 1
    assert changes > 30
