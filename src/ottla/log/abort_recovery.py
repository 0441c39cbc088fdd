"""Making the `.txnindex` of segments anew from their batches, after a crash or where the file is damaged.

A transaction may have begun in an earlier segment. So the walk begins at a producer snapshot before the
segment, which names the transactions that were open there, or at the start of the log. It is only made for
segments that have markers.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ottla.log import producer_snapshots
from ottla.log.segment import Segment
from ottla.log.undecided import StoredAbort, UndecidedTransactions


class AbortRecovery:
    """Of one log, segment by segment in their order. What it has walked is not walked again."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._undecided = UndecidedTransactions()
        self._walked_to = 0

    def take_in(self, segment: Segment, earlier: Sequence[Segment], *, has_markers: bool) -> None:
        """Note what the segment's markers abort. The segments before it are sound. Raises StorageError."""
        if not has_markers:
            return
        self._begin_at_snapshot(segment.base_offset)
        for before in earlier:
            if before.next_offset > self._walked_to:
                self._aborted_in(before)
        segment.aborted.extend(self._aborted_in(segment))

    def _begin_at_snapshot(self, offset: int) -> None:
        snapshot = producer_snapshots.newest_at(self._directory, offset)
        if snapshot is not None and snapshot.offset > self._walked_to:
            begun = {item.producer_id: item.transaction_offset for item in snapshot.entries}
            self._undecided = UndecidedTransactions({key: at for key, at in begun.items() if at >= 0})
            self._walked_to = snapshot.offset

    def _aborted_in(self, segment: Segment) -> list[StoredAbort]:
        found = [
            self._undecided.see(header, marker)
            for header, marker in segment.file.history(0)
            if header.base_offset >= self._walked_to
        ]
        self._walked_to = max(self._walked_to, segment.next_offset)
        return [item for item in found if item is not None]
