"""Reading all records of a partition of a coordinator's topic, piece by piece.

The log belongs to the loop: the loop takes the next piece, and a thread reads and decodes it. Between two
pieces the cleaner may replace segments.
"""

from __future__ import annotations

from itertools import chain
from operator import attrgetter

from ottla.broker.storage.record_batches import StoredRecord, batches_of
from ottla.log.partition_log import PartitionLog
from ottla.log.reading import ColdRead
from ottla.model.errors import StorageError
from ottla.model.record_layout import TRANSACTIONAL
from ottla.wire.primitives import Buffer

PIECE_BYTES = 1 << 20

COMMIT = b"\0\0\0\1"
"""The key of a marker that commits a transaction: version 0, type 1."""


class TopicRecords:
    """All records from `start` to `end`. Used by the loop and a thread in turn, never at the same time.

    Records of a transaction count if it was committed or is open. Their position is their own, not that of
    the transaction's end.
    """

    def __init__(self, start: int, end: int) -> None:
        self._offset = start
        self._end = end
        self._records: list[StoredRecord] = []
        self._open_transactions: dict[int, list[StoredRecord]] = {}  # by producer

    def piece(self, partition_log: PartitionLog) -> Buffer | ColdRead:
        """Return the next piece, empty at the end. Raises StorageError."""
        self._offset = max(self._offset, partition_log.start_offset)
        return partition_log.read_cached(self._offset, PIECE_BYTES) if self._offset < self._end else b""

    def take(self, piece: Buffer | ColdRead) -> None:
        """Read a piece from disk if necessary, and decode it. Raises CorruptRecord or StorageError."""
        data = piece.read() if isinstance(piece, ColdRead) else piece
        before = self._offset
        for header, records in batches_of(data):
            fresh = [record for record in records if self._offset <= record.offset < self._end]
            if header.is_control:
                ended = self._open_transactions.pop(header.producer_id, [])
                self._records += ended if any(record.key == COMMIT for record in fresh) else []
            elif header.attributes & TRANSACTIONAL:
                self._open_transactions.setdefault(header.producer_id, []).extend(fresh)
            else:
                self._records += fresh
            self._offset = header.last_offset + 1
        if self._offset == before:
            raise StorageError(f"offset {before}: the {len(data)} bytes there have no whole batch")

    def in_order(self) -> list[StoredRecord]:
        """Return all records, the oldest first, with those of open transactions."""
        in_transactions = chain.from_iterable(self._open_transactions.values())
        return sorted([*self._records, *in_transactions], key=attrgetter("offset"))

    def open_producers(self) -> dict[int, int]:
        """Return the producer of each record of an open transaction, by the record's offset."""
        open_transactions = self._open_transactions.items()
        return {record.offset: producer_id for producer_id, items in open_transactions for record in items}
