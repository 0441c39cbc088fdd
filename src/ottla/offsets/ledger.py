"""OffsetLedger: exactly once, by storing positions in the same transaction as the results.

    ledger = OffsetLedger(sqlite3.connect("results.db"), group_id="billing")
    ledger.create_table()
    for topic_partition, offset in ledger.start(partitions).items():
        consumer.consume_partition(*topic_partition, offset)
    for chunk in consumer.chunks():
        with ledger.transaction() as cursor:
            cursor.executemany("INSERT INTO results VALUES (?, ?)", rows(chunk.batch))
            ledger.record(cursor, chunk.topic_partition, chunk.next_offset)

A crash leaves both or neither. The table also decides which worker owns a partition: `start` counts up the
partition's epoch, and `record` writes only if position and epoch are still those that this worker wrote. A
worker that was replaced but still runs gets OwnershipLost, and its results are rolled back.

    worker 1   start: 100, epoch 6 ── results, 100 → 120 ──────────────── results, 120 → 140 ✗ epoch is 7
    worker 2                                               start: 120, epoch 7 ── results, 120 → 150
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.model.errors import ConfigError, OwnershipLost
from ottla.model.offset_spec import OffsetSpec
from ottla.model.topic_partition import TopicAndPartition
from ottla.offsets.databases import DatabaseConnection, DatabaseCursor, database_of

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger(__name__)

NOTHING_STORED = -1

_TABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)?")

_CREATE = """CREATE TABLE IF NOT EXISTS {table} (
    group_id VARCHAR(255) NOT NULL,
    topic VARCHAR(255) NOT NULL,
    partition_id INTEGER NOT NULL,
    next_offset BIGINT NOT NULL,
    epoch BIGINT NOT NULL,
    PRIMARY KEY (group_id, topic, partition_id)
)"""
_PLACE = "group_id = ? AND topic = ? AND partition_id = ?"
_CLAIM = f"""INSERT INTO {{table}} AS ledger (group_id, topic, partition_id, next_offset, epoch)
    VALUES (?, ?, ?, {NOTHING_STORED}, 1)
    ON CONFLICT (group_id, topic, partition_id) DO UPDATE SET epoch = ledger.epoch + 1
    RETURNING next_offset, epoch"""
_ADVANCE = f"""UPDATE {{table}} SET next_offset = ?
    WHERE {_PLACE} AND next_offset = ? AND epoch = ? RETURNING epoch"""
_LOOK = f"SELECT next_offset, epoch FROM {{table}} WHERE {_PLACE}"


class _Claim(NamedTuple):
    """The row that this worker wrote for a partition."""

    next_offset: int
    epoch: int


def checked_table(name: str) -> str:
    """Return `name` if it is safe in a statement; otherwise raise ConfigError."""
    if not _TABLE_NAME.fullmatch(name):
        raise ConfigError(f"table={name!r}: give a plain name, or SCHEMA.NAME")
    return name


class OffsetLedger:
    """Positions of one group in a table of the user's database, for exactly-once processing.

        >>> import sqlite3
        >>> from ottla import OffsetLedger, TopicAndPartition
        >>> database = sqlite3.connect(":memory:")
        >>> ledger = OffsetLedger(database, group_id="billing")
        >>> ledger.create_table()
        >>> orders = TopicAndPartition("orders", 0)
        >>> ledger.start([orders])[orders]
        'earliest'
        >>> with ledger.transaction() as cursor:
        ...     ledger.record(cursor, orders, 120)
        >>> ledger.positions[orders]
        120
        >>> database.close()

    Use it in the connection's thread. The caller closes the connection.
    """

    TABLE = "ottla_offsets"

    def __init__(
        self,
        connection: DatabaseConnection,
        *,
        group_id: str,
        table: str = TABLE,
        paramstyle: str | None = None,
    ) -> None:
        """`connection` is one of sqlite3, duckdb, psycopg, or another module for SQLite or PostgreSQL.

        `paramstyle` is for modules that do not declare theirs.
        """
        self._group = group_id
        self._table = checked_table(table)
        self._database = database_of(connection, paramstyle)
        self._claims: dict[TopicAndPartition, _Claim] = {}
        self._recorded: dict[TopicAndPartition, _Claim] | None = None  # of the open transaction

    def __repr__(self) -> str:
        positions = ", ".join(f"{name} at {offset}" for name, offset in sorted(self.positions.items()))
        return (
            f"<OffsetLedger of group {self._group!r}, table {self._table}: {positions or 'nothing started'}>"
        )

    def create_table(self) -> None:
        """Create the table if it does not exist."""
        with self.transaction() as cursor:
            cursor.execute(_CREATE.format(table=self._table))

    @property
    def positions(self) -> Mapping[TopicAndPartition, int]:
        """The next offset of every started partition; -1 if none is stored."""
        return {topic_partition: claim.next_offset for topic_partition, claim in self._claims.items()}

    def start(
        self, partitions: Iterable[TopicAndPartition], initial: OffsetSpec = "earliest"
    ) -> dict[TopicAndPartition, OffsetSpec]:
        """Take partitions over from other workers; return where to read each of them from.

        A partition without a stored position starts at `initial`: an offset, "earliest", "latest" or a time.
        """
        with self.transaction() as cursor:
            assert self._recorded is not None
            # Always in this order, so that two workers do not block each other.
            for topic_partition in sorted(set(partitions)):
                (row,) = self._rows(cursor, _CLAIM, self._group, *topic_partition)
                self._recorded[topic_partition] = _Claim(*row)
            claims = dict(self._recorded)
        shown = ", ".join(f"{name} at {claim.next_offset}" for name, claim in claims.items())
        log.info("ledger of group %r: started %s", self._group, shown or "nothing")
        return {
            topic_partition: initial if claim.next_offset == NOTHING_STORED else claim.next_offset
            for topic_partition, claim in claims.items()
        }

    @contextmanager
    def transaction(self) -> Iterator[Any]:
        """Yield a cursor. Its work and the recorded positions are committed at the end of the block.

        If the block raises, both are rolled back. If the commit itself fails, it is unknown what was stored:
        call `start` again. For DuckDB the cursor is the connection.
        """
        if self._recorded is not None:
            raise ConfigError(f"the ledger of group {self._group!r} has a transaction open already")
        recorded = self._recorded = {}
        try:
            with self._database.transaction() as cursor:
                yield cursor
                claims, self._claims = self._claims, {}  # not known until the end is reached
            self._claims = claims | recorded
        finally:
            self._recorded = None

    def record(self, cursor: DatabaseCursor, topic_partition: TopicAndPartition, next_offset: int) -> None:
        """Record the position after what the transaction stores: a chunk's `next_offset`.

        Raises OwnershipLost if another worker has started the partition; let it end the block. Raises
        ConfigError outside a transaction, for a partition that was not started, and for a smaller offset.
        """
        claim = self._claim(topic_partition)
        if next_offset < claim.next_offset:
            raise ConfigError(
                f"{topic_partition}: {next_offset} is before the stored position {claim.next_offset}; pass "
                "batches through unseen() and record what the chunk's next_offset says"
            )
        if self._recorded is None:
            raise ConfigError(f"{topic_partition}: record positions inside `with ledger.transaction()`")
        if not self._rows(cursor, _ADVANCE, next_offset, self._group, *topic_partition, *claim):
            raise self._lost(cursor, topic_partition, claim)
        self._recorded[topic_partition] = claim._replace(next_offset=next_offset)

    def unseen(self, topic_partition: TopicAndPartition, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows that are not stored yet, without a copy: a reader may start before the position.

        The batch needs a column `offset` with rising values.
        """
        position = self._claim(topic_partition).next_offset
        offsets = batch.column("offset").to_numpy(zero_copy_only=False)
        return batch.slice(int(offsets.searchsorted(position)))

    def _claim(self, topic_partition: TopicAndPartition) -> _Claim:
        claim = (self._recorded or {}).get(topic_partition) or self._claims.get(topic_partition)
        if claim is None:
            raise ConfigError(
                f"{topic_partition} was not started in the ledger of group {self._group!r}: start() it"
            )
        return claim

    def _rows(self, cursor: DatabaseCursor, statement: str, *values: object) -> Any:
        return self._database.rows(cursor, statement.format(table=self._table), values)

    def _lost(
        self, cursor: DatabaseCursor, topic_partition: TopicAndPartition, claim: _Claim
    ) -> OwnershipLost:
        rows = self._rows(cursor, _LOOK, self._group, *topic_partition)
        now = "offset {}, epoch {}".format(*rows[0]) if rows else "gone"
        return OwnershipLost(
            f"group {self._group!r}, {topic_partition}: the ledger is at {now}, and this worker left it at "
            f"offset {claim.next_offset}, epoch {claim.epoch}; another worker has it: stop, or start() again"
        )
