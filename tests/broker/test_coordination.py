"""Gathering a partition of a coordinator's topic while its log goes on living."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from ottla.broker.coordination import topic_records
from ottla.broker.coordination.topic_records import TopicRecords
from ottla.log.compaction import begin, finish
from ottla.log.log_config import LogConfig
from ottla.log.partition_log import PartitionLog
from ottla.log.reading import ColdRead, FirstBatch, ReadLimits
from ottla.wire.primitives import Buffer
from tests.log.faulty_files import QuickFiles
from tests.log.record_sets import NOW, add, batch, open_log, rows_of

COMPACTED = LogConfig(cleanup_policy=frozenset({"compact"}), segment_bytes=2000, index_interval_bytes=200)


@pytest.fixture
def commits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PartitionLog]:
    monkeypatch.setattr(topic_records, "PIECE_BYTES", 1000)
    log = open_log(tmp_path / "offsets-0", COMPACTED, QuickFiles())
    chance = Random(7)
    for _ in range(200):
        rows = [(b"group-%d" % chance.randrange(10), chance.randbytes(20)) for _ in range(3)]
        add(log, batch(*rows, timestamp=NOW + log.next_offset))
    yield log
    log.close()


def compact(log: PartitionLog) -> None:
    ticket = begin(log, 0, NOW)
    ticket.run()
    result = finish(log, ticket)
    assert result.bytes_after < result.bytes_before


def gathered(log: PartitionLog, *, compacts_at: int = -1) -> dict[bytes | None, bytes | None]:
    records = TopicRecords(log.start_offset, log.high_watermark)
    count = 0
    while piece := records.piece(log):
        if count == compacts_at:
            compact(log)  # between the ticket and its use
        records.take(piece)
        count += 1
    assert count > 1
    found = records.in_order()
    assert [record.offset for record in found] == sorted({record.offset for record in found})
    return {record.key: record.value for record in found}


@pytest.mark.parametrize("is_cold", [False, True])
@pytest.mark.parametrize("compacts_at", [-1, 0, 5, 12])
def test_the_cleaner_takes_no_group_from_a_load(
    commits: PartitionLog, monkeypatch: pytest.MonkeyPatch, compacts_at: int, is_cold: bool
) -> None:
    if is_cold:

        def cold(log: PartitionLog, offset: int, max_bytes: int) -> Buffer | ColdRead:
            limits = ReadLimits(offset, max_bytes, FirstBatch.WHOLE)
            return ColdRead.of(log._segments.from_offset(offset), limits)

        monkeypatch.setattr(PartitionLog, "read_cached", cold)
    wanted = {key: value for _, key, value in rows_of(commits)}
    assert gathered(commits, compacts_at=compacts_at) == wanted


def test_a_log_that_begins_later_is_gathered_from_there(commits: PartitionLog) -> None:
    records = TopicRecords(0, commits.high_watermark)
    commits.delete_records(300)
    while piece := records.piece(commits):
        records.take(piece)
    assert min(record.offset for record in records.in_order()) == 300
