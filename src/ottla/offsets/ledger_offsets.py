"""LedgerOffsets: the ledger's table as an OffsetStore, for tools.

Workers store positions with their results, through `OffsetLedger`. Tools that move a group read the same rows
without taking the partitions over. When a tool writes, it takes them over: the epoch counts up, and a worker
that still reads gets OwnershipLost, so its results do not mix with a position that it did not write.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ottla.model.committed_positions import OffsetAndMetadata
from ottla.model.topic_partition import TopicAndPartition
from ottla.offsets.databases import DatabaseConnection, database_of
from ottla.offsets.ledger import OffsetLedger, checked_table

_STORED = """SELECT topic, partition_id, next_offset FROM {table}
    WHERE group_id = ? AND next_offset >= 0 ORDER BY topic, partition_id"""
_WRITE = """INSERT INTO {table} AS ledger (group_id, topic, partition_id, next_offset, epoch)
    VALUES (?, ?, ?, ?, 1)
    ON CONFLICT (group_id, topic, partition_id)
    DO UPDATE SET next_offset = excluded.next_offset, epoch = ledger.epoch + 1
    RETURNING epoch"""


class LedgerOffsets:
    """Positions of all groups of a ledger's table. Belongs to the connection's thread.

        >>> import sqlite3
        >>> from ottla import OffsetAndMetadata, TopicAndPartition
        >>> from ottla.offsets import LedgerOffsets
        >>> database = sqlite3.connect(":memory:")
        >>> store = LedgerOffsets(database)
        >>> store.create_table()
        >>> store.commit("billing", {TopicAndPartition("orders", 0): OffsetAndMetadata(42)})
        >>> store.fetch_all("billing")[TopicAndPartition("orders", 0)].offset
        42
        >>> database.close()

    A row holds a number and nothing else: metadata and leader epochs are not kept.
    """

    def __init__(
        self,
        connection: DatabaseConnection,
        *,
        table: str = OffsetLedger.TABLE,
        paramstyle: str | None = None,
    ) -> None:
        """Arguments as for `OffsetLedger`; the caller closes the connection."""
        self._connection = connection
        self._table = checked_table(table)
        self._database = database_of(connection, paramstyle)

    def create_table(self) -> None:
        """Create the table if it does not exist."""
        OffsetLedger(
            self._connection, group_id="", table=self._table, paramstyle=self._database.paramstyle
        ).create_table()

    def __repr__(self) -> str:
        return f"<LedgerOffsets in table {self._table}>"

    def fetch(
        self, group: str, partitions: Iterable[TopicAndPartition]
    ) -> dict[TopicAndPartition, OffsetAndMetadata]:
        """Return the stored positions; partitions without one are missing."""
        requested = set(partitions)
        positions = self.fetch_all(group)
        return {name: position for name, position in positions.items() if name in requested}

    def fetch_all(self, group: str) -> dict[TopicAndPartition, OffsetAndMetadata]:
        """Return all stored positions of a group, sorted."""
        with self._database.transaction() as cursor:
            rows = self._database.rows(cursor, _STORED.format(table=self._table), (group,))
        return {
            TopicAndPartition(topic, partition): OffsetAndMetadata(offset)
            for topic, partition, offset in rows
        }

    def commit(self, group: str, offsets: Mapping[TopicAndPartition, OffsetAndMetadata]) -> None:
        """Store all positions or none, and take the partitions over from their workers."""
        statement = _WRITE.format(table=self._table)
        with self._database.transaction() as cursor:
            for topic_partition, position in sorted(
                offsets.items()
            ):  # in the same order as workers start them
                self._database.rows(cursor, statement, (group, *topic_partition, position.offset))

    def close(self) -> None:
        """Do nothing: nothing was opened here."""
