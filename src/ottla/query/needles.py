"""Rows of a binary column that equal or contain some bytes, found without making a Python object of a row.

The bytes of a column are contiguous, so one search runs over all rows, and only its hits are compared with
the ends of rows. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Rows = npt.NDArray[np.int64]


def rows_equal(column: pa.Array, wanted: bytes) -> Rows:
    """The numbers of the rows that are exactly these bytes; null equals nothing."""
    ends, data = _parts(column)
    lengths = np.diff(ends)
    candidates: Rows = np.flatnonzero(lengths == len(wanted))
    if column.null_count:
        candidates = candidates[_valid(column)[candidates]]
    if not wanted or not len(candidates):
        return candidates
    # Compare the same byte of every candidate, the last byte first: keys differ most at their ends.
    starts = ends[candidates]
    for at in (*range(len(wanted) - 1, max(-1, len(wanted) - 5), -1), 0):
        same = data[starts + at] == wanted[at]
        candidates, starts = candidates[same], starts[same]
        if not len(candidates):
            return candidates
    size = len(wanted)
    whole = [data[start : start + size].tobytes() == wanted for start in starts.tolist()]
    matches: Rows = candidates[np.array(whole, bool)]
    return matches


def rows_containing(column: pa.Array, wanted: Iterable[bytes]) -> Rows:
    """Return the numbers of the rows that contain at least one of these; all rows if one of them is empty."""
    needles = list(wanted)
    if not all(needles):
        return np.arange(len(column), dtype=np.int64)
    ends, data = _parts(column)
    first, last = int(ends[0]), int(ends[-1])
    text = data[first:last].tobytes()
    matches = [_containing(text, ends - first, needle) for needle in needles]
    rows = matches[0] if len(matches) == 1 else np.unique(np.concatenate(matches or [np.empty(0, np.int64)]))
    return rows[_valid(column)[rows]] if column.null_count else rows


def _containing(text: bytes, ends: npt.NDArray[np.int64], needle: bytes) -> Rows:
    rows: list[int] = []
    size = len(needle)
    at = text.find(needle)
    while at >= 0:
        row = int(ends.searchsorted(at, "right")) - 1
        end = int(ends[row + 1])
        if at + size <= end:
            rows.append(row)
            at = text.find(needle, end)
        else:
            at = text.find(needle, at + 1)  # the hit begins in one row and ends in the next
    return np.array(rows, np.int64)


def _parts(column: pa.Array) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
    """Where rows end, with the first row's start before them; and the bytes of all rows."""
    _, ends_buffer, data_buffer = column.buffers()
    if not len(column) or ends_buffer is None:
        return np.zeros(1, np.int64), np.empty(0, np.uint8)
    ends = np.frombuffer(ends_buffer, np.int32)[column.offset : column.offset + len(column) + 1]
    data = np.empty(0, np.uint8) if data_buffer is None else np.frombuffer(data_buffer, np.uint8)
    return ends.astype(np.int64), data


def _valid(column: pa.Array) -> npt.NDArray[np.bool_]:
    valid: npt.NDArray[np.bool_] = column.is_valid().to_numpy(zero_copy_only=False)
    return valid
