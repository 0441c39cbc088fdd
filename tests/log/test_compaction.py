"""Compaction keeps the last value of each key and its offset, also when it is killed at any instant."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from ottla.log.cleanable import cleanable_segments, dirty_ratio, is_due
from ottla.log.compaction import compact
from ottla.log.file_system import FileSystem
from ottla.log.log_config import DAY_MS, LogConfig
from ottla.log.partition_log import PartitionLog
from ottla.log.time_lookup import largest_timestamp, offset_for_timestamp
from ottla.records.compression import Codec
from ottla.records.messages import Message, MessageSet
from ottla.records.reader import decode
from tests.log.faulty_files import DyingFiles, Killed, QuickFiles
from tests.log.record_sets import NOW, Row, add, batch, names, open_log, rows_of, values

COMPACTED = LogConfig(
    cleanup_policy=frozenset({"compact"}),
    segment_bytes=2000,
    index_interval_bytes=200,
    delete_retention_ms=DAY_MS,
)


def last_values(log: PartitionLog) -> dict[bytes | None, bytes | None]:
    return {key: value for _, key, value in rows_of(log)}


def filled(
    path: Path, random: Random, magic: int = 2, codec: Codec = Codec.NONE, batches: int = 60
) -> PartitionLog:
    log = open_log(path, COMPACTED, QuickFiles())
    for _ in range(batches):
        rows: list[Row] = [
            (b"key-%d" % random.randrange(25), None if random.random() < 0.15 else random.randbytes(20))
            for _ in range(random.randrange(1, 6))
        ]
        add(log, batch(*rows, magic=magic, codec=codec, timestamp=NOW + log.next_offset))
    return log


@pytest.mark.parametrize("magic", [0, 1, 2])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP], ids=lambda codec: codec.label)
def test_the_last_value_of_each_key_stays_at_its_offset(
    tmp_path: Path, random: Random, magic: int, codec: Codec
) -> None:
    log = filled(tmp_path / "t-0", random, magic, codec)
    before, wanted, end = rows_of(log), last_values(log), log.high_watermark
    assert dirty_ratio(log, 0, NOW) == 1
    result = compact(log, 0, NOW)
    log.purge()
    after = rows_of(log)
    assert set(after) <= set(before)
    assert last_values(log) == wanted
    assert log.high_watermark == end
    assert result.bytes_after < result.bytes_before
    assert result.records_dropped == len(before) - len(after)
    assert result.first_dirty_offset == log.active.base_offset
    clean = [row for row in after if row[0] < log.active.base_offset]
    assert len({key for _, key, _ in clean}) == len(clean)
    assert dirty_ratio(log, result.first_dirty_offset, NOW) == 0
    # Every offset can still be asked for, and the log goes on.
    for offset in range(end):
        assert [row for row in after if row[0] >= offset] == rows_of(log, offset)
    assert add(log, batch((b"key-1", b"new"))) == end
    log.close()
    again = open_log(tmp_path / "t-0", COMPACTED)  # everything verified
    assert last_values(again) == wanted | {b"key-1": b"new"}
    assert again.high_watermark == end + 1
    again.close()


def test_a_second_run_only_maps_what_is_new_and_finds_old_values_in_clean_segments(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", COMPACTED)
    add(log, batch(*values(0, 30)))
    add(log, batch(*values(30, 30)))
    add(log, batch(*values(60, 30)))
    first = compact(log, 0, NOW)
    add(log, batch(*[(key, b"second") for key, _ in values(0, 30)]))
    add(log, batch(*values(60, 30)))
    second = compact(log, first.first_dirty_offset, NOW)
    assert second.first_dirty_offset > first.first_dirty_offset
    assert [row[2] for row in rows_of(log) if row[1] == b"k3"] == [b"second"]
    log.close()


def test_records_beyond_a_full_map_stay_for_the_next_run(tmp_path: Path, random: Random) -> None:
    log = filled(tmp_path / "t-0", random)
    wanted, dirty, runs = last_values(log), 0, 0
    while dirty < log.active.base_offset:
        result = compact(log, dirty, NOW, keys_max=7)
        assert result.first_dirty_offset > dirty
        assert last_values(log) == wanted
        dirty, runs = result.first_dirty_offset, runs + 1
    assert runs > 1
    log.close()


def tombstones(log: PartitionLog) -> list[tuple[int, bytes | None, bytes | None]]:
    return [row for row in rows_of(log) if row[1] == b"gone"]


def log_with_a_tombstone(path: Path, magic: int = 2, codec: Codec = Codec.NONE) -> PartitionLog:
    log = open_log(path, replace(COMPACTED, segment_bytes=500 if codec else 2500))
    add(log, batch((b"gone", b"x"), (b"kept", b"y"), magic=magic, codec=codec))
    add(log, batch((b"gone", None), (b"other", b"z"), timestamp=NOW - 5, magic=magic, codec=codec))
    for first in (0, 40, 80):
        add(log, batch(*values(first, 40), magic=magic, codec=codec))
    return log


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD], ids=lambda codec: codec.label)
def test_tombstones_get_a_horizon_and_go_behind_it(tmp_path: Path, codec: Codec) -> None:
    log = log_with_a_tombstone(tmp_path / "t-0", codec=codec)
    dirty = compact(log, 0, NOW).first_dirty_offset
    assert tombstones(log) == [(2, b"gone", None)]
    marked = [header for header in log.headers() if header.attributes & 0x40]
    assert [(header.last_offset, header.base_timestamp) for header in marked] == [(3, NOW + DAY_MS)]
    decoded = decode(log.read(2, marked[0].size))
    assert decoded.batch.column("timestamp").cast("int64").to_pylist()[:2] == [NOW - 5, NOW - 5]
    assert marked[0].max_timestamp == NOW - 5
    # Later runs leave the horizon alone; and nothing is lost in between.
    for number, now in enumerate((NOW + DAY_MS - 1, NOW + DAY_MS)):
        assert tombstones(log) == [(2, b"gone", None)]
        assert {(0x40, NOW + DAY_MS)} == {
            (item.attributes & 0x40, item.base_timestamp) for item in log.headers() if item.last_offset == 3
        }
        for first in (120, 160):
            add(log, batch(*values(first + 80 * number, 40), codec=codec))
        dirty = compact(log, dirty, now).first_dirty_offset
    assert tombstones(log) == []
    assert last_values(log)[b"kept"] == b"y"
    assert last_values(log)[b"other"] == b"z"
    log.close()


def test_tombstones_of_old_formats_go_by_the_age_of_their_files(tmp_path: Path) -> None:
    log = log_with_a_tombstone(tmp_path / "t-0", magic=1)
    dirty = compact(log, 0, NOW).first_dirty_offset
    assert tombstones(log) == [(2, b"gone", None)]
    # The segment with the tombstone was last written long before the last clean segment.
    for segment, age_ms in zip(log.segments[:-1], (3 * DAY_MS, 0), strict=False):
        os.utime(segment.file.path, ns=((NOW - age_ms) * 1_000_000,) * 2)
    for first in (120, 160):
        add(log, batch(*values(first, 40), magic=1))
    compact(log, dirty, NOW)
    assert tombstones(log) == []
    assert last_values(log)[b"kept"] == b"y"
    log.close()


def test_long_keys_are_told_apart(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", COMPACTED)
    keys = [b"x" * size for size in (0, 1, 15, 16, 17, 18, 500)]
    for number in range(4):
        for key in keys:
            add(log, batch((key, b"%d" % number * 40)))
    compact(log, 0, NOW)
    assert last_values(log) == dict.fromkeys(keys, b"3" * 40)
    clean = [row[1] for row in rows_of(log) if row[0] < log.active.base_offset]
    assert len(set(clean)) == len(clean)
    log.close()


def test_times_of_a_batch_are_those_of_what_is_left(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", COMPACTED)
    rows = [Message(b"x" * 20, b"key-%d" % n, NOW + 1000 - n) for n in range(9)]
    add(log, bytes(MessageSet.of(rows).data))
    for number in range(3):
        add(log, batch((b"key-0", b"new"), *values(number * 40, 40)))
    compact(log, 0, NOW)
    assert next(log.headers()).max_timestamp == NOW + 999
    assert largest_timestamp(log) == (NOW + 999, 1, 0)
    assert offset_for_timestamp(log, NOW + 1000) is None
    log.close()


def test_the_last_batch_of_a_producer_stays_for_its_sequence(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", COMPACTED)
    add(log, batch((b"a", b"1"), producer_id=9, producer_epoch=0, base_sequence=0))
    add(log, batch((b"a", b"2"), producer_id=9, producer_epoch=0, base_sequence=1))
    add(log, batch((b"a", b"3")))
    add(log, batch(*values(0, 40)))
    add(log, batch(*values(40, 40)))
    compact(log, 0, NOW)
    headers = [header for header in log.headers() if header.producer_id == 9]
    assert [(item.base_sequence, item.record_count, item.last_offset) for item in headers] == [(1, 0, 1)]
    log.close()


def test_the_last_batch_of_a_producer_that_is_gone_goes(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", COMPACTED)
    add(log, batch((b"a", b"1"), producer_id=9, producer_epoch=0, base_sequence=0))
    for first in (0, 40, 80):
        add(log, batch((b"a", b"2"), *values(first, 40), timestamp=NOW + 5000))
    compact(log, 0, NOW + 5000, producer_expiry_ms=4000)
    assert not [header for header in log.headers() if header.producer_id == 9]
    log.close()


def test_young_segments_are_left_alone(tmp_path: Path, random: Random) -> None:
    log = filled(tmp_path / "t-0", random)
    log.configure(LogConfig(cleanup_policy=frozenset({"compact"}), min_compaction_lag_ms=1000))
    assert cleanable_segments(log, 0, NOW) == []
    assert len(cleanable_segments(log, 0, NOW + 10_000)) == len(log.segments) - 1
    # What is clean already is never too young.
    assert len(cleanable_segments(log, log.segments[3].base_offset, NOW)) == 3
    log.close()


def test_a_log_is_due_by_its_dirty_part_or_by_the_age_of_it(tmp_path: Path, random: Random) -> None:
    log = filled(tmp_path / "t-0", random)
    assert is_due(log, 0, NOW)
    assert is_due(log, log.high_watermark + 1, NOW)  # no checkpoint of this log
    half = log.segments[len(log.segments) * 3 // 4].base_offset
    assert 0 < dirty_ratio(log, half, NOW) < 0.5
    assert not is_due(log, half, NOW)
    log.configure(replace(COMPACTED, max_compaction_lag_ms=1000))
    assert not is_due(log, half, NOW)
    assert is_due(log, half, NOW + 2000)
    assert not is_due(log, log.active.base_offset, NOW + 2000)
    log.close()


@pytest.mark.parametrize("magic", [1, 2])
def test_killed_after_any_change_nothing_is_lost_and_nothing_comes_back(
    tmp_path: Path, random: Random, magic: int
) -> None:
    """The second compaction drops tombstones, so that a wrong order would bring deleted values back."""
    state = random.getstate()

    def prepared(path: Path, files: FileSystem) -> tuple[PartitionLog, int]:
        random.setstate(state)
        log = filled(path, random, magic, batches=30)
        dirty = compact(log, 0, NOW - 2 * DAY_MS).first_dirty_offset
        for place, segment in enumerate(log.segments[:-1]):
            os.utime(segment.file.path, ns=((NOW - (20 - place) * DAY_MS) * 1_000_000,) * 2)
        for _ in range(4):
            add(log, batch(*[(b"key-%d" % n, random.randbytes(30)) for n in range(10, 20)], magic=magic))
        log.close()
        return open_log(path, COMPACTED, files, clean=True), dirty

    wanted = None
    changes = 0
    while True:
        path = tmp_path / f"t-{changes}"
        files = DyingFiles(1 << 60)
        log, dirty = prepared(path, files)
        wanted = {key: value for key, value in last_values(log).items() if value is not None}
        end = log.high_watermark
        files.changes_left = changes
        try:
            compact(log, dirty, NOW)
            log.purge()
        except Killed:
            pass
        log.abandon()
        # Recovery is killed too, after a number of changes of its own.
        for more in range(changes % 5):
            try:
                open_log(path, COMPACTED, DyingFiles(more)).abandon()
            except Killed:
                continue
        recovered = open_log(path, COMPACTED, QuickFiles())
        found = {key: value for key, value in last_values(recovered).items() if value is not None}
        assert found == wanted, f"killed after {changes} changes"
        assert recovered.high_watermark == end
        assert not any(name.endswith((".swap", ".cleaned", ".deleted")) for name in names(path))
        recovered.close()
        if not files.is_dead:
            break
        changes += 1
    assert changes > 20
