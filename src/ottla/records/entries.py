"""The entries of a record set, verified and decompressed, as rows of a table that the decode kernels read.

Damage ends the table. The entries before it are sound, and `Entries.damage` says what is wrong after them.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ottla import kernels
from ottla.kernels import layout
from ottla.model import record_layout
from ottla.model.checksums import crc32c
from ottla.model.errors import ConfigError, CorruptRecord
from ottla.records.compression import Arena, Codec, OverLimit
from ottla.records.slabs import SlabPool

U8Array = npt.NDArray[np.uint8]
Table = npt.NDArray[np.int64]
Row = npt.NDArray[np.int64]

RECORDS_MAX = 4_000_000
"""Records of one compressed batch. 21 KB can hold 36 million, which would take a gigabyte of memory;
producers stay far below (librdkafka: one million)."""
TABLE_ROWS_MIN = 192  # batches of 16 KB, which most producers make, in an answer of 2 MB
TABLE_GROWTH_MAX = 16
"""A larger table is as large as the entries so far make likely, but grows at most by this factor."""
# An arena that grew for a huge response is not kept for the normal responses after it.
ARENA_KEPT_BYTES = 16 << 20
# Arenas that are not in use. A deque needs no lock, and drops the oldest when it is full.
_ARENAS: deque[Arena] = deque(maxlen=8)
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
            raise _too_many(f"{rows:,} records and more")
        table = _larger(table, rows, (data.size - start) / (at - start), rows_max)
        status = path.scan_entries(data, at, data.size, source, verify, table[rows:], progress, summary)
        more, at = progress.tolist()
        rows += more
    damage = _damage(table[rows], layout.REASONS[status]) if status != layout.OK else None
    return Entries(data, table[:rows], Summary(*summary.tolist()), at, damage)


def _too_many(records: str) -> CorruptRecord:
    return CorruptRecord(f"{records} in one batch, above the limit of {RECORDS_MAX:,}")


def _larger(table: Table, rows: int, times: float, rows_max: int | None) -> Table:
    """A table with room for about `times` as many rows, at most one more than `rows_max`."""
    capacity = TABLE_ROWS_MIN + min(TABLE_GROWTH_MAX * rows, int(1.1 * times * rows))
    if rows_max is not None:
        capacity = min(capacity, rows_max + 1)
    larger = _leased(capacity)
    larger[:rows] = table[:rows]
    return larger


def _leased(rows: int) -> Table:
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
    table = _emptied(entries.table.copy(), rows)
    return replace(entries, table=table, summary=summarize(table))


def _emptied(table: Table, rows: npt.NDArray[np.bool_]) -> Table:
    table[rows, layout.COUNT] = 0
    table[rows, layout.START] = table[rows, layout.END]
    return table


def decompressed(entries: Entries, *, verify_crc: bool, limit: int) -> Entries:
    """The same entries with every compressed one replaced by its records, at most `limit` bytes of them.

    Where the limit is reached after some entries, the rest is left for another call, and is no damage. A
    single entry that exceeds the limit, or RECORDS_MAX, is damage.
    """
    table = entries.table.copy()
    compressed = (table[:, layout.START] < table[:, layout.END]) & (
        table[:, layout.ATTRIBUTES] & record_layout.CODEC_MASK != 0
    )
    arena = _borrowed_arena(limit)
    batches: list[tuple[int, int, int]] = []  # row, and where its records are in the arena
    pieces: list[Table] = []
    done = 0
    for row in np.flatnonzero(compressed).tolist():
        entry = table[row].tolist()
        try:
            if entry[layout.MAGIC] == 2:
                batches.append((row, _decompress_batch(entries.data, entry, arena), arena.size))
            else:
                unwrapped = _unwrapped(entries.data, table[row], arena, verify_crc=verify_crc)
                pieces += [table[done:row], unwrapped]
                done = row + 1
        except OverLimit as error:
            entries = entries.cut(row, None) if arena.size else entries.damaged(row, str(error))
            break
        except CorruptRecord as error:
            entries = entries.damaged(row, str(error))
            break
    if batches:
        rows, starts, ends = np.array(batches).T
        table[rows, layout.START], table[rows, layout.END] = starts, ends
        table[rows, layout.SOURCE] = 1
    table = table[: len(entries.table)]
    if pieces:
        pieces.append(table[done:])
        table = np.concatenate(pieces, out=_leased(sum(map(len, pieces))))
    return replace(entries, table=table, summary=summarize(table), arena=_filled(arena), borrowed=arena)


def _damage(entry: Row, reason: str) -> CorruptRecord:
    offset, last = int(entry[layout.BASE_OFFSET]), int(entry[layout.LAST_OFFSET])
    position = f"offset {offset}, byte {int(entry[layout.ENTRY])} of the record set"
    return CorruptRecord(
        f"damaged record batch at {position}: {reason}",
        offset=offset,
        next_offset=last + 1 if last >= offset >= 0 else None,
    )


def _borrowed_arena(limit: int) -> Arena:
    """An arena for this call alone, until `give_back_arena`."""
    try:
        arena = _ARENAS.pop()  # the one used last: most likely still in the CPU's cache
    except IndexError:
        return Arena(limit=limit)
    if arena.limit != limit:
        return Arena(limit=limit)
    arena.clear()
    return arena


def give_back_arena(entries: Entries) -> None:
    """Release the arena: decoding has copied the decompressed bytes out."""
    if entries.borrowed is not None and entries.borrowed.capacity <= ARENA_KEPT_BYTES:
        _ARENAS.append(entries.borrowed)


def _filled(arena: Arena) -> U8Array:
    view = arena.view
    view.flags.writeable = False
    return view


def _decompress_batch(data: U8Array, entry: list[int], arena: Arena) -> int:
    """Where the records of a batch begin in the arena."""
    codec = Codec.of_attributes(entry[layout.ATTRIBUTES])
    if entry[layout.COUNT] > RECORDS_MAX:
        raise _too_many(f"{entry[layout.COUNT]:,} records")
    return arena.append(codec, data.data[entry[layout.START] : entry[layout.END]])


def _unwrapped(data: U8Array, wrapper: Row, arena: Arena, *, verify_crc: bool) -> Table:
    """The messages inside a compressed message of format 0 or 1."""
    codec, magic = Codec.of_attributes(int(wrapper[layout.ATTRIBUTES])), int(wrapper[layout.MAGIC])
    start = arena.append(codec, _wrapper_value(data, wrapper), magic=magic)
    inner = scan(_filled(arena), verify_crc=verify_crc, start=start, source=1, rows_max=RECORDS_MAX)
    if inner.damage:
        raise CorruptRecord(f"inside a compressed message, {inner.damage}")
    table, summary = inner.table, inner.summary
    if not len(table):
        return _emptied(wrapper[np.newaxis].copy(), np.ones(1, np.bool_))
    if summary.formats != 1 << magic:
        raise CorruptRecord(f"a compressed message of format {magic} holds messages of another format")
    if summary.attributes & record_layout.CODEC_MASK:
        raise CorruptRecord("a compressed message holds another compressed message")
    table[:, layout.ENTRY] = wrapper[layout.ENTRY]
    if magic == 1:
        _settle_wrapped(table, wrapper)
    # Whatever the inner offsets are, a reader continues after the wrapper.
    table[-1, layout.LAST_OFFSET] = max(table[-1, layout.LAST_OFFSET], wrapper[layout.LAST_OFFSET])
    return table


def _wrapper_value(data: U8Array, wrapper: Row) -> U8Array:
    """The compressed bytes. A wrapper's key means nothing and is null."""
    start, end = int(wrapper[layout.START]), int(wrapper[layout.END])
    (key_size,) = record_layout.LENGTH.unpack_from(data.data, start)
    value_at = start + 2 * record_layout.LENGTH_BYTES + max(key_size, 0)
    if key_size < -1 or value_at > end:
        raise CorruptRecord(f"a compressed message's key of {key_size} bytes does not fit its bytes")
    (value_size,) = record_layout.LENGTH.unpack_from(data.data, value_at - record_layout.LENGTH_BYTES)
    if value_size != end - value_at:
        raise CorruptRecord(f"a compressed message's value of {value_size} bytes does not fit its bytes")
    return data[value_at:end]


def _settle_wrapped(table: Table, wrapper: Row) -> None:
    """Format 1: inner offsets are relative, the wrapper's is that of the last inner message.

    Some producers left a wrapper at 0 over inner offsets from 0; those stand as they are.
    """
    wrapper_offset = int(wrapper[layout.BASE_OFFSET])
    inner_last = int(table[-1, layout.BASE_OFFSET])
    if wrapper_offset:
        if wrapper_offset < inner_last:
            raise CorruptRecord(
                f"a compressed message at offset {wrapper_offset} holds relative offsets up to {inner_last}"
            )
        table[:, layout.BASE_OFFSET] += wrapper_offset - inner_last
        table[:, layout.LAST_OFFSET] = table[:, layout.BASE_OFFSET]
    if wrapper[layout.ATTRIBUTES] & record_layout.LOG_APPEND_TIME:
        table[:, layout.BASE_TIMESTAMP] = wrapper[layout.BASE_TIMESTAMP]
        table[:, layout.ATTRIBUTES] |= record_layout.LOG_APPEND_TIME
