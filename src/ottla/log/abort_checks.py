"""The check of the `.txnindex` files of a log against its batches, in one pass over the log.

A transaction that is missing from the index would show its records to readers of committed data. One that is
there too many is no harm: compaction leaves such while a marker waits for its horizon.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from ottla.log import file_names
from ottla.log.aborted_index import AbortedIndex
from ottla.log.batch_header import header_at
from ottla.log.end_markers import read_marker
from ottla.log.file_system import REAL
from ottla.log.segment_file import SegmentFile
from ottla.log.undecided import StoredAbort, UndecidedTransactions
from ottla.log.verification import SoundBatch
from ottla.model.errors import CorruptRecord


class AbortCheck:
    """Give it every sound batch of the log in order (`see`), and ask for the `faults` after each segment."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._undecided = UndecidedTransactions()
        self._aborted: list[StoredAbort] = []

    def see(self, batch: SoundBatch, file: SegmentFile) -> None:
        """Take in a batch of a file."""
        if not batch.is_in_transaction:
            return
        entry = file.read(batch.start, batch.end - batch.start)
        header = header_at(entry, 0, batch.start)
        assert header is not None
        marker = None
        if header.is_control:
            with suppress(CorruptRecord):
                marker = read_marker(entry, header)
        aborted = self._undecided.see(header, marker)
        if aborted is not None:
            self._aborted.append(aborted)

    def faults(self, base_offset: int) -> Iterator[str]:
        """What is wrong with the index of the segment that has been seen."""
        path = file_names.segment_file(self._directory, base_offset, file_names.ABORTED_INDEX)
        index = AbortedIndex(path, REAL)
        expected, self._aborted = self._aborted, []
        if not index.load(base_offset):
            yield "its entries do not fit the log"
            return
        known = {(item.producer_id, item.last_offset) for item in index.entries()}
        missing = [item for item in expected if (item.producer_id, item.last_offset) not in known]
        if missing:
            first = missing[0].last_offset
            yield f"{len(missing)} aborted transactions are missing, the first ends at offset {first}"
