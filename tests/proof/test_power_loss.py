"""A small part of the proof of `power_loss`, and the disk model itself."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random

import pytest

from ottla.broker.storage.catalog import Catalog, Topic
from ottla.log.log_config import LogConfig
from ottla.security.private_files import make_private_directory
from ottla.testing.simulation.disk import DirectorySynced, Disk, Made, RecordingFiles, put
from tests.log.record_sets import add, batch, open_log, values
from tests.proof.power_loss import prove
from tests.scale import SEED, sized

POINTS = sized(50, 50_000)
NOTES = sized(400, 3_000)


@pytest.mark.parametrize("flush", ["always", "os"])
def test_what_is_promised_survives_a_power_cut(flush: str, tmp_path: Path) -> None:
    findings = prove(flush, POINTS, SEED, NOTES, tmp_path)
    assert findings.examples == []
    assert findings.points == POINTS
    assert findings.second_cuts


def drawn(files: RecordingFiles, name: str, draws: int = 300) -> set[bytes | str | None]:
    """What a file may hold after a power cut now; "gone" if it may be missing."""
    disk = Disk()
    for note in files.notes:
        disk.take(note)
    contents: set[bytes | str | None] = set()
    for number in range(draws):
        contents.add(disk.draw(Random(number)).get(name, "gone"))
    return contents


def test_what_a_power_cut_may_leave(tmp_path: Path) -> None:
    files = RecordingFiles(tmp_path)
    files.replace_file(tmp_path / "old", b"1")
    assert drawn(files, "old") == {b"1"}, "flushed, with its name"
    files.replace_file(tmp_path / "old", b"2", flush=False)
    assert drawn(files, "old") == {b"1", b"2", b"", b"\0"}, "the name may be ahead of the bytes"
    files.sync_directory(tmp_path)
    assert drawn(files, "old") == {b"2", b"", b"\0"}
    files.remove(tmp_path / "old")
    assert drawn(files, "old") == {b"2", b"", b"\0", "gone"}


def test_sectors_are_written_in_any_order(tmp_path: Path) -> None:
    files = RecordingFiles(tmp_path)
    files.replace_file(tmp_path / "log", b"a" * 512)
    fd = files.open(tmp_path / "log")
    files.write(fd, [b"b" * 512, b"c" * 512], 512)
    kinds = {bytes(sorted(set(content))) for content in drawn(files, "log") if isinstance(content, bytes)}
    assert kinds >= {b"a", b"ab", b"abc", b"\0ac"}
    files.sync(fd)
    assert drawn(files, "log") == {b"a" * 512 + b"b" * 512 + b"c" * 512}
    files.truncate(fd, 3)
    assert drawn(files, "log") == {b"aaa", b"a" * 512 + b"b" * 512 + b"c" * 512}
    os.close(fd)


def test_a_drawn_disk_can_be_recorded_again(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    put({"t-0": None, "t-0/0.log": b"abc"}, tmp_path / "root")
    disk = Disk.holding(tmp_path / "root")
    files = RecordingFiles(tmp_path / "root", disk.inodes)
    fd = files.open(tmp_path / "root" / "t-0" / "0.log")
    files.write(fd, [b"d"], 3)
    files.sync(fd)
    os.close(fd)
    for note in files.notes:
        disk.take(note)
    assert disk.draw(Random(0)) == {"t-0": None, "t-0/0.log": b"abcd"}


def disk_of(files: RecordingFiles) -> Disk:
    """The disk of a log in the directory t-0, after all that was done to its files."""
    disk = Disk()
    disk.take(Made("t-0", 1_000_000, is_directory=True))
    disk.take(DirectorySynced("."))
    for note in files.notes:
        disk.take(note)
    return disk


def test_the_indexes_of_a_sealed_segment_are_flushed(tmp_path: Path) -> None:
    """Also if all of its records were flushed before it was sealed."""
    (tmp_path / "t-0").mkdir()
    files = RecordingFiles(tmp_path)
    log = open_log(tmp_path / "t-0", LogConfig(segment_bytes=2000, index_interval_bytes=100), files)
    while len(log.segments) < 3:
        add(log, batch(*values(log.next_offset, 1, 200)))
        log.flush()
    disk = disk_of(files)
    for segment in log.segments[:-1]:
        for index in (segment.offset_index, segment.time_index):
            name = str(index.path.relative_to(tmp_path))
            assert {disk.draw(Random(number)).get(name) for number in range(100)} == {index.path.read_bytes()}
    log.close()


def test_a_clean_stop_flushes_the_indexes_of_the_active_segment(tmp_path: Path) -> None:
    """A start trusts them after it: retention would go by an older time than that of the newest record."""
    (tmp_path / "t-0").mkdir()
    files = RecordingFiles(tmp_path)
    log = open_log(tmp_path / "t-0", LogConfig(index_interval_bytes=100), files)
    for _ in range(9):
        add(log, batch(*values(log.next_offset, 1, 200)))
        log.flush()
    names = [index.path.relative_to(tmp_path) for index in (log.active.offset_index, log.active.time_index)]
    log.close()
    disk = disk_of(files)
    for name in names:
        found = {disk.draw(Random(number)).get(str(name)) for number in range(100)}
        assert found == {(tmp_path / name).read_bytes()}
        assert found != {b""}


def test_topics_made_together_are_there_together_or_not(tmp_path: Path) -> None:
    """Their change is longer than a sector: its end may be on disk without its beginning."""
    (tmp_path / "data").mkdir()
    files = RecordingFiles(tmp_path / "data")
    catalog = Catalog(tmp_path / "data", files)
    catalog.set_cluster_id("cluster")
    disk = Disk()
    for note in files.notes:
        disk.take(note)
    taken = len(files.notes)
    catalog.put(Topic(f"t{number}", bytes([number]) * 16, ((0,),), (0,)) for number in range(9))
    for note in files.notes[taken:-1]:  # all but the flush
        disk.take(note)
    counts = set()
    for number in range(60):
        (tmp_path / str(number)).mkdir()
        put(disk.draw(Random(number)), tmp_path / str(number))
        counts.add(len(Catalog(tmp_path / str(number)).topics))
    assert counts == {0, 9}


def test_a_new_data_directory_keeps_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flushed = []
    monkeypatch.setattr(os, "fsync", lambda fd: flushed.append(os.fstat(fd).st_ino))
    make_private_directory(tmp_path / "a" / "b")
    assert flushed == [tmp_path.stat().st_ino, (tmp_path / "a").stat().st_ino]
    make_private_directory(tmp_path / "a" / "b")
    assert len(flushed) == 2, "it was there"
