"""Offsets by time, against a plain search over all records."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random
from typing import Any

import pytest

from ottla.log.compaction import compact
from ottla.log.log_config import LogConfig
from ottla.log.time_lookup import EARLIEST, LATEST, largest_timestamp, offset_for_timestamp, offsets_before
from ottla.records.compression import Codec
from ottla.records.messages import Message, MessageSet
from tests.log.record_sets import NOW, add, batch, open_log, values


@pytest.mark.parametrize("magic", [1, 2])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP], ids=lambda codec: codec.label)
def test_first_record_at_or_after_a_time(tmp_path: Path, random: Random, magic: int, codec: Codec) -> None:
    config = LogConfig(segment_bytes=5000, index_interval_bytes=300)
    log = open_log(tmp_path / "t-0", config)
    times: list[int] = []
    for step in range(80):
        some = [NOW + step * 10 + random.randrange(-40, 40) for _ in range(random.randrange(1, 8))]
        times += some
        add(log, MessageSet.of([Message(b"v" * 20, b"k", t) for t in some], codec, magic=magic).data)
    start = log.delete_records(len(times) // 5)
    for reopened in (False, True):
        if reopened:
            log.close()
            log = open_log(tmp_path / "t-0", config, start_offset=start)
        for _ in range(150):
            wanted = NOW + random.randrange(-100, 900)
            expected = next(((t, n) for n, t in enumerate(times) if n >= start and t >= wanted), None)
            found = offset_for_timestamp(log, wanted)
            assert (None if found is None else found[:2]) == expected
        newest = max(times[start:])
        found = largest_timestamp(log)
        assert found is not None
        assert found[:2] == (newest, times.index(newest, start))
    log.close()


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP], ids=lambda codec: codec.label)
def test_times_are_found_across_the_gaps_of_a_compacted_log(
    tmp_path: Path, random: Random, codec: Codec
) -> None:
    config = LogConfig(segment_bytes=3000, index_interval_bytes=200, cleanup_policy=frozenset({"compact"}))
    log = open_log(tmp_path / "t-0", config)
    for step in range(150):
        rows = [
            Message(
                random.randbytes(20), b"k%d" % random.randrange(60), NOW + 10 * step + random.randrange(50)
            )
            for _ in range(3)
        ]
        add(log, MessageSet.of(rows, codec).data)
    compact(log, 0, NOW)
    start = log.delete_records(random.randrange(200))
    for is_reopened in (False, True):
        if is_reopened:
            log.close()
            log = open_log(tmp_path / "t-0", config, start_offset=start)
        times = [
            (row.message.timestamp_ms, row.offset)
            for segment in log.segments
            for row in MessageSet(segment.file.read(0, segment.size))
            if row.offset >= start
        ]
        assert len(times) < 300
        for _ in range(100):
            wanted = NOW + random.randrange(-100, 1700)
            found = offset_for_timestamp(log, wanted)
            expected = next((item for item in times if item[0] >= wanted), None)
            assert (None if found is None else found[:2]) == expected
    log.close()


def test_the_largest_time_of_what_is_left(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", LogConfig(segment_bytes=300, cleanup_policy=frozenset({"compact"})))
    producer: dict[str, Any] = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
    add(log, batch((b"a", b"x"), (b"b", b"x"), timestamp=NOW + 5))
    add(log, batch((b"c", b"x"), timestamp=NOW + 9, **producer))
    for key in (b"c", b"d", b"e", b"f"):
        add(log, batch((key, b"y" * 90), timestamp=NOW))
    compact(log, 0, NOW)
    assert [header.record_count for header in log.headers() if header.producer_id == 7] == [0]
    assert largest_timestamp(log) == (NOW + 5, 0, 0)
    log.delete_records(1)
    assert largest_timestamp(log) == (NOW + 5, 1, 0)
    log.delete_records(2)
    assert largest_timestamp(log) == (NOW, 3, 0)
    log.close()


def test_format_0_has_no_times_to_find(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0")
    assert largest_timestamp(log) is None
    add(log, batch(*values(0, 3), magic=0))
    assert offset_for_timestamp(log, 0) is None
    add(log, batch(*values(3, 3)), epoch=5)
    assert offset_for_timestamp(log, 0) == (NOW, 3, 5)
    log.close()


def test_offsets_before_a_time_are_bases_of_segments_by_the_age_of_their_files(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", LogConfig(segment_bytes=400))
    assert offsets_before(log, LATEST, 5, NOW) == [0]
    for number in range(6):
        add(log, batch(*values(number, 1, 100)))
    bases = [segment.base_offset for segment in log.segments]
    assert bases == [0, 2, 4]
    for place, segment in enumerate(log.segments):
        os.utime(segment.file.path, ns=((NOW + place) * 1_000_000,) * 2)
    assert offsets_before(log, LATEST, 10, NOW + 9) == [6, 4, 2, 0]
    assert offsets_before(log, LATEST, 1, NOW + 9) == [6]
    assert offsets_before(log, EARLIEST, 10, NOW + 9) == [0]
    assert offsets_before(log, NOW + 1, 10, NOW + 9) == [2, 0]
    assert offsets_before(log, NOW - 1, 10, NOW + 9) == []
    log.delete_records(1)
    assert offsets_before(log, EARLIEST, 1, NOW + 9) == [1]
    log.close()
