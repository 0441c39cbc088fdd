"""Which offset of the source is which offset of the target, as runs of records that lie side by side in both.

    source  0 1 2 3 · · 6 7          Run(0, 100, 4)  Run(6, 104, 2)
    target  100 … 103   104 105      offset 2 is 102; 4 and 5 are not there (compacted away): go on at 104

A mirror that dies sends again what it had not committed, so an offset may be in several runs. The one that
was noted last counts: behind it nothing comes twice. Pure.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ottla.model.errors import RemoteProtocolError

Offsets = npt.NDArray[np.int64]
RUNS_IN_NOTE = 10_000
"""Of 60 bytes at most: such a note fits into a record of any broker."""


class Run(NamedTuple):
    """So many records, from these offsets on; 0 of them tell where both logs go on."""

    source: int
    target: int
    records: int


def runs_of(source: Offsets, target: Offsets) -> list[Run]:
    """The runs of records whose offsets are given for both sides, ascending."""
    if not len(source):
        return []
    breaks = np.flatnonzero((np.diff(source) != 1) | (np.diff(target) != 1)) + 1
    starts = np.concatenate(([0], breaks))
    counts = np.diff(np.concatenate((starts, [len(source)])))
    return [
        Run(*numbers)
        for numbers in zip(source[starts].tolist(), target[starts].tolist(), counts.tolist(), strict=True)
    ]


def joined(runs: Iterable[Run]) -> list[Run]:
    """The same with neighbours as one."""
    found: list[Run] = []
    for run in runs:
        last = found[-1] if found else None
        if last is not None and run[:2] == (last.source + last.records, last.target + last.records):
            found[-1] = last._replace(records=last.records + run.records)
        else:
            found.append(run)
    return found


def notes(runs: Sequence[Run], next_source: int) -> Iterator[bytes]:
    """Runs as values of records, and at last where the source goes on."""
    end = runs[-1].target + runs[-1].records
    rest = iter((*runs, Run(next_source, end, 0)))
    while some := list(islice(rest, RUNS_IN_NOTE)):
        yield json.dumps(some, separators=(",", ":")).encode()


def runs_in(note: bytes) -> list[Run]:
    """The runs of a note. Raises RemoteProtocolError if it is none."""
    try:
        found = [Run(*map(int, numbers)) for numbers in json.loads(note)]
    except (ValueError, TypeError) as error:
        raise RemoteProtocolError(f"{note[:100]!r} is no note of offsets: {error}") from None
    return found


def in_force(noted: Iterable[Run]) -> list[Run]:
    """Of runs in the order in which they were noted, those that count, ascending.

    A mirror reads on in order. A run that begins before the end of earlier ones is of one that was started
    again: from there on it has mirrored everything anew.
    """
    kept: list[Run] = []
    for run in noted:
        while kept and kept[-1].source >= run.source:
            kept.pop()
        if kept and kept[-1].source + kept[-1].records > run.source:
            kept[-1] = kept[-1]._replace(records=run.source - kept[-1].source)
        kept.append(run)
    return kept


def translated(runs: Sequence[Run], offset: int) -> int | None:
    """Where a reader that comes to this offset of the source goes on; None if that is not mirrored yet.

    `runs` are those in force. An offset without a record, as compaction leaves them, is the next record's.
    """
    at = bisect_right(runs, offset, key=lambda run: run.source)
    before = runs[at - 1] if at else None
    if before is not None and (offset < before.source + before.records or offset == before.source):
        return before.target + offset - before.source
    return runs[at].target if at < len(runs) else None
