"""Offsets of one side as offsets of the other."""

from __future__ import annotations

import random

import numpy as np
import pytest

from ottla.mirror.offset_runs import (
    RUNS_IN_NOTE,
    OffsetRun,
    in_force,
    joined,
    notes,
    runs_in,
    runs_of,
    translated,
)
from ottla.model.errors import RemoteProtocolError


def test_runs_break_where_either_side_does() -> None:
    source = np.array([0, 1, 2, 5, 6, 7], np.int64)
    target = np.array([10, 11, 12, 13, 20, 21], np.int64)
    assert runs_of(source, target) == [OffsetRun(0, 10, 3), OffsetRun(5, 13, 1), OffsetRun(6, 20, 2)]
    assert runs_of(source[:0], target[:0]) == []


def test_neighbours_are_joined() -> None:
    assert joined([OffsetRun(0, 5, 2), OffsetRun(2, 7, 3), OffsetRun(5, 11, 1)]) == [
        OffsetRun(0, 5, 5),
        OffsetRun(5, 11, 1),
    ]


def test_a_gap_leads_to_the_next_record_and_the_end_to_the_end() -> None:
    runs = in_force([OffsetRun(2, 100, 3), OffsetRun(8, 103, 2), OffsetRun(12, 105, 0)])
    assert [translated(runs, offset) for offset in (0, 2, 4, 5, 8, 9, 10, 12)] == [
        *(100, 100, 102, 103, 103, 104, 105, 105)
    ]
    assert translated(runs, 13) is None
    assert translated([], 0) is None


def test_what_was_mirrored_again_is_found_where_it_is_last() -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")  # noqa: T201  (of a failing test)
    chance = random.Random(seed)
    for _ in range(200):
        source, target = 0, 0
        position: dict[int, int] = {}
        noted: list[OffsetRun] = []
        for _ in range(20):
            if (
                chance.random() < 0.3
            ):  # it died, and begins at an earlier commit; some records were sent unnoted
                source = chance.randint(0, source)
                target += chance.randrange(5)
                position = {offset: at for offset, at in position.items() if offset < source}
            count = chance.randrange(1, 6)
            position |= {source + number: target + number for number in range(count)}
            noted.append(OffsetRun(source, target, count))
            source, target = source + count, target + count
            noted.append(OffsetRun(source, target, 0))
        runs = in_force(noted)
        assert [translated(runs, offset) for offset in range(source)] == [position[n] for n in range(source)]
        assert translated(runs, source) == target


def test_notes_are_read_as_they_were_written() -> None:
    runs = [OffsetRun(3 * number, 2 * number, 2) for number in range(RUNS_IN_NOTE + 5)]
    written = list(notes(runs, 10**6))
    assert len(written) == 2
    assert max(map(len, written)) < 900_000
    read = [run for note in written for run in runs_in(note)]
    assert read == [*runs, OffsetRun(10**6, 2 * len(runs), 0)]
    for wrong in (b"", b"[1]", b"[[1,2]]", b'{"a": 1}', b"\xff", b"[" * 5_000):
        with pytest.raises(RemoteProtocolError, match="not a note of offsets"):
            runs_in(wrong)
