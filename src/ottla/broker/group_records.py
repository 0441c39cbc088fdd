"""What a partition of the offsets topic holds, gathered piece by piece.

Pieces, because the log belongs to the loop: it hands out the next one, and a thread reads and decodes it.
Between two of them the cleaner may put other segments in place of those that were there.
"""

from __future__ import annotations

from operator import attrgetter

from ottla.broker.record_batches import StoredRecord, batches_of
from ottla.log.batch_header import TRANSACTIONAL
from ottla.log.partition_log import PartitionLog
from ottla.log.reading import ColdRead
from ottla.model.errors import StorageError
from ottla.wire.primitives import Buffer

PIECE_BYTES = 1 << 20

COMMIT = b"\0\0\0\1"
"""The key of the marker that ends a transaction well: version 0, type 1."""


class GroupRecords:
    """All records below `end`. Owned by whoever takes the next piece: the loop and a thread by turns.

    Offsets of a transaction, which only Apache Kafka can have written, count if it was committed: then they
    are as old as their records, whenever its end came.
    """

    def __init__(self, start: int, end: int) -> None:
        self._offset = start
        self._end = end
        self._records: list[StoredRecord] = []
        self._open_transactions: dict[int, list[StoredRecord]] = {}  # by producer

    def piece(self, partition_log: PartitionLog) -> Buffer | ColdRead:
        """What comes next; empty if nothing does. Raises StorageError."""
        self._offset = max(self._offset, partition_log.start_offset)
        return partition_log.read_cached(self._offset, PIECE_BYTES) if self._offset < self._end else b""

    def take(self, piece: Buffer | ColdRead) -> None:
        """Read, if that is to be waited for, and decode. Raises CorruptRecord, StorageError."""
        data = piece.read() if isinstance(piece, ColdRead) else piece
        before = self._offset
        for header, found in batches_of(data):
            fresh = [record for record in found if self._offset <= record.offset < self._end]
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
        """Everything that was taken, oldest first."""
        return sorted(self._records, key=attrgetter("offset"))
