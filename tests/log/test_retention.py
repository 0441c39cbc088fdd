"""Old segments go by time, by size and below the log's start; a quiet partition keeps old messages."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ottla.log.log_config import DAY_MS, LogConfig
from ottla.log.retention import SegmentFacts, apply_retention, expired_count
from tests.log.record_sets import NOW, add, batch, open_log, rows_of, values

DAY = DAY_MS


def facts(*rows: tuple[int, int]) -> list[SegmentFacts]:
    """Segments of (size, newest timestamp), ten offsets each."""
    return [SegmentFacts(size, (n + 1) * 10, NOW - age) for n, (size, age) in enumerate(rows)]


@pytest.mark.parametrize(
    ("settings", "segments", "start", "expired"),
    [
        ({}, facts((100, 8 * DAY), (100, 7 * DAY), (100, 0)), 0, 1),
        ({"retention_ms": -1}, facts((100, 999 * DAY), (100, 0)), 0, 0),
        ({}, facts((100, 6 * DAY), (100, 8 * DAY), (100, 0)), 0, 0),  # stops at the first that must stay
        ({}, facts((100, 8 * DAY), (100, 8 * DAY)), 0, 2),  # the active one too
        ({}, facts((100, 8 * DAY), (0, 8 * DAY)), 0, 1),  # but not if it is empty
        ({"retention_bytes": 250}, facts((100, 0), (100, 0), (100, 0), (100, 0)), 0, 1),  # never below 250
        ({"retention_bytes": 0}, facts((100, 0), (100, 0)), 0, 2),
        ({"cleanup_policy": frozenset({"compact"})}, facts((100, 99 * DAY), (100, 0)), 0, 0),
        ({"cleanup_policy": frozenset({"compact", "delete"})}, facts((100, 99 * DAY), (100, 0)), 0, 1),
        ({"cleanup_policy": frozenset({"compact"})}, facts((100, 0), (100, 0), (100, 0)), 15, 1),
        ({}, facts((100, 0), (100, 0), (100, 0)), 30, 2),  # below the start, but never the active one
    ],
)
def test_choice(settings: dict[str, object], segments: list[SegmentFacts], start: int, expired: int) -> None:
    assert expired_count(segments, LogConfig(**settings), start, NOW) == expired  # type: ignore[arg-type]


def test_expired_segments_go_and_the_log_goes_on(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", LogConfig(segment_bytes=400, retention_ms=DAY))
    for number in range(10):
        add(log, batch(*values(number, 1, 100), timestamp=NOW + number * DAY // 4))
    dropped = apply_retention(log, NOW + 9 * DAY // 4)
    assert dropped == 2
    assert log.start_offset == log.segments[0].base_offset == 4
    assert [row[0] for row in rows_of(log)] == list(range(4, 10))
    assert apply_retention(log, NOW + 100 * DAY) == len({4, 6, 8})
    assert (log.start_offset, log.high_watermark, rows_of(log)) == (10, 10, [])
    assert add(log, batch(*values(10, 1), timestamp=NOW + 100 * DAY)) == 10
    log.close()
    again = open_log(tmp_path / "t-0", log.config)
    assert (again.start_offset, again.high_watermark) == (10, 11)
    again.close()


def test_a_quiet_partition_keeps_old_messages(tmp_path: Path) -> None:
    """Kafka's documented behaviour: a segment lives as long as its newest record; only an append rolls it."""
    log = open_log(tmp_path / "t-0", LogConfig(retention_ms=DAY))  # segment.ms is 7 days
    add(log, batch((b"old", b"x"), timestamp=NOW))
    for day in range(1, 8):
        add(log, batch((b"later", b"y"), timestamp=NOW + day * DAY), now=NOW + day * DAY)
        assert apply_retention(log, NOW + day * DAY) == 0
    assert rows_of(log)[0][1] == b"old"  # a week old, with a retention of a day
    # The next append finds that the segment is old, and rolls; a day later all of it may go.
    add(log, batch((b"new", b"z"), timestamp=NOW + 7 * DAY + 1), now=NOW + 7 * DAY + 1)
    assert len(log.segments) == 2
    assert apply_retention(log, NOW + 8 * DAY) == 0
    assert apply_retention(log, NOW + 8 * DAY + 1) == 1
    assert [row[1] for row in rows_of(log)] == [b"new"]
    # Without any traffic the active segment goes too.
    assert apply_retention(log, NOW + 9 * DAY) == 1
    assert rows_of(log) == []
    log.close()


def test_records_without_a_time_are_as_old_as_their_file(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", LogConfig(retention_ms=DAY))
    add(log, batch(*values(0, 2), magic=0))
    os.utime(log.active.file.path, ns=(NOW * 1_000_000,) * 2)
    assert apply_retention(log, NOW + DAY) == 0
    assert apply_retention(log, NOW + DAY + 1) == 1
    log.close()
