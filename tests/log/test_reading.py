"""Reading without waiting for the disk: what is in memory at once, the rest by a ticket."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from random import Random

import pytest

from ottla.log.compaction import compact
from ottla.log.log_config import LogConfig
from ottla.log.partition_log import PartitionLog
from ottla.log.reading import ColdRead, FirstBatch, ReadLimits
from ottla.log.recent_batches import KEPT_MIN
from ottla.log.segment_file import RWF_NOWAIT, SegmentFile, find_batch
from tests.log.record_sets import NOW, add, batch, open_log, rows_of, values

SMALL = LogConfig(segment_bytes=4000, index_interval_bytes=500)


def filled(path: Path, batches: int = 40, config: LogConfig = SMALL) -> PartitionLog:
    log = open_log(path, config)
    for number in range(batches):
        add(log, batch(*values(number * 3, 3, 50)))
    return log


def cold_read(log: PartitionLog, offset: int, max_bytes: int = 1 << 20) -> ColdRead:
    """A ticket, as if nothing of the log were in memory."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SegmentFile, "read_now", _blocked)
        ticket = log.read_cached(offset, max_bytes)
    assert isinstance(ticket, ColdRead)
    return ticket


def _blocked(*_: object) -> bytes:
    raise BlockingIOError


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_what_is_in_memory_is_given_at_once(tmp_path: Path) -> None:
    log = filled(tmp_path / "t-0")
    for offset in range(log.high_watermark):
        for max_bytes in (0, 300, 1 << 20):
            for first_batch in FirstBatch:
                found = log.read_cached(offset, max_bytes, first_batch)
                assert not isinstance(found, ColdRead)
                assert bytes(found) == log.read(offset, max_bytes, first_batch)
    assert log.read_cached(log.high_watermark, 100) == b""
    log.close()


def test_a_large_read_ends_with_a_whole_batch(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", LogConfig())
    for number in range(20):
        add(log, batch(*values(1000 + number * 3, 3, 10_000)))
    size = log.active.size // 20
    for as_range in (False, True):
        limits = ReadLimits(3, 10 * size - 1, FirstBatch.WHOLE)
        assert len(log.cached(limits, as_range=as_range)) == 9 * size  # type: ignore[arg-type]
        to_the_end = ReadLimits(48, 10 * size, FirstBatch.WHOLE)
        assert len(log.cached(to_the_end, as_range=as_range)) == 4 * size  # type: ignore[arg-type]
    log.close()


@pytest.mark.skipif(not RWF_NOWAIT, reason="the system cannot refuse to wait for the disk")
def test_bytes_that_only_the_disk_has_are_a_ticket(tmp_path: Path) -> None:
    log = filled(tmp_path / "t-0", config=LogConfig(index_interval_bytes=500))
    log.flush()
    wanted = log.read(20, 1000)
    log.close()
    log = open_log(tmp_path / "t-0", clean=True)
    os.posix_fadvise(log.active.file.opened().fd, 0, 0, os.POSIX_FADV_DONTNEED)
    found = log.read_cached(20, 1000)
    if not isinstance(found, ColdRead):
        pytest.skip("the file system of the temporary directory keeps its files in memory")
    assert found.size == 1000
    assert found.read() == wanted
    assert bytes(log.read_cached(20, 1000)) == wanted  # type: ignore[arg-type]
    log.close()


def test_a_ticket_gives_what_a_read_gives(tmp_path: Path) -> None:
    log = filled(tmp_path / "t-0")
    before = descriptors()
    for offset in range(0, log.high_watermark, 5):
        for max_bytes in (0, 300, 1 << 20):
            assert cold_read(log, offset, max_bytes).read() == log.read(offset, max_bytes)
    cold_read(log, 5).close()
    assert descriptors() == before
    log.close()


def test_a_ticket_survives_the_deletion_of_its_segment(tmp_path: Path) -> None:
    log = filled(tmp_path / "t-0")
    wanted, ticket = log.read(4, 500), cold_read(log, 4, 500)
    log.delete_records(-1)
    log.purge()
    log.close()
    assert ticket.read() == wanted


def test_a_ticket_survives_compaction(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", SMALL)
    for number in range(60):
        add(log, batch((b"same", b"%d" % number * 50)))
    wanted, ticket = log.read(4, 500), cold_read(log, 4, 500)
    compact(log, 0, NOW)
    log.purge()
    assert ticket.read() == wanted
    log.close()


def test_a_ticket_of_a_log_that_was_cut_gives_nothing(tmp_path: Path) -> None:
    log = filled(tmp_path / "t-0", config=LogConfig(index_interval_bytes=500))
    ticket = cold_read(log, 60)
    log.truncate(30)
    for number in range(40):
        add(log, batch(*values(number, 1, 33)))
    assert ticket.read() == b""
    assert rows_of(log, 60)[0][0] == 60
    log.close()


def test_a_ticket_goes_on_in_the_next_segment_behind_a_gap(tmp_path: Path) -> None:
    """Kafka's own compaction may take the end of a segment."""
    log = filled(tmp_path / "t-0")
    log.close()
    first, second = sorted((tmp_path / "t-0").glob("*.log"))[:2]
    last = list(open_log(tmp_path / "t-0", SMALL).segments[0].file.headers(0))[-1]
    os.truncate(first, last.position)
    again = open_log(tmp_path / "t-0", SMALL, clean=True)
    assert again.read(last.base_offset, 400) == second.read_bytes()[:400]
    assert cold_read(again, last.base_offset, 400).read() == second.read_bytes()[:400]
    again.abandon()


def test_where_the_file_system_cannot_tell_it_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = filled(tmp_path / "t-0")

    def preadv(*_: object) -> int:
        raise OSError(errno.EOPNOTSUPP, "Operation not supported")

    monkeypatch.setattr(os, "preadv", preadv)
    assert log.read_cached(7, 500) == log.read(7, 500)
    log.close()


def test_recent_batches_are_found_as_a_walk_finds_them(tmp_path: Path, random: Random) -> None:
    log = open_log(tmp_path / "t-0", LogConfig(index_interval_bytes=300))
    file, recent = log.active.file, log.active.recent
    known = 0
    while log.next_offset < 6 * KEPT_MIN:
        for _ in range(random.randrange(1, 400)):
            add(log, batch(*values(0, random.randrange(1, 4))))
        for offset in random.sample(range(log.high_watermark), 20):
            found = recent.find(offset, file.size)
            assert found in (None, find_batch(file.read, 0, file.size, offset))
            known += found is not None
        assert recent.find(log.high_watermark - 1, file.size) is not None
        assert recent.find(log.high_watermark, file.size) is None
    assert known > 10
    log.truncate(log.high_watermark - 5)
    add(log, batch(*values(0, 1)))
    assert [row[0] for row in rows_of(log, log.high_watermark - 1)] == [log.high_watermark - 1]
    log.close()
