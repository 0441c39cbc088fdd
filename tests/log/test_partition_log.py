"""The log of one partition: append, read, roll, cut, delete; over real files."""

from __future__ import annotations

import random
import struct
from dataclasses import replace
from pathlib import Path

import pytest

from ottla.log.log_config import LogConfig, MessageTimestampType
from ottla.log.reading import FirstBatch
from ottla.log.validation import checked
from ottla.model.errors import KafkaError
from ottla.records.compression import Codec
from ottla.records.reader import decode
from tests.log.record_sets import NOW, add, batch, joined, names, open_log, rows_of, values


def test_staged_appends_have_offsets_at_once_and_are_read_after_one_write(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0")
    for number in range(3):
        appended = log.append(checked(batch(*values(number * 2, 2)), log.config, NOW), NOW)
        assert (appended.base_offset, appended.last_offset) == (number * 2, number * 2 + 1)
    assert (log.high_watermark, log.next_offset, log.size) == (0, 6, 0)
    assert log.read(0, 1000) == b""
    assert log.write_staged() == 6
    assert rows_of(log) == [(n, *values(n, 1)[0]) for n in range(6)]
    log.close()


def test_batches_are_stored_as_received_but_for_offset_and_epoch(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0")
    add(log, batch(*values(0, 5)))
    sent = batch(*values(5, 3), codec=Codec.LZ4, producer_id=7, producer_epoch=1, base_sequence=0)
    add(log, bytes(sent), epoch=4)
    stored = log.read(5, 1 << 20)
    assert stored[:8] == struct.pack(">q", 5)
    assert stored[12:16] == struct.pack(">i", 4)
    assert stored[16:] == sent[16:]
    header = list(log.headers())[-1]
    assert (header.producer_id, header.producer_epoch, header.base_sequence, header.last_offset) == (
        7,
        1,
        0,
        7,
    )
    assert log.epochs.entries == [(0, 0), (4, 5)]
    assert log.epochs.end_of_epoch(0, 4, log.high_watermark) == (0, 5)
    assert log.epochs.end_of_epoch(4, 4, log.high_watermark) == (4, 8)
    log.close()


@pytest.mark.parametrize("magic", [1, 2])
def test_append_time_is_patched_and_the_checksum_made_anew(tmp_path: Path, magic: int) -> None:
    log = open_log(tmp_path / "t-0", LogConfig(message_timestamp_type=MessageTimestampType.LOG_APPEND_TIME))
    for codec in (Codec.NONE, Codec.GZIP):
        add(log, batch(*values(0, 3), magic=magic, codec=codec, timestamp=5), now=NOW)
    decoded = decode(log.read(0, 1 << 20))
    assert decoded.damage is None
    assert set(decoded.batch.column("timestamp").cast("int64").to_pylist()) == {NOW}
    assert set(decoded.batch.column("timestamp_type").to_pylist()) == {1}
    log.close()


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize(
    "codec", [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4], ids=lambda codec: codec.label
)
def test_old_formats_get_their_offsets(tmp_path: Path, magic: int, codec: Codec) -> None:
    log = open_log(tmp_path / "t-0")
    add(log, batch(*values(0, 4)))
    assert add(log, batch(*values(4, 3), magic=magic, codec=codec)) == 4
    # Inner offsets that a producer left at something else.
    assert add(log, batch(*values(7, 3), magic=magic, codec=codec, base_offset=90)) == 7
    assert rows_of(log) == [(n, *values(n, 1)[0]) for n in range(10)]
    assert [row[0] for row in rows_of(log, 8)] == [8, 9]
    log.close()


def test_wrapper_of_format_1_whose_inner_offsets_do_not_count_from_0_is_made_anew(tmp_path: Path) -> None:
    from ottla.log import legacy_sets
    from ottla.log.batch_header import header_at

    sent = batch(*values(0, 4), magic=1, codec=Codec.GZIP)
    header = header_at(sent, 0, 0)
    assert header is not None
    inner = legacy_sets.unwrapped(memoryview(sent), header)
    legacy_sets.renumber(inner, 17)
    log = open_log(tmp_path / "t-0")
    add(log, batch(*values(0, 2)))
    add(log, legacy_sets.rewrapped(inner, header, 20, NOW))
    assert [row[0] for row in rows_of(log)] == [0, 1, 2, 3, 4, 5]
    log.close()


def test_a_fetch_gets_its_first_batch_whole_or_cut(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0")
    sizes = []
    for number in range(3):
        sizes.append(len(batch(*values(number, 1, 500))))
        add(log, batch(*values(number, 1, 500)))
    assert len(log.read(0, 100)) == sizes[0]
    assert len(log.read(0, 100, FirstBatch.CUT)) == 100
    assert log.read(0, 0, FirstBatch.CUT) == b""
    assert len(log.read(1, sizes[1] + 10)) == sizes[1] + 10
    for offset in (-1, 4):
        with pytest.raises(KafkaError, match=f"offset {offset} is not within 0 to 3") as error:
            log.read(offset, 100)
        assert error.value.code == 1
    log.close()


def test_segments_roll_by_size_and_every_offset_is_found_in_them(
    tmp_path: Path, random: random.Random
) -> None:
    config = LogConfig(segment_bytes=20_000, index_interval_bytes=500)
    log = open_log(tmp_path / "t-0", config)
    expected = []
    while log.next_offset < 3000:
        for _ in range(random.randrange(1, 6)):
            rows = values(log.next_offset, random.randrange(1, 30), random.randrange(10, 200))
            expected += [(log.next_offset + n, *row) for n, row in enumerate(rows)]
            log.append(checked(batch(*rows), config, NOW), NOW)
        log.write_staged()
    assert len(log.segments) > 5
    assert all(segment.size <= 20_000 for segment in log.segments)
    assert rows_of(log) == expected
    for offset in random.sample(range(log.high_watermark), 100):
        assert rows_of(log, offset)[0] == expected[offset]
    assert sum(segment.offset_index.count for segment in log.segments) > 2 * len(log.segments)
    log.close()
    again = open_log(tmp_path / "t-0", config, clean=True, recovery_point=log.high_watermark)
    assert again.report.segments_verified == []
    assert rows_of(again) == expected
    again.close()


def test_segments_roll_by_record_time_on_append_only(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", LogConfig(segment_ms=1000))
    add(log, batch(*values(0, 1), timestamp=NOW))
    add(log, batch(*values(1, 1), timestamp=NOW + 1000))
    assert len(log.segments) == 1
    add(log, batch(*values(2, 1), timestamp=NOW + 1001))
    assert [segment.base_offset for segment in log.segments] == [0, 2]
    # A record without a time is no older than others.
    add(log, batch(*values(3, 1), magic=0), now=NOW + 9000)
    assert len(log.segments) == 2
    log.close()


def test_segments_without_times_roll_by_the_clock(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", LogConfig(segment_ms=1000))
    add(log, batch(*values(0, 1), magic=0), now=NOW + 1)
    add(log, batch(*values(1, 1), timestamp=NOW + 9000), now=NOW + 1000)
    assert len(log.segments) == 1
    add(log, batch(*values(2, 1), magic=0), now=NOW + 1001)
    assert [segment.base_offset for segment in log.segments] == [0, 2]
    log.close()


def test_compacted_topics_roll_in_time_for_their_compaction(tmp_path: Path) -> None:
    config = LogConfig(segment_ms=5000, max_compaction_lag_ms=1000)
    for policy, segments in (("delete", 1), ("compact", 2)):
        log = open_log(tmp_path / f"{policy}-0", replace(config, cleanup_policy=frozenset({policy})))
        for time in (NOW, NOW + 1001):
            add(log, batch((b"k", b"v"), timestamp=time))
        assert len(log.segments) == segments
        log.close()


def test_segments_roll_earlier_by_a_jitter_of_their_own(tmp_path: Path) -> None:
    """Partitions that began together do not all roll together; each does within the jitter."""
    ages = []
    for partition in range(8):
        log = open_log(tmp_path / f"t-{partition}", LogConfig(segment_ms=1000, segment_jitter_ms=400))
        age = 0
        while len(log.segments) == 1:
            add(log, batch((b"k", b"v"), timestamp=NOW + age))
            age += 20
        ages.append(age - 20)
        log.close()
    assert all(600 <= age <= 1020 for age in ages)
    assert len(set(ages)) > 3


def test_segments_roll_when_an_index_is_full(tmp_path: Path) -> None:
    config = LogConfig(segment_index_bytes=24 * 8, index_interval_bytes=0)
    log = open_log(tmp_path / "t-0", config)
    for turn in range(4):
        for number in range(30):
            data = batch(*values(0, 1), timestamp=NOW + turn * 30 + number)
            log.append(checked(data, config, NOW), NOW)
        log.write_staged()
    assert len(log.segments) > 3
    assert all(
        segment.offset_index.count <= 24 and segment.time_index.count <= 16 for segment in log.segments
    )
    assert len(rows_of(log)) == 120
    log.close()


def test_record_set_above_the_segment_size_is_refused(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", LogConfig(segment_bytes=300))
    sets = joined(batch(*values(n, 1)) for n in range(5))
    with pytest.raises(KafkaError) as error:
        log.append(checked(sets, log.config, NOW), NOW)
    assert error.value.code == 18
    assert log.next_offset == 0
    log.close()


def test_delete_records_moves_the_start_and_drops_whole_segments(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", LogConfig(segment_bytes=400))
    for number in range(12):
        add(log, batch(*values(number, 1, 100)))
    assert log.delete_records(5) == 5
    assert log.segments[0].base_offset <= 5
    assert rows_of(log)[0][0] == 5
    with pytest.raises(KafkaError):
        log.read(4, 100)
    assert any(name.endswith(".log.deleted") for name in names(log.path))
    log.purge()
    assert not any(name.endswith(".deleted") for name in names(log.path))
    with pytest.raises(KafkaError):
        log.delete_records(13)
    assert log.delete_records(-1) == 12
    assert rows_of(log) == []
    assert add(log, batch(*values(12, 1))) == 12
    log.close()
    again = open_log(tmp_path / "t-0", log.config, start_offset=12)
    assert [row[0] for row in rows_of(again)] == [12]
    again.close()


def test_truncate_cuts_whole_batches_and_the_log_goes_on(tmp_path: Path) -> None:
    log = open_log(tmp_path / "t-0", LogConfig(segment_bytes=600, index_interval_bytes=0))
    for number in range(10):
        add(log, batch(*values(number * 3, 3, 30), timestamp=NOW + number), epoch=number // 4)
    log.truncate(16)
    assert log.high_watermark == 15
    assert log.epochs.entries == [(0, 0), (1, 12)]
    assert log.active.max_timestamp == NOW + 4
    assert add(log, batch(*values(15, 2))) == 15
    assert [row[0] for row in rows_of(log)] == list(range(17))
    log.truncate(0)
    assert (log.high_watermark, rows_of(log)) == (0, [])
    assert add(log, batch(*values(0, 2))) == 0
    log.close()
