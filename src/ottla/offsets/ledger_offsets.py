"""LedgerOffsets: the ledger's table as a store like the others, for whoever is not a worker.

Workers store positions with their results, through `OffsetLedger`. Tools that move a group look at the same
rows from outside: they see what is stored without taking partitions over. When they write, they take them
over: the epoch counts up, and a worker that is still at it gets OwnershipLost instead of mixing its results
with a position that is not its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ottla.fetching.places import TopicAndPartition
from ottla.offsets.databases import DatabaseConnection, database_of
from ottla.offsets.ledger import OffsetLedger, checked_table
from ottla.offsets.store import OffsetAndMetadata

_STORED = """SELECT topic, partition_id, next_offset FROM {table}
    WHERE group_id = ? AND next_offset >= 0 ORDER BY topic, partition_id"""
_WRITE = """INSERT INTO {table} AS ledger (group_id, topic, partition_id, next_offset, epoch)
    VALUES (?, ?, ?, ?, 1)
    ON CONFLICT (group_id, topic, partition_id)
    DO UPDATE SET next_offset = excluded.next_offset, epoch = ledger.epoch + 1
    RETURNING epoch"""


class LedgerOffsets:
    """Positions of all groups of a ledger's table. Belongs to the connection's thread.

    A row holds a number and nothing else: metadata and leader epochs are not kept.
    """

    def __init__(
        self,
        connection: DatabaseConnection,
        *,
        table: str = OffsetLedger.TABLE,
        paramstyle: str | None = None,
    ) -> None:
        """As for `OffsetLedger`; the connection stays the caller's to close."""
        self._connection = connection
        self._table = checked_table(table)
        self._database = database_of(connection, paramstyle)

    def create_table(self) -> None:
        """Make the table if it is not there."""
        OffsetLedger(
            self._connection, "", table=self._table, paramstyle=self._database.paramstyle
        ).create_table()

    def fetch(
        self, group: str, partitions: Iterable[TopicAndPartition]
    ) -> dict[TopicAndPartition, OffsetAndMetadata]:
        """What is stored; partitions without a position are missing."""
        asked = set(partitions)
        return {place: one for place, one in self.fetch_all(group).items() if place in asked}

    def fetch_all(self, group: str) -> dict[TopicAndPartition, OffsetAndMetadata]:
        """Every position that is stored of a group, in order."""
        with self._database.transaction() as cursor:
            rows = self._database.rows(cursor, _STORED.format(table=self._table), (group,))
        return {
            TopicAndPartition(topic, partition): OffsetAndMetadata(offset)
            for topic, partition, offset in rows
        }

    def commit(self, group: str, offsets: Mapping[TopicAndPartition, OffsetAndMetadata]) -> None:
        """Store positions, all or none, and take their partitions over from whoever reads them."""
        statement = _WRITE.format(table=self._table)
        with self._database.transaction() as cursor:
            for place, position in sorted(offsets.items()):  # in one order, as workers start them
                self._database.rows(cursor, statement, (group, *place, position.offset))

    def close(self) -> None:
        """Nothing was opened here."""
