"""OffsetLedger: exactly once, by positions that are stored in the transaction of the results.

    ledger = OffsetLedger(sqlite3.connect("results.db"), "billing")
    ledger.create_table()
    for place, offset in ledger.start(partitions).items():
        consumer.consume_partition(*place, offset)
    for chunk in consumer.chunks():
        with ledger.transaction() as cursor:
            cursor.executemany("INSERT INTO results VALUES (?, ?)", rows(chunk.batch))
            ledger.record(cursor, chunk.topic_partition, chunk.next_offset)

A crash leaves both or neither. Who reads a partition is decided by the table as well: `start` counts up the
partition's epoch, and `record` writes only over the position and the epoch that this worker has left there.
A worker that was taken for dead, and is not, gets OwnershipLost, and its results are rolled back.

    worker 1   start: 100, epoch 6 ── results, 100 → 120 ──────────────── results, 120 → 140 ✗ epoch is 7
    worker 2                                               start: 120, epoch 7 ── results, 120 → 150
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import pyarrow as pa

from ottla.fetching.feed import EARLIEST
from ottla.fetching.places import TopicAndPartition
from ottla.model.errors import ConfigError, OttlaError
from ottla.offsets.databases import Cursor, DatabaseConnection, database_of

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


class OwnershipLost(OttlaError):
    """Another worker has started to read the partition; the transaction is rolled back. Stop reading it."""


class _Claim(NamedTuple):
    """What this worker has left in the table for a partition."""

    next_offset: int
    epoch: int


def checked_table(name: str) -> str:
    """`name` itself if it can stand in a statement; ConfigError else."""
    if not _TABLE_NAME.fullmatch(name):
        raise ConfigError(f"table={name!r}: give a plain name, or SCHEMA.NAME")
    return name


class OffsetLedger:
    """Positions of one group in a table of the user's database. Belongs to the connection's thread."""

    TABLE = "ottla_offsets"

    def __init__(
        self,
        connection: DatabaseConnection,
        group: str,
        *,
        table: str = TABLE,
        paramstyle: str | None = None,
    ) -> None:
        """`connection`: of sqlite3, duckdb, psycopg, or another module for SQLite or PostgreSQL.

        `paramstyle` is for modules that do not tell theirs. The connection stays the caller's to close.
        """
        self._group = group
        self._table = checked_table(table)
        self._database = database_of(connection, paramstyle)
        self._claims: dict[TopicAndPartition, _Claim] = {}
        self._recorded: dict[TopicAndPartition, _Claim] | None = None  # of the open transaction

    def create_table(self) -> None:
        """Make the table if it is not there."""
        with self.transaction() as cursor:
            cursor.execute(_CREATE.format(table=self._table))

    @property
    def positions(self) -> Mapping[TopicAndPartition, int]:
        """The next offset of every partition that was started here; -1 where none is stored."""
        return {place: claim.next_offset for place, claim in self._claims.items()}

    def start(
        self, partitions: Iterable[TopicAndPartition], initial: int = EARLIEST
    ) -> dict[TopicAndPartition, int]:
        """Take partitions over from whoever had them; where to read them from.

        `initial` is for those without a stored position: an offset, EARLIEST or LATEST.
        """
        with self.transaction() as cursor:
            assert self._recorded is not None
            for place in sorted(set(partitions)):  # in one order, so that two workers do not block each other
                (row,) = self._rows(cursor, _CLAIM, self._group, *place)
                self._recorded[place] = _Claim(*row)
            claims = dict(self._recorded)
        places = ", ".join(f"{place} at {claim.next_offset}" for place, claim in claims.items())
        log.info("ledger of group %r: started %s", self._group, places or "nothing")
        return {
            place: initial if claim.next_offset == NOTHING_STORED else claim.next_offset
            for place, claim in claims.items()
        }

    @contextmanager
    def transaction(self) -> Iterator[Any]:
        """A cursor, whose work is stored at the end of the block with the recorded positions, or not at all.

        For DuckDB the cursor is the connection. If the end itself fails, nobody knows what was stored:
        `start` tells.
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

    def record(self, cursor: Cursor, topic_partition: TopicAndPartition, next_offset: int) -> None:
        """Where to go on behind what the transaction stores: a chunk's `next_offset`.

        Raises OwnershipLost if another worker has started the partition; leave the block with it. Raises
        ConfigError outside a transaction, for a partition that was not started, and for a step back.
        """
        claim = self._claim(topic_partition)
        if next_offset < claim.next_offset:
            raise ConfigError(
                f"{topic_partition}: {next_offset} is before the stored position {claim.next_offset}; pass "
                "batches through unseen() and record what the chunk's next_offset says"
            )
        if self._recorded is None:
            raise ConfigError(f"{topic_partition}: record positions inside `with ledger.transaction()`")
        place = (self._group, *topic_partition)
        if not self._rows(cursor, _ADVANCE, next_offset, *place, *claim):
            raise self._lost(cursor, topic_partition, claim)
        self._recorded[topic_partition] = claim._replace(next_offset=next_offset)

    def unseen(self, topic_partition: TopicAndPartition, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows that are not stored yet, without a copy: a reader may begin before the position.

        The batch has a column `offset`, rising.
        """
        position = self._claim(topic_partition).next_offset
        offsets = batch.column("offset").to_numpy(zero_copy_only=False)
        return batch.slice(int(offsets.searchsorted(position)))

    def _claim(self, place: TopicAndPartition) -> _Claim:
        claim = (self._recorded or {}).get(place) or self._claims.get(place)
        if claim is None:
            raise ConfigError(f"{place} was not started in the ledger of group {self._group!r}: start() it")
        return claim

    def _rows(self, cursor: Cursor, statement: str, *values: object) -> Any:
        return self._database.rows(cursor, statement.format(table=self._table), values)

    def _lost(self, cursor: Cursor, place: TopicAndPartition, claim: _Claim) -> OwnershipLost:
        found = self._rows(cursor, _LOOK, self._group, *place)
        now = "offset {}, epoch {}".format(*found[0]) if found else "gone"
        return OwnershipLost(
            f"group {self._group!r}, {place}: the ledger is at {now}, and this worker left it at offset "
            f"{claim.next_offset}, epoch {claim.epoch}; another worker reads it now: stop, or start() again"
        )
