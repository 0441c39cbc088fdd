"""Random histories of a log against a list: appends, cuts, deletions, full disks, clean stops and crashes."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from ottla.log.compaction import CompactionTicket, begin, finish
from ottla.log.file_system import Buffer
from ottla.log.log_config import LogConfig
from ottla.log.partition_log import PartitionLog
from ottla.log.reading import ColdRead
from ottla.log.validation import checked
from ottla.model.errors import DamagedLog, StorageError
from ottla.records.compression import Codec
from tests.log.faulty_files import FullDisk
from tests.log.record_sets import NOW, Row, add, batch, open_log, rows_of

CODECS = [Codec.NONE, Codec.NONE, Codec.GZIP, Codec.LZ4]


class Walk:
    """A log and what it must hold. `batch_ends`: where batches end, since cuts are of whole batches."""

    def __init__(self, path: Path, random: Random) -> None:
        self.random = random
        self.path = path
        self.disk = FullDisk()
        self.config = LogConfig(segment_bytes=2500, index_interval_bytes=random.choice([0, 200, 1000]))
        self.log: PartitionLog = open_log(path, self.config, self.disk)
        self.rows: list[tuple[int, bytes | None, bytes | None]] = []
        self.batch_ends = [0]
        self.start = self.recovery_point = self.dirty = 0
        self.under_way: tuple[PartitionLog, CompactionTicket] | None = None

    def stage(self) -> list[Row]:
        count, random = random_count(self.random), self.random
        rows: list[Row] = [
            (b"k%d" % random.randrange(30), random.randbytes(random.randrange(90))) for _ in range(count)
        ]
        data = batch(*rows, magic=random.choice([0, 1, 2, 2, 2]), codec=random.choice(CODECS))
        # Uncompressed messages of the old formats are batches of one.
        base = self.log.next_offset
        found = checked(data, self.config, NOW)
        self.log.append(found, NOW)
        for item in found.batches:
            base += item.record_count
            self.ends.append(base)
        return rows

    def append(self) -> None:
        base, rows = self.log.next_offset, []
        self.ends: list[int] = []
        for _ in range(self.random.randrange(1, 5)):
            rows += self.stage()
        if self.random.random() < 0.2:
            self.disk.room = self.random.randrange(400)
        elif self.random.random() < 0.2:
            self.disk.opens = self.random.randrange(4)
        try:
            self.log.write_staged()
            self.rows += [(base + n, *row) for n, row in enumerate(rows)]
            self.batch_ends += self.ends
        except StorageError:
            assert self.log.next_offset == base
        self.disk.room = self.disk.opens = 1 << 60

    def truncate(self) -> None:
        offset = self.random.randrange(self.log.start_offset, self.log.high_watermark + 1)
        keep = max((end for end in self.batch_ends if end <= offset), default=0)
        self.log.truncate(offset)
        assert self.log.high_watermark >= max(keep, self.log.start_offset)
        self.rows = [row for row in self.rows if row[0] < self.log.high_watermark]
        self.batch_ends = [end for end in self.batch_ends if end <= self.log.high_watermark]
        self.dirty = min(self.dirty, self.log.high_watermark)

    def delete(self) -> None:
        self.start = self.log.delete_records(
            self.random.randrange(self.log.start_offset, self.log.high_watermark + 1)
        )
        if self.random.random() < 0.5:
            self.log.purge()

    def flush(self) -> None:
        self.disk.opens = self.random.choice([0, 1, 2, 3, 4, 1 << 60, 1 << 60])
        with suppress(StorageError):
            self.log.flush()
        self.disk.opens = 1 << 60
        assert self.log.failure is None
        self.recovery_point = self.log.recovery_point

    def compact(self) -> None:
        """Begin, or finish what was begun, perhaps of a log that was closed or cut meanwhile."""
        if self.under_way is None:
            ticket = begin(self.log, self.dirty, NOW)
            self.under_way = self.log, ticket
            if self.random.random() < 0.5:
                ticket.run()
            return
        (log, ticket), self.under_way = self.under_way, None
        before = {key: value for _, key, value in rows_of(self.log)}
        if not ticket.done:
            with suppress(DamagedLog):  # of a file that was cut
                ticket.run()
        result = finish(log, ticket)
        if log is self.log:
            self.dirty = result.first_dirty_offset
        self.rows = rows_of(self.log)
        assert {key: value for _, key, value in self.rows} == before
        self.batch_ends = [header.last_offset + 1 for header in self.log.headers()]

    def reopen(self) -> None:
        clean = self.random.random() < 0.5
        if clean:
            self.log.close()
            self.recovery_point = self.log.recovery_point
        else:
            self.log.abandon()
        point = min(self.recovery_point, self.log.recovery_point)
        place = {"recovery_point": point, "start_offset": self.start, "clean": clean}
        self.log = open_log(self.path, self.config, self.disk, **place)
        assert self.log.report.bytes_cut == 0

    def check(self) -> None:
        visible = [row for row in self.rows if row[0] >= self.log.start_offset]
        assert rows_of(self.log) == visible
        if visible:
            offset = self.random.choice(visible)[0]
            assert rows_of(self.log, offset) == [row for row in visible if row[0] >= offset]
            size = self.random.choice([0, 100, 1 << 20])
            assert warm(self.log.read_cached(offset, size)) == self.log.read(offset, size)
        files = [path for segment in self.log.segments if (path := segment.path_of(".log")).exists()]
        assert self.log.size == sum(path.stat().st_size for path in files)
        assert len(files) == len(self.log.segments) or not self.log.high_watermark


def warm(data: Buffer | ColdRead) -> bytes:
    return data.read() if isinstance(data, ColdRead) else bytes(data)


def random_count(random: Random) -> int:
    return random.choice([1, 1, 2, 5, 12])


@pytest.mark.parametrize("history", range(6))
def test_random_histories(tmp_path: Path, random: Random, history: int) -> None:
    walk = Walk(tmp_path / "t-0", random)
    steps = [walk.append] * 8 + [walk.truncate, walk.delete, walk.flush, walk.reopen, walk.reopen]
    if history % 2:
        steps += [walk.compact] * 2
    for _ in range(120):
        random.choice(steps)()
        walk.check()
    if walk.under_way is not None:
        walk.compact()
    end = walk.log.high_watermark
    assert add(walk.log, batch((b"last", b"one"))) == end
    walk.log.close()
