"""Where the last batches of an active segment are: what a consumer at the end of the log asks for.

The offset index knows a batch every few kilobytes and leaves the rest to a walk over the file. Here every
batch is known, but only the last few hundred: a fetch near the end is then a bisection and one read.

    batches …, 97-99, 100-103, 104 at 0, 812, 990        find(101) → the batch at 812, up to 990
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable
from typing import NamedTuple

KEPT_MIN = 512  # 16 bytes each; twice as many before the older half is dropped

# (size, last offset, largest timestamp) of a batch; a bare tuple, since every produce makes one.
BatchSummary = tuple[int, int, int]


class Span(NamedTuple):
    """Where a batch is in its file."""

    position: int
    size: int


class RecentBatches:
    """Belongs to one segment. Knows every batch that ends above `_known_above`, and no other."""

    __slots__ = ("_known_above", "_last_offsets", "_positions")

    def __init__(self, next_offset: int) -> None:
        self.clear(next_offset)

    def clear(self, next_offset: int) -> None:
        """Forget all batches; the next one begins at or after `next_offset`."""
        self._last_offsets = array("q")
        self._positions = array("q")
        self._known_above = next_offset - 1

    def extend(self, position: int, batches: Iterable[BatchSummary]) -> None:
        """Add the batches that follow each other from `position` on."""
        last_offsets, positions = self._last_offsets, self._positions
        for size, last_offset, _ in batches:
            last_offsets.append(last_offset)
            positions.append(position)
            position += size
        if len(last_offsets) > 2 * KEPT_MIN:
            dropped = len(last_offsets) - KEPT_MIN
            self._known_above = last_offsets[dropped - 1]
            del last_offsets[:dropped], positions[:dropped]

    def find(self, offset: int, file_bytes: int) -> Span | None:
        """The first batch that ends at or after `offset`; None if it is not known here."""
        if offset <= self._known_above:
            return None
        positions = self._positions
        index = bisect_left(self._last_offsets, offset)
        if index == len(positions):
            return None
        position = positions[index]
        end = positions[index + 1] if index + 1 < len(positions) else file_bytes
        return Span(position, end - position)
