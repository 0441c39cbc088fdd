"""Which offset of the source is which offset of the target, as runs of records that are consecutive in both.

    source  0 1 2 3 · · 6 7          Run(0, 100, 4)  Run(6, 104, 2)
    target  100 … 103   104 105      offset 2 is 102; 4 and 5 do not exist (compacted): continue at 104

A mirror that crashes sends again what it had not committed, so an offset may be in several runs. The run that
was noted last counts. Pure.
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
"""A run takes up to 60 bytes, so that a note fits into one record on any broker."""


class OffsetRun(NamedTuple):
    """`records` records from these offsets on. With 0 records it says where both logs continue."""

    source: int
    target: int
    records: int


def runs_of(source: Offsets, target: Offsets) -> list[OffsetRun]:
    """Return the runs of records whose offsets on both sides are given in ascending order."""
    if not len(source):
        return []
    breaks = np.flatnonzero((np.diff(source) != 1) | (np.diff(target) != 1)) + 1
    starts = np.concatenate(([0], breaks))
    counts = np.diff(np.concatenate((starts, [len(source)])))
    return [
        OffsetRun(*numbers)
        for numbers in zip(source[starts].tolist(), target[starts].tolist(), counts.tolist(), strict=True)
    ]


def joined(runs: Iterable[OffsetRun]) -> list[OffsetRun]:
    """Return the runs with adjacent ones merged."""
    merged: list[OffsetRun] = []
    for run in runs:
        last = merged[-1] if merged else None
        if last is not None and run[:2] == (last.source + last.records, last.target + last.records):
            merged[-1] = last._replace(records=last.records + run.records)
        else:
            merged.append(run)
    return merged


def notes(runs: Sequence[OffsetRun], next_source: int) -> Iterator[bytes]:
    """Yield the runs as values of records; the last run says where the source continues."""
    end = runs[-1].target + runs[-1].records
    rest = iter((*runs, OffsetRun(next_source, end, 0)))
    while part := list(islice(rest, RUNS_IN_NOTE)):
        yield json.dumps(part, separators=(",", ":")).encode()


def runs_in(note: bytes) -> list[OffsetRun]:
    """Return the runs of a note. Raises RemoteProtocolError if it cannot be read."""
    try:
        return [OffsetRun(*map(int, numbers)) for numbers in json.loads(note)]
    except (ValueError, TypeError, RecursionError) as error:
        raise RemoteProtocolError(f"{note[:100]!r} is not a note of offsets: {error}") from None


def in_force(noted: Iterable[OffsetRun]) -> list[OffsetRun]:
    """Return the runs that count, ascending; `noted` has them in the order in which they were noted.

    A mirror reads in order. A run that begins before the end of earlier ones comes from a restarted mirror,
    which has sent everything from there on again.
    """
    kept: list[OffsetRun] = []
    for run in noted:
        while kept and kept[-1].source >= run.source:
            kept.pop()
        if kept and kept[-1].source + kept[-1].records > run.source:
            kept[-1] = kept[-1]._replace(records=run.source - kept[-1].source)
        kept.append(run)
    return kept


def translated(runs: Sequence[OffsetRun], offset: int) -> int | None:
    """Return the offset in the target for an offset of the source; None if it is not mirrored yet.

    `runs` comes from `in_force`. An offset without a record (compaction) becomes that of the next record.
    """
    at = bisect_right(runs, offset, key=lambda run: run.source)
    before = runs[at - 1] if at else None
    if before is not None and (offset < before.source + before.records or offset == before.source):
        return before.target + offset - before.source
    return runs[at].target if at < len(runs) else None
