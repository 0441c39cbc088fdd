"""What compaction makes of transactions, by Kafka's rules.

    records of an aborted transaction   go, whatever their keys
    a marker                            stays while its transaction has a batch; then it gets a delete horizon
                                        (KIP-534), so that readers in the middle of it see its end, and goes
    an aborted transaction's entry      stays in the index as long as its transaction has a batch

Only segments below the last stable offset are compacted: all transactions in them are decided.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from ottla.kernels import layout
from ottla.log.undecided import StoredAbort
from ottla.model.record_layout import CONTROL, TRANSACTIONAL
from ottla.records.entries import Table

Bools = npt.NDArray[np.bool_]


class CleanedTransactions:
    """The transactions of one run over a log, from its first segment on."""

    def __init__(self, aborted: Iterable[StoredAbort] = ()) -> None:
        self._aborted = sorted(aborted, key=lambda item: item.last_offset)
        self._spans: dict[int, list[tuple[int, int]]] = defaultdict(list)  # (first, last) by producer
        for item in self._aborted:
            self._spans[item.producer_id].append((item.first_offset, item.last_offset))
        self._seen: set[int] = set()  # producers with a batch since their last marker
        self._needed_markers: set[int] = set()

    def is_aborted(self, table: Table) -> Bools:
        """For each entry, whether it is data of an aborted transaction."""
        found = np.zeros(len(table), np.bool_)
        if not self._spans:
            return found
        attributes = np.where(table[:, layout.MAGIC] == 2, table[:, layout.ATTRIBUTES], 0)
        for row in np.flatnonzero((attributes & (TRANSACTIONAL | CONTROL)) == TRANSACTIONAL).tolist():
            offset = int(table[row, layout.BASE_OFFSET])
            spans = self._spans.get(int(table[row, layout.PRODUCER_ID]), [])
            before = bisect_right(spans, (offset, 1 << 62))
            found[row] = before > 0 and offset <= spans[before - 1][1]
        return found

    def spent_markers(self, table: Table) -> Bools:
        """For each entry, whether it is a marker whose transaction has no batch left.

        Called once for each piece of the log, in order.
        """
        spent = np.zeros(len(table), np.bool_)
        attributes = np.where(table[:, layout.MAGIC] == 2, table[:, layout.ATTRIBUTES], 0)
        for row in np.flatnonzero(attributes & (TRANSACTIONAL | CONTROL)).tolist():
            producer_id = int(table[row, layout.PRODUCER_ID])
            if not attributes[row] & CONTROL:
                self._seen.add(producer_id)
            elif producer_id in self._seen:
                self._seen.discard(producer_id)
                self._needed_markers.add(int(table[row, layout.BASE_OFFSET]))
            else:
                spent[row] = True
        return spent

    def indexed(self, start: int, end: int) -> list[StoredAbort]:
        """What the index of a segment from `start` to `end` keeps, after its pieces were looked at."""
        return [
            item
            for item in self._aborted
            if start <= item.last_offset < end and item.last_offset in self._needed_markers
        ]
