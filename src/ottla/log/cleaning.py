"""What compaction keeps of sealed segments, decided by columns and written into new files.

A record stays if no later one of its key is known and it is not a tombstone that may go; records at and
after `KeyOffsets.mapped_to` are not known yet and stay. What is left of a batch:

    all of it        copied, in runs
    some records     written anew (`batch_rewrite`)
    none             gone, unless the batch is needed: then it stays without records

The last batch of a group is needed so that the new file covers the group's offsets, from which recovery knows
what it replaces; the last batch of a producer for its sequence number, or its marker for its epoch. For
transactions see `transaction_cleaning`.

Runs in any thread: it reads descriptors of its own and writes into segments that no other thread knows yet.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from copy import copy
from enum import IntEnum
from itertools import pairwise, repeat
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ottla.kernels import layout
from ottla.log.batch_header import header_at
from ottla.log.batch_rewrite import with_records, without_records
from ottla.log.key_offsets import KeyOffsets
from ottla.log.recent_batches import BatchSummary
from ottla.log.sealed_copy import SealedCopy
from ottla.log.segment import Segment
from ottla.log.transaction_cleaning import CleanedTransactions
from ottla.model import record_layout
from ottla.model.errors import CorruptRecord, DamagedLog
from ottla.model.record_layout import DELETE_HORIZON
from ottla.records.entries import Table, read_only, scan
from ottla.records.reader import decode

CHUNK_BYTES = 4 << 20
ENTRY, END = layout.ENTRY, layout.END
EPOCH_AT = record_layout.BATCH_PRODUCER_EPOCH_AT
_EPOCH = struct.Struct(">h")

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


class CleaningPiece(NamedTuple):
    """Some whole entries of a file: bytes, their table (`kernels.layout`), and columns of their records."""

    data: memoryview
    table: Table
    keys: pa.Array
    offsets: Ints
    times: Ints
    is_tombstone: Bools

    @classmethod
    def of(cls, data: memoryview, table: Table, rows: pa.RecordBatch) -> CleaningPiece:
        """Of decoded records."""
        times = rows.column("timestamp").cast("int64").fill_null(-1).to_numpy()
        offsets = rows.column("offset").to_numpy()
        return cls(data, table, rows.column("key"), offsets, times, _is_null(rows.column("value")))

    def column(self, name: int) -> Ints:
        """One column of the table."""
        return self.table[:, name]


class ProducersLast(NamedTuple):
    """The last batch of a producer."""

    base_offset: int
    time: int
    epoch: int


class CleaningRule(NamedTuple):
    """The rules by which one run keeps records. Times are milliseconds.

    `legacy_horizon_ms`: files last written at or before it lose their tombstones of formats 0 and 1.
    """

    keys: KeyOffsets
    now_ms: int
    delete_retention_ms: int
    legacy_horizon_ms: int
    last_of_producer: dict[int, int]
    transactions: CleanedTransactions


class Fate(IntEnum):
    """What becomes of an entry."""

    GONE = 0
    WHOLE = 1
    CHANGED = 2


class CleaningChoice(NamedTuple):
    """Which records of a piece stay; and of each entry, its fate and where its records end."""

    keep: Bools
    row_ends: Ints  # with a 0 in front
    fate: Ints
    is_needed: Bools
    gets_horizon: Bools


def pieces(source: SealedCopy, from_offset: int = 0) -> Iterator[CleaningPiece]:
    """All entries of a file in order, with the records at and after an offset. Raises DamagedLog."""
    for position, data, table in _tables(source):
        at = 0
        while at < len(data):
            try:
                decoded = decode(data[at:], from_offset=from_offset)
                if decoded.damage is not None:
                    raise copy(decoded.damage)  # no cycle with this frame, as in `decode`
            except CorruptRecord as damage:
                raise _damaged(source, position + at, str(damage)) from damage
            # Less than all of it where the limit on decompressed bytes was reached.
            end = at + decoded.valid_bytes
            first, last = np.searchsorted(table[:, ENTRY], (at, end)).tolist()
            yield CleaningPiece.of(data, table[first:last], decoded.batch)
            at = end


def _tables(source: SealedCopy) -> Iterator[tuple[int, memoryview, Table]]:
    """(position, bytes, table) of as many whole entries as one read gives; checksums are not verified."""
    position, chunk_bytes = 0, CHUNK_BYTES
    while position < source.size:
        wanted = min(chunk_bytes, source.size - position)
        data = source.read(position, wanted)
        entries = scan(read_only(data), verify_crc=False)
        if entries.valid_bytes:
            yield position, memoryview(data)[: entries.valid_bytes], entries.table
        if entries.damage is not None:
            raise _damaged(source, position, str(entries.damage))
        if not entries.valid_bytes and (len(data) < wanted or position + wanted == source.size):
            raise _damaged(source, position, "the file ends within a batch, or was cut")
        # A batch may be larger than what is read at once.
        chunk_bytes = CHUNK_BYTES if entries.valid_bytes else 2 * chunk_bytes
        position += entries.valid_bytes


def _damaged(source: SealedCopy, position: int, what: str) -> DamagedLog:
    text = f"{source.path}, at or behind byte {position}: {what}. Nothing was changed"
    return DamagedLog(text, path=str(source.path), position=position, offset=source.base_offset)


def last_batches(sources: Sequence[SealedCopy], active_since_ms: int) -> dict[int, int]:
    """The base offset of the last batch of each producer that wrote at or after a time.

    It is the one with the last sequence, or the marker that began an epoch without any.
    """
    data: dict[int, ProducersLast] = {}
    markers: dict[int, ProducersLast] = {}
    for source in sources:
        for _, content, table in _tables(source):
            by_producer = table[table[:, layout.PRODUCER_ID] >= 0]
            is_marker = by_producer[:, layout.ATTRIBUTES] & record_layout.CONTROL != 0
            data |= _last_of(by_producer[~is_marker], content)
            markers |= _last_of(by_producer[is_marker], content)
    found = {}
    for producer in data.keys() | markers.keys():
        known = [last[producer] for last in (data, markers) if producer in last]
        if max(last.time for last in known) >= active_since_ms:
            found[producer] = max(known, key=lambda last: last.epoch).base_offset
    return found


def _last_of(rows: Table, content: memoryview) -> dict[int, ProducersLast]:
    columns = (layout.PRODUCER_ID, layout.BASE_OFFSET, layout.MAX_TIMESTAMP, layout.ENTRY)
    producers, *rest = (rows[:, column].tolist() for column in columns)
    last = dict(zip(producers, zip(*rest, strict=True), strict=True))
    return {
        producer: ProducersLast(base_offset, time, _EPOCH.unpack_from(content, at + EPOCH_AT)[0])
        for producer, (base_offset, time, at) in last.items()
    }


def map_keys(sources: Sequence[SealedCopy], keys: KeyOffsets, transactions: CleanedTransactions) -> None:
    """Note the last offset of each key, from `keys.mapped_to` on, as far as there is room for keys.

    Records of aborted transactions do not count.
    """
    for source in sources:
        if source.next_offset <= keys.mapped_to:
            continue
        for piece in pieces(source, keys.mapped_to):
            is_aborted = transactions.is_aborted(piece.table)
            names, offsets = piece.keys, piece.offsets
            if is_aborted.any():
                counts = ~np.repeat(is_aborted, np.diff(_row_ends(piece)))
                names, offsets = names.filter(pa.array(counts)), offsets[counts]
            if not keys.add(names, offsets):
                return
            keys.mapped_to = max(keys.mapped_to, int(piece.table[-1, layout.LAST_OFFSET]) + 1)
        keys.mapped_to = max(keys.mapped_to, source.next_offset)


class Cleaned(NamedTuple):
    """The result for a group of segments. If nothing changed, its new file is not needed."""

    records_dropped: int
    is_changed: bool


def clean(group: Sequence[SealedCopy], target: Segment, rule: CleaningRule) -> Cleaned:
    """Write what stays of neighbouring segments into `target`. Raises OSError, StorageError, DamagedLog."""
    dropped, is_changed = 0, len(group) > 1
    todo = ((source, piece) for source in group for piece in pieces(source))
    current = next(todo, None)
    while current is not None:
        following = next(todo, None)
        source, piece = current
        choice = _choose(piece, source, rule, is_last=following is None)
        dropped += int((~choice.keep).sum())
        is_changed = is_changed or bool((choice.fate != Fate.WHOLE).any())
        _write(target, piece, choice, rule.now_ms + rule.delete_retention_ms)
        current = following
    end = group[-1].next_offset
    target.aborted.extend(rule.transactions.indexed(group[0].base_offset, end))
    return Cleaned(dropped, is_changed)


def _choose(piece: CleaningPiece, source: SealedCopy, rule: CleaningRule, *, is_last: bool) -> CleaningChoice:
    """What stays of a piece; `is_last`: it is the last piece of its group."""
    is_batch, attributes = piece.column(layout.MAGIC) == 2, piece.column(layout.ATTRIBUTES)
    has_horizon = is_batch & (attributes & DELETE_HORIZON != 0)
    is_expired = np.where(
        is_batch,
        has_horizon & (piece.column(layout.BASE_TIMESTAMP) <= rule.now_ms),
        source.modified_ms <= rule.legacy_horizon_ms,
    )
    row_ends = _row_ends(piece)
    counts = np.diff(row_ends)
    is_aborted = np.repeat(rule.transactions.is_aborted(piece.table), counts)
    keep = _keep(piece, rule, np.repeat(is_expired, counts)) & ~is_aborted

    def count(mask: Bools) -> Ints:
        return np.diff(np.concatenate(([0], np.cumsum(mask)))[row_ends])

    kept = count(keep)
    gets_horizon = is_batch & ~has_horizon & (count(keep & piece.is_tombstone) > 0)
    is_producers_last = _is_last_of_producer(piece, rule.last_of_producer)
    is_needed = is_producers_last.copy()
    is_needed[-1] |= is_last
    is_control = is_batch & (attributes & record_layout.CONTROL != 0)
    has_records = piece.column(layout.COUNT) > 0
    is_spent = rule.transactions.spent_markers(piece.table)
    gets_horizon |= is_spent & has_records & ~has_horizon
    is_dropped = is_spent & ~(has_records & (~is_expired | is_producers_last))
    is_empty_already = is_needed & is_batch & ~has_records
    stays_whole = np.where(is_control, ~is_dropped, (kept == counts) & (counts > 0)) & ~gets_horizon
    fate = np.where((kept > 0) | is_needed | gets_horizon, Fate.CHANGED, Fate.GONE)
    fate[stays_whole | is_empty_already] = Fate.WHOLE
    return CleaningChoice(keep, row_ends, fate, is_needed, gets_horizon)


def _row_ends(piece: CleaningPiece) -> Ints:
    """Where the records of each entry end among the piece's, with a 0 in front."""
    ends = np.searchsorted(piece.offsets, piece.column(layout.LAST_OFFSET), side="right")
    return np.concatenate(([0], ends))


def _keep(piece: CleaningPiece, rule: CleaningRule, is_expired: Bools) -> Bools:
    """Which records stay; `is_expired`: where a tombstone may be removed."""
    is_latest = rule.keys.last_offsets(piece.keys) <= piece.offsets
    stays = ~_is_null(piece.keys) & is_latest & ~(piece.is_tombstone & is_expired)
    return stays | (piece.offsets >= rule.keys.mapped_to)


def _is_null(column: pa.Array) -> Bools:
    return column.is_null().to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]


def _is_last_of_producer(piece: CleaningPiece, last_of_producer: dict[int, int]) -> Bools:
    producers, offsets = piece.column(layout.PRODUCER_ID), piece.column(layout.BASE_OFFSET)
    if not last_of_producer or (producers < 0).all():
        return np.zeros(len(producers), np.bool_)
    last = np.fromiter(map(last_of_producer.get, producers.tolist(), repeat(-1)), np.int64, len(producers))
    return (producers >= 0) & (last == offsets)  # type: ignore[no-any-return]


def _write(target: Segment, piece: CleaningPiece, choice: CleaningChoice, horizon_ms: int) -> None:
    """Append what stays of a piece."""
    buffers: list[bytes | memoryview] = []
    summaries: list[BatchSummary] = []
    changes = np.flatnonzero(np.diff(choice.fate)) + 1
    for first, last in pairwise([0, *changes.tolist(), len(choice.fate)]):
        match choice.fate[first]:
            case Fate.WHOLE:
                buffers.append(piece.data[piece.table[first, ENTRY] : piece.table[last - 1, END]])
                summaries += _summaries(piece.table[first:last])
            case Fate.CHANGED:
                for index in range(first, last):
                    for entry in _remains(piece, choice, index, horizon_ms):
                        buffers.append(entry)
                        header = header_at(entry, 0, 0)
                        assert header is not None
                        summaries.append((header.size, header.last_offset, header.max_timestamp))
    if summaries:
        target.append([b"".join(buffers)], summaries)


def _summaries(table: Table) -> Iterator[BatchSummary]:
    sizes = table[:, END] - table[:, ENTRY]
    columns = (sizes, table[:, layout.LAST_OFFSET], table[:, layout.MAX_TIMESTAMP])
    return zip(*(column.tolist() for column in columns), strict=True)


def _remains(piece: CleaningPiece, choice: CleaningChoice, index: int, horizon_ms: int) -> Iterator[bytes]:
    """What stays of an entry that loses records or gets a horizon."""
    start = int(piece.table[index, ENTRY])
    header = header_at(piece.data, start, start)
    assert header is not None
    first, last = int(choice.row_ends[index]), int(choice.row_ends[index + 1])
    keep = choice.keep[first:last]
    if header.is_control and choice.gets_horizon[index]:
        entry = piece.data[start : start + header.size]
        yield with_records(entry, header, (True,), header.max_timestamp, horizon_ms)
        return
    if keep.any():
        newest = int(piece.times[first:last][keep].max())
        horizon = horizon_ms if choice.gets_horizon[index] else None
        entry = piece.data[start : start + header.size]
        yield with_records(entry, header, keep.tolist(), newest, horizon)
        if header.magic == 2 or keep[-1]:
            return  # else: a wrapper ends where its last message does
    if choice.is_needed[index]:
        yield without_records(header)
