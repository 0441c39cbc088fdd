"""The entries of a record set, verified, as rows of a table that the decode kernels read.

Damage ends the table. The entries before it are sound, and `Entries.damage` says what is wrong after them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ottla import kernels
from ottla.kernels import layout
from ottla.model import record_layout
from ottla.model.checksums import crc32c
from ottla.model.errors import ConfigError, CorruptRecord
from ottla.records.compression import Arena
from ottla.records.slabs import SlabPool

U8Array = npt.NDArray[np.uint8]
Table = npt.NDArray[np.int64]
Row = npt.NDArray[np.int64]

TABLE_ROWS_MIN = 192  # batches of 16 KB, which most producers make, in an answer of 2 MB
TABLE_GROWTH_MAX = 16
"""A larger table is as large as the entries so far make likely, but grows at most by this factor."""
NO_BYTES: U8Array = np.empty(0, np.uint8)
NO_BYTES.flags.writeable = False
# Every message of formats 0 and 1 is an entry: a megabyte of them has a table as large as itself.
_TABLES = SlabPool(reserve_bytes=16 << 20)


class Summary(NamedTuple):
    """The sums over all entries, in the order of the kernel `summarize_entries`."""

    next_offset: int  # one past the largest offset
    formats: int  # a bit a magic
    attributes: int  # all bits that occur in entries that are not empty
    records: int  # how many there may be at most, by count and by bytes
    data_bytes: int
    unverified: int  # entries whose checksum is left to `verified`


@dataclass(frozen=True, slots=True)
class Entries:
    """Sound entries in order, where their bytes are, and what ended them."""

    data: U8Array
    table: Table
    summary: Summary
    valid_bytes: int
    damage: CorruptRecord | None = None
    arena: U8Array = field(default_factory=lambda: NO_BYTES)
    borrowed: Arena | None = None  # what `arena` is a view of

    def cut(self, row: int, damage: CorruptRecord | None) -> Entries:
        """Only the entries before `row`."""
        table = self.table[:row]
        valid_bytes = int(self.table[row, layout.ENTRY])
        return replace(self, table=table, summary=summarize(table), valid_bytes=valid_bytes, damage=damage)

    def position_of(self, source: int, at: int) -> int:
        """Return where the entry begins whose records contain byte `at` of a source."""
        table = self.table
        holds = (table[:, layout.START] <= at) & (at < table[:, layout.END])
        return int(table[int(np.argmax(holds & (table[:, layout.SOURCE] == source))), layout.ENTRY])

    def damaged(self, row: int, reason: str) -> Entries:
        """Only the entries before `row`, which turned out to be damaged."""
        return self.cut(row, _damage(self.table[row], reason))


def summarize(table: Table) -> Summary:
    """The sums over all entries."""
    summary = np.empty(len(Summary._fields), np.int64)
    kernels.path().summarize_entries(table, summary)
    return Summary(*summary.tolist())


def read_only(data: bytes | bytearray | memoryview | U8Array) -> U8Array:
    """The bytes as the one array type that kernels are compiled for."""
    view = data.data if isinstance(data, np.ndarray) else memoryview(data)
    if not view.c_contiguous:
        raise ConfigError("a record set must be contiguous in memory, not a slice with steps")
    return np.frombuffer(view.toreadonly(), np.uint8)


def scan(
    data: U8Array, *, verify_crc: bool, start: int = 0, source: int = 0, rows_max: int | None = None
) -> Entries:
    """Find the entries of data[start:]; where no kernel can, checksums are left to `verified`.

    Raises CorruptRecord if there are more than `rows_max`.
    """
    path = kernels.path()
    verify = path.VERIFY if verify_crc else layout.VERIFY_NOTHING
    progress = np.empty(2, np.int64)
    summary = np.zeros(len(Summary._fields), np.int64)
    table = np.empty((TABLE_ROWS_MIN, layout.ENTRY_COLUMNS), np.int64)
    status = path.scan_entries(data, start, data.size, source, verify, table, progress, summary)
    rows, at = progress.tolist()
    while status == layout.FULL:
        if rows_max is not None and rows > rows_max:
            raise too_many(f"{rows:,} records and more", rows_max)
        table = _larger(table, rows, (data.size - start) / (at - start), rows_max)
        status = path.scan_entries(data, at, data.size, source, verify, table[rows:], progress, summary)
        more, at = progress.tolist()
        rows += more
    damage = _damage(table[rows], layout.REASONS[status]) if status != layout.OK else None
    return Entries(data, table[:rows], Summary(*summary.tolist()), at, damage)


def too_many(records: str, limit: int) -> CorruptRecord:
    """The damage of a compressed entry that holds `records`, which says how many."""
    return CorruptRecord(f"{records} in one batch, above the limit of {limit:,}")


def _larger(table: Table, rows: int, times: float, rows_max: int | None) -> Table:
    """A table with room for about `times` as many rows, at most one more than `rows_max`."""
    capacity = TABLE_ROWS_MIN + min(TABLE_GROWTH_MAX * rows, int(1.1 * times * rows))
    if rows_max is not None:
        capacity = min(capacity, rows_max + 1)
    larger = leased(capacity)
    larger[:rows] = table[:rows]
    return larger


def leased(rows: int) -> Table:
    """A table of recycled memory, which returns when the table is gone."""
    size = rows * layout.ENTRY_COLUMNS * np.dtype(np.int64).itemsize
    return np.frombuffer(_TABLES.lease(size).view(0, size), np.int64).reshape(rows, -1)


def verified(entries: Entries) -> Entries:
    """Check the checksums that the scan has not checked, with the crc32c library."""
    view, table = entries.data.data, entries.table
    rows = np.flatnonzero(table[:, layout.CRC] >= 0)
    columns = table[rows][:, [layout.ENTRY, layout.END, layout.CRC]].tolist()
    for row, (at, end, crc) in zip(rows.tolist(), columns, strict=True):
        if crc32c(view[at + record_layout.BATCH_ATTRIBUTES_AT : end]) != crc:
            return entries.damaged(row, layout.REASONS[layout.BAD_CRC])
    return entries


def hidden(entries: Entries, rows: npt.NDArray[np.bool_]) -> Entries:
    """The same entries with some made empty: they keep their offsets and deliver nothing."""
    table = emptied(entries.table.copy(), rows)
    return replace(entries, table=table, summary=summarize(table))


def emptied(table: Table, rows: npt.NDArray[np.bool_]) -> Table:
    """Take the records of some entries away, in place."""
    table[rows, layout.COUNT] = 0
    table[rows, layout.START] = table[rows, layout.END]
    return table


def _damage(entry: Row, reason: str) -> CorruptRecord:
    offset, last = int(entry[layout.BASE_OFFSET]), int(entry[layout.LAST_OFFSET])
    position = f"offset {offset}, byte {int(entry[layout.ENTRY])} of the record set"
    return CorruptRecord(
        f"damaged record batch at {position}: {reason}",
        offset=offset,
        next_offset=last + 1 if last >= offset >= 0 else None,
    )
