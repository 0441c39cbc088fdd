"""A data directory: who owns it, what it remembers, how it starts and stops."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ottla.log import checkpoints
from ottla.log.compaction import compact
from ottla.log.log_config import LogConfig
from ottla.log.log_directory import LogDirectory
from ottla.log.time_lookup import offset_for_timestamp
from ottla.log.validation import checked
from ottla.model.errors import ConfigError, DirectoryInUse, KafkaError, StorageError
from tests.log.faulty_files import DyingFiles, FullDisk, Killed, QuickFiles
from tests.log.record_sets import NOW, add, batch, names, rows_of, values

SMALL = LogConfig(segment_bytes=500)


def config_of(topic: str, partition: int) -> LogConfig:
    return SMALL


def test_a_clean_stop_is_trusted_and_remembered(tmp_path: Path) -> None:
    directory = LogDirectory.open(tmp_path / "data", config_of, NOW, broker_id=3, cluster_id="abc")
    assert not directory.was_clean
    for topic, partition in (("a-b", 0), ("a-b", 1), ("c", 12)):
        log = directory.create(topic, partition, SMALL, NOW)
        for number in range(6):
            add(log, batch(*values(number, 1, 100)))
    directory.logs["c", 12].delete_records(3)
    rows = {name: rows_of(log) for name, log in directory.logs.items()}
    directory.first_dirty_offsets["c", 12] = 2
    directory.close()
    assert {"a-b-0", "a-b-1", "c-12", ".kafka_cleanshutdown", ".lock", "meta.properties"} <= set(
        names(tmp_path / "data")
    )
    text = (tmp_path / "data" / checkpoints.RECOVERY_POINT).read_text()
    assert text == "0\n3\na-b 0 6\na-b 1 6\nc 12 6\n"
    assert (tmp_path / "data" / checkpoints.META).read_text() == "version=0\nbroker.id=3\ncluster.id=abc\n"
    assert "c 12 3" in (tmp_path / "data" / checkpoints.LOG_START).read_text()
    assert "c 12 6" in (tmp_path / "data" / checkpoints.HIGH_WATERMARK).read_text()
    again = LogDirectory.open(tmp_path / "data", config_of, NOW, broker_id=3, cluster_id="abc")
    assert again.was_clean
    assert {name: rows_of(log) for name, log in again.logs.items()} == rows
    assert all(not log.report.segments_verified for log in again.logs.values())
    assert again.first_dirty_offsets["c", 12] == 2
    again.abandon()
    crashed = LogDirectory.open(tmp_path / "data", config_of, NOW, broker_id=3)
    assert not crashed.was_clean
    assert {name: rows_of(log) for name, log in crashed.logs.items()} == rows
    crashed.close()


def test_two_brokers_on_one_directory_are_refused(tmp_path: Path) -> None:
    directory = LogDirectory.open(tmp_path, config_of, NOW)
    with pytest.raises(DirectoryInUse, match="in use by another broker"):
        LogDirectory.open(tmp_path, config_of, NOW)
    program = (
        "import sys; from pathlib import Path; from ottla.log.log_directory import DirectoryLock;"
        "DirectoryLock(Path(sys.argv[1]))"
    )
    run = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert "DirectoryInUse" in run.stderr
    directory.close()
    LogDirectory.open(tmp_path, config_of, NOW).close()


def test_data_of_another_broker_are_refused(tmp_path: Path) -> None:
    LogDirectory.open(tmp_path, config_of, NOW, broker_id=1).close()
    with pytest.raises(StorageError, match=r"broker\.id=1, not 2"):
        LogDirectory.open(tmp_path, config_of, NOW, broker_id=2)
    LogDirectory.open(tmp_path, config_of, NOW, broker_id=1).close()


@pytest.mark.parametrize("name", ["", "a/b", "..", "ä"])
def test_names_that_are_no_topics_are_refused(tmp_path: Path, name: str) -> None:
    directory = LogDirectory.open(tmp_path, config_of, NOW)
    with pytest.raises(ConfigError):
        directory.create(name, 0, SMALL, NOW)
    directory.close()


def test_a_damaged_log_does_not_stop_the_others_and_stays_damaged(tmp_path: Path) -> None:
    directory = LogDirectory.open(tmp_path, config_of, NOW)
    for partition in range(2):
        log = directory.create("t", partition, SMALL, NOW)
        for number in range(6):
            add(log, batch(*values(number, 1, 100)))
    for log in directory.logs.values():
        log.flush()
    directory.checkpoint()
    path = directory.logs["t", 0].active.file.path
    directory.abandon()
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(data)
    for _ in range(2):
        again = LogDirectory.open(tmp_path, config_of, NOW)
        assert list(again.logs) == [("t", 1)]
        assert "checksum" in str(again.damaged["t", 0])
        again.close()


def test_a_log_that_cannot_be_closed_leaves_no_mark_of_a_clean_stop(tmp_path: Path) -> None:
    files = FullDisk()
    directory = LogDirectory.open(tmp_path, config_of, NOW, file_system=files)
    for partition in range(2):
        log = directory.create("t", partition, SMALL, NOW)
        add(log, batch(*values(0, 3)))
    directory.logs["t", 0].append(checked(batch(*values(3, 3)), SMALL, NOW), NOW)
    files.room = 10
    with pytest.raises(StorageError):
        directory.close()
    again = LogDirectory.open(tmp_path, config_of, NOW)
    assert not again.was_clean
    assert [len(rows_of(log)) for log in again.logs.values()] == [3, 3]
    again.close()


@pytest.mark.parametrize("text", ["\n", "1\n0\n", "0\n2\nt 0 5\n", "0\n1\nt x 5\n", "0\n1\nt 0\n", "0\nx\n"])
def test_checkpoints_that_say_something_else_are_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / checkpoints.RECOVERY_POINT).write_text(text)
    with pytest.raises(StorageError, match="no checkpoint file of version 0"):
        LogDirectory.open(tmp_path, config_of, NOW)


def test_a_checkpoint_without_a_line_says_nothing(tmp_path: Path) -> None:
    """Kafka makes its files before it has anything to put into them."""
    for name in (checkpoints.RECOVERY_POINT, checkpoints.LOG_START, checkpoints.CLEANER):
        (tmp_path / name).touch()
    LogDirectory.open(tmp_path, config_of, NOW).close()


def test_deleting_a_partition_killed_at_any_change_leaves_all_of_it_or_nothing(tmp_path: Path) -> None:
    changes = 0
    while True:
        path = tmp_path / str(changes)
        files = DyingFiles(1 << 60)
        directory = LogDirectory.open(path, config_of, NOW, file_system=files)
        for partition in range(2):
            log = directory.create("t", partition, SMALL, NOW)
            for number in range(6):
                add(log, batch(*values(number, 1, 100)))
        files.changes_left = changes
        try:
            doomed = directory.delete("t", 0)
            assert doomed.name.endswith("-delete")
            directory.purge_deleted([doomed])
        except Killed:
            pass
        directory.abandon()
        again = LogDirectory.open(path, config_of, NOW, file_system=QuickFiles())
        assert [len(rows_of(log)) for log in again.logs.values()] in ([6, 6], [6])
        assert ("t", 0) in again.logs or changes > 0
        assert not any(name.endswith("-delete") for name in names(path))
        again.close()
        if not files.is_dead:
            break
        changes += 1
    assert changes > 5


def test_a_topic_made_again_after_its_deletion_is_empty(tmp_path: Path) -> None:
    directory = LogDirectory.open(tmp_path, config_of, NOW)
    doomed = []
    for _ in range(3):
        log = directory.create("t", 0, SMALL, NOW)
        assert log.high_watermark == 0
        add(log, batch(*values(0, 3)))
        doomed.append(directory.delete("t", 0))
    directory.purge_deleted(doomed)
    assert not [name for name in names(tmp_path) if name.startswith("t-")]
    directory.close()


@pytest.mark.parametrize("stop", ["clean", "crash behind a checkpoint", "crash before it"])
def test_deleted_records_stay_deleted_as_far_as_a_checkpoint_tells(tmp_path: Path, stop: str) -> None:
    """As with Kafka, which writes the log's start once a minute; whole segments are gone in any case."""
    directory = LogDirectory.open(tmp_path, config_of, NOW)
    log = directory.create("t", 0, SMALL, NOW)
    for number in range(12):
        add(log, batch(*values(number, 1, 100), timestamp=NOW + number))
    directory.checkpoint()
    first, second = log.segments[1].base_offset, log.segments[2].base_offset
    assert second - first > 1
    log.delete_records(first + 1)
    if stop != "crash before it":
        directory.checkpoint()
    if stop == "clean":
        directory.close()
    else:
        directory.abandon()
    again = LogDirectory.open(tmp_path, config_of, NOW)
    log, start = again.logs["t", 0], first + (stop != "crash before it")
    assert (log.start_offset, log.segments[0].base_offset) == (start, first)
    assert [row[0] for row in rows_of(log)] == list(range(start, 12))
    found = offset_for_timestamp(log, 0)
    assert found is not None
    assert found.offset == start
    for read in (log.read, log.read_cached):
        with pytest.raises(KafkaError, match="OFFSET_OUT_OF_RANGE"):
            read(start - 1, 100)
    assert log.delete_records(-1) == 12
    again.close()
    last = LogDirectory.open(tmp_path, config_of, NOW)
    assert (last.logs["t", 0].start_offset, rows_of(last.logs["t", 0])) == (12, [])
    assert add(last.logs["t", 0], batch(*values(0, 1))) == 12
    last.close()


@pytest.mark.parametrize("crashes", [False, True])
def test_checkpoints_of_a_deleted_partition_are_not_believed_of_a_new_one(
    tmp_path: Path, crashes: bool
) -> None:
    directory = LogDirectory.open(tmp_path, config_of, NOW)
    log = directory.create("t", 0, SMALL, NOW)
    for number in range(9):
        add(log, batch(*values(number, 1, 100)))
    log.delete_records(8)
    log.flush()
    directory.checkpoint()
    directory.delete("t", 0)
    if crashes:
        directory.abandon()
        directory = LogDirectory.open(tmp_path, config_of, NOW)
    add(directory.create("t", 0, SMALL, NOW), batch(*values(0, 3)))
    directory.abandon()
    again = LogDirectory.open(tmp_path, config_of, NOW)
    assert [row[0] for row in rows_of(again.logs["t", 0])] == [0, 1, 2]
    assert again.logs["t", 0].recovery_point == 0
    again.close()


def test_compaction_is_remembered(tmp_path: Path) -> None:
    directory = LogDirectory.open(tmp_path, config_of, NOW)
    log = directory.create("t", 0, SMALL, NOW)
    for number in range(12):
        add(log, batch((b"same", b"%d" % number * 30)))
    directory.first_dirty_offsets["t", 0] = compact(log, 0, NOW).first_dirty_offset
    directory.close()
    again = LogDirectory.open(tmp_path, config_of, NOW)
    assert again.first_dirty_offsets["t", 0] == again.logs["t", 0].active.base_offset
    assert rows_of(again.logs["t", 0])[-1][0] == 11
    again.close()


def test_partitions_are_made_all_or_none_and_what_was_there_is_left_alone(tmp_path: Path) -> None:
    directory = LogDirectory.open(tmp_path, config_of, NOW)
    (tmp_path / "t-1").mkdir()
    (tmp_path / "t-1" / "mine").touch()
    with pytest.raises(StorageError, match="partitions of t"):
        directory.create_all("t", [0, 1, 2], SMALL, NOW)
    assert not directory.logs
    assert [name for name in names(tmp_path) if name.startswith("t-")] == ["t-1"]
    assert names(tmp_path / "t-1") == ["mine"]
    directory.abandon()


def test_a_damaged_partition_can_be_deleted(tmp_path: Path) -> None:
    directory = LogDirectory.open(tmp_path, config_of, NOW)
    log = directory.create("t", 0, LogConfig(), NOW)
    for number in range(3):
        add(log, batch(*values(number, 1, 100)))
    log.flush()
    directory.checkpoint()
    directory.abandon()
    path = log.path / "00000000000000000000.log"
    data = bytearray(path.read_bytes())
    data[70] ^= 1
    path.write_bytes(data)
    directory = LogDirectory.open(tmp_path, config_of, NOW)
    assert list(directory.damaged) == [("t", 0)]
    directory.delete("t", 0)
    directory.close()
    again = LogDirectory.open(tmp_path, config_of, NOW)
    assert not again.damaged
    assert not again.logs
    again.close()
