"""The entries of a record set: found, verified, decompressed; rows of a table that the decode kernels read.

Damage ends the table. What stands before it is sound, and `Entries.damage` says what stands there.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import crc32c
import numpy as np
import numpy.typing as npt

from ottla import kernels
from ottla.kernels import layout
from ottla.model.errors import ConfigError, CorruptRecord
from ottla.records.compression import Arena, Codec, OverLimit
from ottla.records.slabs import SlabPool

U8Array = npt.NDArray[np.uint8]
Table = npt.NDArray[np.int64]
Row = npt.NDArray[np.int64]

VERIFY = layout.VERIFY_HERE if kernels.CRC32C_IN_KERNEL else layout.VERIFY_LATER
TABLE_ROWS_MIN = 192  # batches of 16 KB, which most producers make, in an answer of 2 MB
TABLE_GROWTH_MAX = 16
"""A larger table is as large as the entries so far make likely, and at most so many times larger."""
# An arena that one huge response blew up is not kept for the many normal ones after it.
ARENA_KEPT_BYTES = 16 << 20
NO_BYTES: U8Array = np.empty(0, np.uint8)
NO_BYTES.flags.writeable = False
# Every message of formats 0 and 1 is an entry: a megabyte of them has a table as large as itself.
_TABLES = SlabPool(reserve_bytes=16 << 20)


class Summary(NamedTuple):
    """What all entries say together, in the order of `kernels.summarize_entries`."""

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
        """Where the entry begins whose records hold byte `at` of a source."""
        table = self.table
        holds = (table[:, layout.START] <= at) & (at < table[:, layout.END])
        return int(table[int(np.argmax(holds & (table[:, layout.SOURCE] == source))), layout.ENTRY])

    def damaged(self, row: int, reason: str) -> Entries:
        """Only the entries before `row`, which turned out to be damaged."""
        return self.cut(row, _damage(self.table[row], reason))


def summarize(table: Table) -> Summary:
    """What all entries say together."""
    summary = np.empty(len(Summary._fields), np.int64)
    kernels.summarize_entries(table, summary)
    return Summary(*summary.tolist())


def read_only(data: bytes | bytearray | memoryview | U8Array) -> U8Array:
    """The bytes as the one array type that kernels are compiled for."""
    view = data.data if isinstance(data, np.ndarray) else memoryview(data)
    if not view.c_contiguous:
        raise ConfigError("a record set must be contiguous in memory, not a slice with steps")
    return np.frombuffer(view.toreadonly(), np.uint8)


def scan(data: U8Array, *, verify_crc: bool, start: int = 0, source: int = 0) -> Entries:
    """Find the entries of data[start:]; where no kernel can, checksums are left to `verified`."""
    verify = VERIFY if verify_crc else layout.VERIFY_NOTHING
    progress = np.empty(2, np.int64)
    summary = np.empty(len(Summary._fields), np.int64)
    table = np.empty((TABLE_ROWS_MIN, layout.ENTRY_COLUMNS), np.int64)
    status = kernels.scan_entries(data, start, data.size, source, verify, table, progress, summary)
    rows, at = progress.tolist()
    is_whole = status != layout.FULL  # then the kernel has summed up all of it
    while status == layout.FULL:
        table = _larger(table, rows, (data.size - start) / (at - start))
        status = kernels.scan_entries(data, at, data.size, source, verify, table[rows:], progress, summary)
        found, at = progress.tolist()
        rows += found
    damage = _damage(table[rows], layout.REASONS[status]) if status != layout.OK else None
    table = table[:rows]
    return Entries(data, table, Summary(*summary.tolist()) if is_whole else summarize(table), at, damage)


def _larger(table: Table, rows: int, times: float) -> Table:
    """A table with room for about so many times as many rows, and for one more."""
    capacity = TABLE_ROWS_MIN + min(TABLE_GROWTH_MAX * rows, int(1.1 * times * rows))
    size = capacity * layout.ENTRY_COLUMNS * table.itemsize
    larger = np.frombuffer(_TABLES.lease(size).view(0, size), np.int64).reshape(capacity, -1)
    larger[:rows] = table[:rows]
    return larger


def verified(entries: Entries) -> Entries:
    """Check the batches whose checksums the scan left, by the library."""
    view, table = entries.data.data, entries.table
    rows = np.flatnonzero(table[:, layout.CRC] >= 0)
    columns = table[rows][:, [layout.ENTRY, layout.END, layout.CRC]].tolist()
    for row, (at, end, crc) in zip(rows.tolist(), columns, strict=True):
        if crc32c.crc32c(view[at + layout.BATCH_ATTRIBUTES_AT : end]) != crc:
            return entries.damaged(row, layout.REASONS[layout.BAD_CRC])
    return entries


def hidden(entries: Entries, rows: npt.NDArray[np.bool_]) -> Entries:
    """The same entries with some made empty: they keep their place and their offsets, and deliver nothing."""
    table = _emptied(entries.table.copy(), rows)
    return replace(entries, table=table, summary=summarize(table))


def _emptied(table: Table, rows: npt.NDArray[np.bool_]) -> Table:
    table[rows, layout.COUNT] = 0
    table[rows, layout.START] = table[rows, layout.END]
    return table


def decompressed(entries: Entries, *, verify_crc: bool, limit: int) -> Entries:
    """The same entries with every compressed one replaced by its records, at most `limit` bytes of them.

    Where the limit is reached behind some entries, the rest is left for another call and nothing is
    damaged; an entry that alone exceeds it is.
    """
    table = entries.table
    compressed = (table[:, layout.START] < table[:, layout.END]) & (
        table[:, layout.ATTRIBUTES] & layout.CODEC_MASK != 0
    )
    arena = _borrowed_arena(limit)
    pieces: list[Table] = []
    done = 0
    for row in np.flatnonzero(compressed).tolist():
        try:
            piece = _decompress_entry(entries.data, table[row], arena, verify_crc=verify_crc)
        except OverLimit as error:
            entries = entries.cut(row, None) if arena.size else entries.damaged(row, str(error))
            break
        except CorruptRecord as error:
            entries = entries.damaged(row, str(error))
            break
        pieces += [table[done:row], piece]
        done = row + 1
    pieces.append(entries.table[done:])
    table = np.concatenate(pieces)
    return replace(entries, table=table, summary=summarize(table), arena=_filled(arena), borrowed=arena)


def _damage(entry: Row, reason: str) -> CorruptRecord:
    offset, last = int(entry[layout.BASE_OFFSET]), int(entry[layout.LAST_OFFSET])
    place = f"offset {offset}, byte {int(entry[layout.ENTRY])} of the record set"
    return CorruptRecord(
        f"damaged record batch at {place}: {reason}",
        offset=offset,
        next_offset=last + 1 if last >= offset >= 0 else None,
    )


_thread = threading.local()


def _borrowed_arena(limit: int) -> Arena:
    """This thread's arena. It is taken away while in use: a finalizer may decode in between."""
    arena: Arena | None = _thread.__dict__.pop("arena", None)
    if arena is None or arena.limit != limit:
        return Arena(limit=limit)
    arena.clear()
    return arena


def give_back_arena(entries: Entries) -> None:
    """Nothing reads the decompressed bytes any more: decoding has copied them out."""
    if entries.borrowed is not None and entries.borrowed.capacity <= ARENA_KEPT_BYTES:
        _thread.arena = entries.borrowed


def _filled(arena: Arena) -> U8Array:
    view = arena.view
    view.flags.writeable = False
    return view


def _decompress_entry(data: U8Array, entry: Row, arena: Arena, *, verify_crc: bool) -> Table:
    codec = Codec.of_attributes(int(entry[layout.ATTRIBUTES]))
    if entry[layout.MAGIC] < 2:
        return _unwrapped(data, entry, codec, arena, verify_crc=verify_crc)
    start = arena.append(codec, data[entry[layout.START] : entry[layout.END]])
    row = entry.copy()
    row[[layout.START, layout.END, layout.SOURCE]] = start, arena.size, 1
    return row[np.newaxis]


def _unwrapped(data: U8Array, wrapper: Row, codec: Codec, arena: Arena, *, verify_crc: bool) -> Table:
    """The messages inside a compressed message of format 0 or 1."""
    magic = int(wrapper[layout.MAGIC])
    start = arena.append(codec, _wrapper_value(data, wrapper), magic=magic)
    inner = scan(_filled(arena), verify_crc=verify_crc, start=start, source=1)
    if inner.damage:
        raise CorruptRecord(f"inside a compressed message, {inner.damage}")
    table = inner.table
    if (table[:, layout.MAGIC] != magic).any():
        raise CorruptRecord(f"a compressed message of format {magic} holds messages of another format")
    if (table[:, layout.ATTRIBUTES] & layout.CODEC_MASK).any():
        raise CorruptRecord("a compressed message holds another compressed message")
    if not len(table):
        return _emptied(wrapper[np.newaxis].copy(), np.ones(1, np.bool_))
    table[:, layout.ENTRY] = wrapper[layout.ENTRY]
    if magic == 1:
        _settle_wrapped(table, wrapper)
    # Whatever the inner offsets are, a reader goes on behind the wrapper.
    table[-1, layout.LAST_OFFSET] = max(table[-1, layout.LAST_OFFSET], wrapper[layout.LAST_OFFSET])
    return table


def _wrapper_value(data: U8Array, wrapper: Row) -> U8Array:
    """The compressed bytes. A wrapper's key means nothing and is null."""
    start, end = int(wrapper[layout.START]), int(wrapper[layout.END])
    key_size = int.from_bytes(data[start : start + 4].tobytes(), "big", signed=True)
    value_at = start + 8 + max(key_size, 0)
    if key_size < -1 or value_at > end:
        raise CorruptRecord(f"a compressed message's key of {key_size} bytes does not fit its bytes")
    value_size = int.from_bytes(data[value_at - 4 : value_at].tobytes(), "big", signed=True)
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
    if wrapper[layout.ATTRIBUTES] & layout.LOG_APPEND_TIME:
        table[:, layout.BASE_TIMESTAMP] = wrapper[layout.BASE_TIMESTAMP]
        table[:, layout.ATTRIBUTES] |= layout.LOG_APPEND_TIME
