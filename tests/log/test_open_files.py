"""A log has more segments than its process may open files: sealed ones are opened when they are read."""

from __future__ import annotations

import os
import resource
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.log.compaction import begin, compact, finish
from ottla.log.file_range import RANGE_BYTES_MIN, FileRange
from ottla.log.log_config import LogConfig
from ottla.log.open_files import SEALED
from ottla.log.partition_log import PartitionLog
from ottla.log.reading import FirstBatch, ReadLimits
from ottla.log.retention import apply_retention
from ottla.log.segment_file import FileClosed
from ottla.model.errors import StorageError
from tests.log.faulty_files import QuickFiles
from tests.log.record_sets import NOW, add, batch, open_log, rows_of, values

SEGMENTS, DESCRIPTORS, SEALED_MAX = 300, 100, 20
ONE_BATCH = LogConfig(segment_bytes=150, retention_ms=1000)  # a segment


@pytest.fixture(autouse=True)
def few_descriptors(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """This process may open DESCRIPTORS more files."""
    monkeypatch.setattr(SEALED, "_count_max", SEALED_MAX)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(map(int, os.listdir("/proc/self/fd"))) if os.path.isdir("/proc/self/fd") else 256
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(highest + DESCRIPTORS, soft), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def filled(path: Path, config: LogConfig = ONE_BATCH, segments: int = SEGMENTS) -> PartitionLog:
    log = open_log(path, config, QuickFiles())
    for number in range(segments):
        add(log, batch(*values(number % 7, 1, 50), timestamp=NOW + number))
    assert len(log.segments) == segments
    return log


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_log_of_more_segments_than_descriptors(tmp_path: Path, *, is_clean: bool) -> None:
    log = filled(tmp_path / "t-0")
    rows = rows_of(log)
    assert len(rows) == SEGMENTS
    if is_clean:
        log.close()
    else:
        log.abandon()
    log = open_log(tmp_path / "t-0", ONE_BATCH, QuickFiles(), clean=is_clean)
    assert len(log.segments) == SEGMENTS
    assert rows_of(log) == rows
    assert add(log, batch(*values(0, 1, 50), timestamp=NOW + SEGMENTS)) == SEGMENTS
    assert apply_retention(log, NOW + SEGMENTS - 1 + 1000) == SEGMENTS - 1
    assert log.purge() == SEGMENTS - 1
    assert [row[0] for row in rows_of(log)] == [SEGMENTS - 1, SEGMENTS]
    log.flush()
    log.close()


def test_it_is_compacted(tmp_path: Path) -> None:
    config = LogConfig(segment_bytes=150, cleanup_policy=frozenset({"compact"}))
    log = filled(tmp_path / "t-0", config)
    compact(log, 0, NOW + SEGMENTS)
    log.purge()
    assert [row[0] for row in rows_of(log)] == list(range(SEGMENTS - 8, SEGMENTS))
    log.close()


def test_it_is_truncated(tmp_path: Path) -> None:
    log = filled(tmp_path / "t-0")
    log.truncate(50)
    assert add(log, batch(*values(50, 1, 50), timestamp=NOW + 50)) == 50
    assert [row[0] for row in rows_of(log)] == list(range(51))
    log.close()


def test_a_range_keeps_its_file_until_it_is_sent(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", LogConfig(segment_bytes=2 * RANGE_BYTES_MIN))
    add(log, batch(*values(0, 1, RANGE_BYTES_MIN)))
    for number in range(1, SEALED_MAX + 10):
        add(log, batch(*values(number, 1, 2 * RANGE_BYTES_MIN - 200)))
    expected = log.read(0, 1 << 20)
    ranges = log.cached(ReadLimits(0, 1 << 20, FirstBatch.WHOLE), as_range=True)
    if not isinstance(ranges, FileRange):
        pytest.skip("the system does not say what is in memory")
    rows_of(log)  # uses so many others that the file is not kept open
    log.delete_records(-1)
    log.purge()
    log.close()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        received = bytearray()
        while len(received) < len(expected):
            ranges.send(ours.fileno(), len(received), 10_000)
            received += theirs.recv(
                10_000, socket.MSG_WAITALL if len(expected) - len(received) >= 10_000 else 0
            )
    assert received == expected


def test_threads_read_while_files_are_renamed_and_removed(tmp_path: Path) -> None:
    log = filled(tmp_path / "t-0")
    files = [segment.file for segment in log.segments]
    expected = {file: file.read(0, 1000) for file in files}
    failures: list[Exception] = []
    is_over = threading.Event()

    def read() -> None:
        while not is_over.is_set():
            for file in files:
                try:
                    assert file.read(0, 1000) == expected[file]
                except FileClosed:
                    pass
                except (OSError, AssertionError) as failure:
                    failures.append(failure)
                    return

    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    for before in range(20, SEGMENTS, 20):
        log.delete_records(before)
        log.purge()
    is_over.set()
    for thread in threads:
        thread.join()
    assert not failures
    log.close()
    assert not any(file in SEALED._open for file in files)


def test_a_compaction_ends_when_its_log_is_closed(tmp_path: Path) -> None:
    config = LogConfig(segment_bytes=150, cleanup_policy=frozenset({"compact"}))
    log = filled(tmp_path / "t-0", config)
    ticket = begin(log, 0, NOW + SEGMENTS)
    log.abandon()
    ticket.run()
    assert not ticket.done
    finish(log, ticket)


def test_a_file_that_is_gone_is_not_made_again(tmp_path: Path) -> None:
    log = filled(tmp_path / "t-0", segments=SEALED_MAX + 5)
    path = log.segments[0].file.path
    path.unlink()
    with pytest.raises(StorageError, match=path.name):
        log.read(0, 1000)
    assert not path.exists()
    log.abandon()
