"""Compressed entries become what they hold: by a kernel where it can, else by the codecs' libraries.

The kernel takes many entries in one call, but only what is certainly sound and finds room in the arena. The
libraries take the rest, one by one, and say what is wrong with what is damaged. Where the kernel gets nowhere
(NumPy has none, and some codecs are faster without), it is asked less and less often.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace

import numpy as np

from ottla import kernels
from ottla.kernels import layout
from ottla.model import record_layout
from ottla.model.errors import CorruptRecord
from ottla.records.compression import Arena, Codec, OverLimit
from ottla.records.entries import (
    Entries,
    Row,
    Summary,
    Table,
    U8Array,
    emptied,
    leased,
    scan,
    summarize,
    too_many,
)

RECORDS_MAX = 4_000_000
"""Records of one compressed batch. 21 KB can hold 36 million, which would take a gigabyte of memory;
producers stay far below (librdkafka: one million)."""
# An arena that grew for a huge response is not kept for the normal responses after it.
ARENA_KEPT_BYTES = 16 << 20
# Arenas that are not in use. A deque needs no lock, and drops the oldest when it is full.
_ARENAS: deque[Arena] = deque(maxlen=8)
MESSAGE_BYTES_GUESS = 32
"""Of a message inside a compressed one, while it is compressed."""
FORMAT_2_ONLY = 1 << 2
ZSTD_RUN_BYTES_MAX = 16384
"""Of a compressed batch: larger ones gain little."""
LIBRARY_RUN_MAX = 64
"""Entries that are left to the libraries before the kernel is asked again."""


def decompressed(entries: Entries, *, verify_crc: bool, limit: int) -> Entries:
    """The same entries with every compressed one replaced by its records, at most `limit` bytes of them.

    Where the limit is reached after some entries, the rest is left for another call, and is no damage. A
    single entry that exceeds the limit, or RECORDS_MAX, is damage.
    """
    arena = _borrowed_arena(limit)
    expansion = _Expansion(entries, arena, verify_crc=verify_crc)
    try:
        expansion.run()
    except OverLimit as error:
        at = expansion.done
        entries = entries.cut(at, None) if arena.size else entries.damaged(at, str(error))
    except CorruptRecord as error:
        entries = entries.damaged(expansion.done, str(error))
    table, summary = expansion.result()
    return replace(entries, table=table, summary=summary, arena=_filled(arena), borrowed=arena)


class _Expansion:
    """Entries on their way: `done` of them have become the first `rows` of a new table."""

    def __init__(self, entries: Entries, arena: Arena, *, verify_crc: bool) -> None:
        self.done = self.rows = 0
        self._data, self._entries = entries.data, entries.table
        self._arena = arena
        self._verify_crc = verify_crc
        self._summary = np.zeros(len(Summary._fields), np.int64)
        self._by_libraries = 0
        rows = len(entries.table)
        if entries.summary.formats != FORMAT_2_ONLY:
            rows += entries.data.size // MESSAGE_BYTES_GUESS
        self._table = leased(rows)

    def run(self) -> None:
        """Expand all entries; raises CorruptRecord where that ends before."""
        run = 1
        while True:
            before = self.done
            status = self._ask_kernel()
            if status == layout.FULL:
                self._make_room(3 * len(self._table))
            elif status == layout.LEFT:
                run = 1 if self.done > before else min(2 * run, LIBRARY_RUN_MAX)
                entries = self._entries[self.done : self.done + run]
                for entry in entries[self._zstd_run(entries) :]:
                    self._append(self._by_library(entry))
            else:
                return

    def result(self) -> tuple[Table, Summary]:
        """The rows so far, and their sums."""
        table = self._table[: self.rows]
        return table, summarize(table) if self._by_libraries else Summary(*self._summary.tolist())

    def _ask_kernel(self) -> int:
        path, arena = kernels.path(), self._arena
        verify = path.VERIFY if self._verify_crc else layout.VERIFY_NOTHING
        state = np.array([self.done, self.rows, arena.size], np.int64)
        status: int = path.expand_entries(
            self._data,
            self._entries,
            verify,
            RECORDS_MAX,
            arena.memory,
            arena.scratch,
            self._table,
            state,
            self._summary,
        )
        self.done, self.rows, arena.size = state.tolist()
        return status

    def _by_library(self, entry: Row) -> Table:
        """The rows that one entry becomes."""
        fields = entry.tolist()
        is_empty = fields[layout.START] >= fields[layout.END]
        if is_empty or not fields[layout.ATTRIBUTES] & record_layout.CODEC_MASK:
            return entry[np.newaxis]
        if fields[layout.MAGIC] < 2:
            return _unwrapped(self._data, entry, self._arena, verify_crc=self._verify_crc)
        fields[layout.START] = _decompress_batch(self._data, fields, self._arena)
        fields[layout.END] = self._arena.size
        fields[layout.SOURCE] = 1
        return np.array([fields], np.int64)

    def _zstd_run(self, entries: Table) -> int:
        """Append the first of these entries if they are small zstd batches; returns how many they were."""
        if len(entries) < 2 or entries[0, layout.ATTRIBUTES] & record_layout.CODEC_MASK != Codec.ZSTD:
            return 0
        sizes = entries[:, layout.END] - entries[:, layout.START]
        fits = (
            (entries[:, layout.ATTRIBUTES] & record_layout.CODEC_MASK == Codec.ZSTD)
            & (entries[:, layout.MAGIC] == 2)
            & (entries[:, layout.COUNT] <= RECORDS_MAX)
            & (sizes > 0)
            & (sizes <= ZSTD_RUN_BYTES_MAX)
        )
        count = len(entries) if fits.all() else int(fits.argmin())
        if count < 2:
            return 0
        view = self._data.data
        rows = entries[:count].copy()
        bounds = rows[:, [layout.START, layout.END]].tolist()
        spans = self._arena.append_zstd([view[start:end] for start, end in bounds])
        if spans is None:
            return 0
        rows[:, [layout.START, layout.END]] = spans
        rows[:, layout.SOURCE] = 1
        self._append(rows, count)
        return count

    def _append(self, rows: Table, entries: int = 1) -> None:
        self._make_room(len(rows))
        self._table[self.rows : self.rows + len(rows)] = rows
        self.rows += len(rows)
        self.done += entries
        self._by_libraries += entries

    def _make_room(self, rows: int) -> None:
        """For so many rows more."""
        if rows > len(self._table) - self.rows:
            larger = leased(max(self.rows + rows, 2 * len(self._table)))
            larger[: self.rows] = self._table[: self.rows]
            self._table = larger


def give_back_arena(entries: Entries) -> None:
    """Release the arena: decoding has copied the decompressed bytes out."""
    if entries.borrowed is not None and entries.borrowed.capacity <= ARENA_KEPT_BYTES:
        _ARENAS.append(entries.borrowed)


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


def _filled(arena: Arena) -> U8Array:
    view = arena.view
    view.flags.writeable = False
    return view


def _decompress_batch(data: U8Array, entry: list[int], arena: Arena) -> int:
    """Where the records of a batch begin in the arena."""
    codec = Codec.of_attributes(entry[layout.ATTRIBUTES])
    if entry[layout.COUNT] > RECORDS_MAX:
        raise too_many(f"{entry[layout.COUNT]:,} records", RECORDS_MAX)
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
        return emptied(wrapper[np.newaxis].copy(), np.ones(1, np.bool_))
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
