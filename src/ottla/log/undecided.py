"""The transactions of a log that are not decided yet, as its batches tell, and what an abort leaves. Pure.

    offset   0 1 2 3 4 5 6 7 8 9          A aborts with its marker at 7: its records are 2 to 5,
             . . a . b a . A . B          and B, which began at 4, is now the first that is undecided.

Everything below the first record of the first undecided transaction is stable. A producer has one transaction
at a time in a partition.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ottla.log.batch_header import BatchHeader
from ottla.log.end_markers import EndMarker
from ottla.model.record_layout import TRANSACTIONAL


class StoredAbort(NamedTuple):
    """An aborted transaction: its first record, its marker, and up to where the log was stable then."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class UndecidedTransactions:
    """First offsets by producer, in the order of offsets."""

    __slots__ = ("_first_offsets",)

    def __init__(self, first_offsets: Mapping[int, int] | None = None) -> None:
        known = first_offsets or {}
        self._first_offsets = dict(sorted(known.items(), key=lambda item: item[1])) if known else {}

    @property
    def first_offset(self) -> int:
        """Where the first undecided transaction begins; -1 if there is none."""
        return next(iter(self._first_offsets.values()), -1)

    def begin(self, producer_id: int, offset: int) -> None:
        """A producer has written at an offset in a transaction: it begins, or goes on."""
        self._first_offsets.setdefault(producer_id, offset)

    def end(self, producer_id: int) -> None:
        """The producer's transaction, if it has one, is decided."""
        self._first_offsets.pop(producer_id, None)

    def aborted_by(self, marker: EndMarker, offset: int) -> StoredAbort | None:
        """What a marker at an offset aborts; None if it commits, or ends a transaction without records."""
        first = self._first_offsets.get(marker.producer_id, -1)
        if marker.is_commit or first < 0:
            return None
        others = (begun for owner, begun in self._first_offsets.items() if owner != marker.producer_id)
        return StoredAbort(marker.producer_id, first, offset, next(others, offset + 1))

    def see(self, header: BatchHeader, marker: EndMarker | None) -> StoredAbort | None:
        """Take in the next stored batch; a control batch comes with its marker. Returns what it aborts."""
        if marker is not None:
            aborted = self.aborted_by(marker, header.base_offset)
            self.end(marker.producer_id)
            return aborted
        if header.attributes & TRANSACTIONAL and header.producer_id >= 0 and not header.is_control:
            self.begin(header.producer_id, header.base_offset)
        return None
