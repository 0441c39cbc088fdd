"""Compaction of logs with transactions: aborted records and spent markers go, readers see no difference."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from ottla.log.compaction import compact
from ottla.log.log_config import DAY_MS
from ottla.model.record_layout import DELETE_HORIZON
from tests.log.record_sets import NOW, rows_of
from tests.log.transactional_log import SMALL, TransactionalLog
from tests.scale import sized

COMPACTED = replace(SMALL, cleanup_policy=frozenset({"compact"}), delete_retention_ms=DAY_MS)


class CompactedLog(TransactionalLog):
    """With what cleaning knows of it."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, COMPACTED)
        self.dirty = 0
        self.now = NOW

    def compact(self) -> None:
        how = {"producer_expiry_ms": -1, "stable_offset": self.stable}
        self.dirty = compact(self.log, self.dirty, self.now, **how).first_dirty_offset
        self.log.purge()

    def fill(self) -> None:
        """Some segments of other keys, so that what is before them can be compacted."""
        for number in range(40):
            self.stage(b"x" * 60, key=b"other-%d" % (number % 3))
        self.write()

    def markers(self) -> list[tuple[int, bool]]:
        """(offset, whether it has a horizon) of all that are not empty."""
        return [
            (header.base_offset, bool(header.attributes & DELETE_HORIZON))
            for header, marker in self.log.history()
            if marker is not None
        ]

    def last_values(self) -> dict[bytes, bytes | None]:
        return {key: value for _, key, value in self.committed_rows(0)}


def test_aborted_records_go_and_hide_no_committed_ones(tmp_path: Path) -> None:
    one = CompactedLog(tmp_path / "t-0")
    one.stage(b"old", key=b"k")
    one.stage(b"aborted", 7, key=b"k")
    one.stage(b"aborted", 7, key=b"only")
    one.end(7, is_commit=False)
    one.write()
    one.fill()
    one.compact()
    values = one.last_values()
    assert (values[b"k"], b"only" in values) == (b"old", False)
    assert b"aborted" not in {value for _, _, value in rows_of(one.log)}


def test_a_marker_goes_when_its_horizon_is_over(tmp_path: Path) -> None:
    one = CompactedLog(tmp_path / "t-0")
    for producer, is_commit in ((7, True), (8, False)):
        one.stage(b"v", producer, key=b"k")
        one.end(producer, is_commit=is_commit)
        one.write()
    one.stage(b"new", key=b"k")
    one.fill()
    assert one.log.has_aborts
    one.compact()
    assert one.markers() == [(1, False), (3, False)], "their records were there when they were read"
    one.fill()
    one.compact()
    assert one.markers() == [(1, True), (3, True)]
    assert [segment.aborted.count for segment in one.log.segments] == [0] * len(one.log.segments)
    one.now += DAY_MS - 1
    one.fill()
    one.compact()
    assert one.markers() == [(1, True), (3, True)]
    one.now += 1
    one.fill()
    one.compact()
    assert one.markers() == []
    one.reopen(is_clean=False)
    assert one.last_values()[b"k"] == b"new"


def test_nothing_at_or_after_an_open_transaction_is_compacted(tmp_path: Path) -> None:
    one = CompactedLog(tmp_path / "t-0")
    one.fill()
    one.stage(b"open", 7, key=b"k")
    one.fill()
    one.fill()
    count = len(one.log.segments)
    one.compact()
    assert one.dirty <= one.stable
    assert len(one.log.segments) > count // 2
    one.end(7, is_commit=True)
    one.fill()
    one.compact()
    assert one.dirty > one.stable // 2
    assert one.last_values()[b"k"] == b"open"


def test_the_last_batch_of_a_producer_keeps_its_sequence_and_a_marker_its_epoch(tmp_path: Path) -> None:
    one = CompactedLog(tmp_path / "t-0")
    one.stage(b"v", 7, key=b"k")
    one.stage(b"w", 7, key=b"k")
    one.end(7, is_commit=False)
    one.stage(b"v", 8, key=b"k")
    one.end(8, is_commit=True, epochs=1)
    one.stage(b"new", key=b"k")
    one.fill()
    for _ in range(4):
        compact(one.log, 0, one.now, producer_expiry_ms=9 * DAY_MS, stable_offset=one.stable)
        one.now += DAY_MS
    one.reopen(is_clean=False)
    seven, eight = one.states.get(7), one.states.get(8)
    assert seven is not None
    assert (seven.epoch, seven.last_sequence, seven.transaction_offset) == (0, 1, -1)
    assert eight is not None
    assert (eight.epoch, eight.last_sequence, eight.transaction_offset) == (1, -1, -1)


Written = tuple[int, bytes, bytes]
"""Offset, key and value."""


class Walk:
    """Random transactions over a few keys, with compactions, days that pass, failed writes and restarts."""

    def __init__(self, path: Path, random: Random) -> None:
        self.random = random
        self.one = CompactedLog(path)
        self.open: dict[int, list[Written]] = {}
        self.committed: list[Written] = []

    def write(self) -> None:
        for _ in range(self.random.randrange(1, 8)):
            key, value = b"k%d" % self.random.randrange(6), self.random.randbytes(20)
            producer = self.random.randrange(5)
            if producer == 4:
                self.committed.append((self.one.stage(value, key=key), key, value))
            elif producer in self.open and self.random.random() < 0.4:
                is_commit = self.random.random() < 0.5
                self.one.end(producer, is_commit=is_commit, epochs=self.random.randrange(2))
                written = self.open.pop(producer)
                self.committed += written if is_commit else []
            else:
                offset = self.one.stage(value, producer, key=key)
                self.open.setdefault(producer, []).append((offset, key, value))
        assert self.one.write()

    def compact(self) -> None:
        self.one.compact()

    def wait(self) -> None:
        self.one.now += DAY_MS // 2

    def reopen(self) -> None:
        self.one.reopen(is_clean=self.random.random() < 0.5)

    def flush(self) -> None:
        self.one.log.flush()

    def finish(self) -> None:
        for producer in list(self.open):
            self.committed += self.open.pop(producer)
            self.one.end(producer, is_commit=True)
        self.one.write()

    def check(self) -> None:
        stable = self.one.stable
        found = self.one.committed_rows(0, self.random.choice([1, 500, 1 << 20]))
        last = {key: (offset, value) for offset, key, value in found if not key.startswith(b"other")}
        decided = sorted(item for item in self.committed if item[0] < stable)
        assert last == {key: (offset, value) for offset, key, value in decided}


@pytest.mark.parametrize("history", range(sized(4, 40)))
def test_random_transactions_are_the_same_for_readers(tmp_path: Path, random: Random, history: int) -> None:
    walk = Walk(tmp_path / "t-0", random)
    steps = [walk.write] * 6 + [walk.compact, walk.compact, walk.wait, walk.reopen, walk.flush, walk.finish]
    for _ in range(sized(80, 250)):
        random.choice(steps)()
        walk.check()
    walk.finish()
    for _ in range(4):
        walk.one.fill()
        walk.one.compact()
        walk.wait()
        walk.wait()
    walk.check()
    needed = {offset for offset, key, _ in rows_of(walk.one.log) if key and not key.startswith(b"other")}
    kept = [offset for offset, has_horizon in walk.one.markers() if not has_horizon]
    assert len(kept) <= len(needed), "markers of what is gone will go"
