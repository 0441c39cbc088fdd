"""What compaction keeps of sealed segments, decided by columns and written into new files.

A record stays if no later one of its key is known and it is not a tombstone that may go; records at and
behind `KeyOffsets.mapped_to` are not known yet and stay. What is left of a batch:

    all of it        copied, in runs
    some records     written anew (`batch_rewrite`)
    none             gone, unless the batch is needed: then it stays without records

The last batch of a group is needed so that the new file covers the group's offsets, from which recovery knows
what it replaces; the last batch of a producer for its sequence number. Control batches stay.

Runs in any thread: it reads descriptors of its own and writes into segments that nobody else has yet.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import IntEnum
from itertools import pairwise, repeat
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ottla.kernels import layout
from ottla.log.batch_header import DELETE_HORIZON, header_at
from ottla.log.batch_rewrite import with_records, without_records
from ottla.log.key_offsets import KeyOffsets
from ottla.log.recent_batches import BatchPlace
from ottla.log.sealed_copy import SealedCopy
from ottla.log.segment import Segment
from ottla.model.errors import CorruptRecord, DamagedLog
from ottla.records.entries import Table, read_only, scan
from ottla.records.reader import decode

CHUNK_BYTES = 4 << 20
ENTRY, END = layout.ENTRY, layout.END

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


class Piece(NamedTuple):
    """Some whole entries of a file: bytes, their table (`kernels.layout`), and columns of their records."""

    data: memoryview
    table: Table
    keys: pa.Array
    offsets: Ints
    times: Ints
    is_tombstone: Bools

    @classmethod
    def of(cls, data: memoryview, table: Table, rows: pa.RecordBatch) -> Piece:
        """Of decoded records."""
        times = rows.column("timestamp").cast("int64").fill_null(-1).to_numpy()
        offsets = rows.column("offset").to_numpy()
        return cls(data, table, rows.column("key"), offsets, times, _is_null(rows.column("value")))

    def column(self, name: int) -> Ints:
        """One column of the table."""
        return self.table[:, name]


class Rule(NamedTuple):
    """What the records of one run are held against. Times are milliseconds.

    `legacy_horizon_ms`: tombstones of formats 0 and 1 go from files that were last written at or before.
    """

    keys: KeyOffsets
    now_ms: int
    delete_retention_ms: int
    legacy_horizon_ms: int
    last_of_producer: dict[int, int]


class Fate(IntEnum):
    """What becomes of an entry."""

    GONE = 0
    WHOLE = 1
    CHANGED = 2


class Choice(NamedTuple):
    """Which records of a piece stay; and of each entry, its fate and where its records end."""

    keep: Bools
    row_ends: Ints  # with a 0 in front
    fate: Ints
    is_needed: Bools
    gets_horizon: Bools


def pieces(source: SealedCopy, from_offset: int = 0) -> Iterator[Piece]:
    """All entries of a file in order, with the records at and behind an offset. Raises DamagedLog."""
    for position, data, table in _tables(source):
        at = 0
        while at < len(data):
            try:
                decoded = decode(data[at:], from_offset=from_offset)
                if decoded.damage is not None:
                    raise decoded.damage
            except CorruptRecord as damage:
                raise _damaged(source, position + at, str(damage)) from damage
            # Less than all of it where the limit on decompressed bytes was reached.
            end = at + decoded.valid_bytes
            first, last = np.searchsorted(table[:, ENTRY], (at, end)).tolist()
            yield Piece.of(data, table[first:last], decoded.batch)
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
    """The base offset of the last batch of each producer that wrote at or after a time."""
    found: dict[int, tuple[int, int]] = {}
    for source in sources:
        for _, _, table in _tables(source):
            by_producer = table[table[:, layout.PRODUCER_ID] >= 0]
            columns = (layout.PRODUCER_ID, layout.BASE_OFFSET, layout.MAX_TIMESTAMP)
            producers, offsets, times = (by_producer[:, column].tolist() for column in columns)
            found.update(zip(producers, zip(offsets, times, strict=True), strict=True))
    return {producer: offset for producer, (offset, time) in found.items() if time >= active_since_ms}


def map_keys(sources: Sequence[SealedCopy], keys: KeyOffsets) -> None:
    """Note the last offset of each key, from `keys.mapped_to` on, as far as there is room for keys."""
    for source in sources:
        if source.next_offset <= keys.mapped_to:
            continue
        for piece in pieces(source, keys.mapped_to):
            if not keys.add(piece.keys, piece.offsets):
                return
            keys.mapped_to = max(keys.mapped_to, int(piece.table[-1, layout.LAST_OFFSET]) + 1)
        keys.mapped_to = max(keys.mapped_to, source.next_offset)


class Cleaned(NamedTuple):
    """What became of a group. Where nothing changed, its new file is not worth having."""

    records_dropped: int
    is_changed: bool


def clean(group: Sequence[SealedCopy], target: Segment, rule: Rule) -> Cleaned:
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
    return Cleaned(dropped, is_changed)


def _choose(piece: Piece, source: SealedCopy, rule: Rule, *, is_last: bool) -> Choice:
    """What stays of a piece; `is_last`: nothing of its group comes behind."""
    is_batch, attributes = piece.column(layout.MAGIC) == 2, piece.column(layout.ATTRIBUTES)
    has_horizon = is_batch & (attributes & DELETE_HORIZON != 0)
    is_expired = np.where(
        is_batch,
        has_horizon & (piece.column(layout.BASE_TIMESTAMP) <= rule.now_ms),
        source.modified_ms <= rule.legacy_horizon_ms,
    )
    ends = np.searchsorted(piece.offsets, piece.column(layout.LAST_OFFSET), side="right")
    row_ends = np.concatenate(([0], ends))
    counts = np.diff(row_ends)
    keep = _keep(piece, rule, np.repeat(is_expired, counts))

    def count(mask: Bools) -> Ints:
        return np.diff(np.concatenate(([0], np.cumsum(mask)))[row_ends])

    kept = count(keep)
    gets_horizon = is_batch & ~has_horizon & (count(keep & piece.is_tombstone) > 0)
    is_needed = _is_last_of_producer(piece, rule.last_of_producer)
    is_needed[-1] |= is_last
    is_control = is_batch & (attributes & layout.CONTROL != 0)
    is_empty_already = is_needed & is_batch & (counts == 0)
    stays_whole = (kept == counts) & (counts > 0) & ~gets_horizon
    fate = np.where((kept > 0) | is_needed, Fate.CHANGED, Fate.GONE)
    fate[is_control | stays_whole | is_empty_already] = Fate.WHOLE
    return Choice(keep, row_ends, fate, is_needed, gets_horizon)


def _keep(piece: Piece, rule: Rule, is_expired: Bools) -> Bools:
    """Which records stay; `is_expired`: a tombstone in that place may go."""
    is_latest = rule.keys.last_offsets(piece.keys) <= piece.offsets
    stays = ~_is_null(piece.keys) & is_latest & ~(piece.is_tombstone & is_expired)
    return stays | (piece.offsets >= rule.keys.mapped_to)


def _is_null(column: pa.Array) -> Bools:
    return column.is_null().to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]


def _is_last_of_producer(piece: Piece, last_of_producer: dict[int, int]) -> Bools:
    producers, offsets = piece.column(layout.PRODUCER_ID), piece.column(layout.BASE_OFFSET)
    if not last_of_producer or (producers < 0).all():
        return np.zeros(len(producers), np.bool_)
    last = np.fromiter(map(last_of_producer.get, producers.tolist(), repeat(-1)), np.int64, len(producers))
    return (producers >= 0) & (last == offsets)  # type: ignore[no-any-return]


def _write(target: Segment, piece: Piece, choice: Choice, horizon_ms: int) -> None:
    """Append what stays of a piece."""
    buffers: list[bytes | memoryview] = []
    places: list[BatchPlace] = []
    changes = np.flatnonzero(np.diff(choice.fate)) + 1
    for first, last in pairwise([0, *changes.tolist(), len(choice.fate)]):
        match choice.fate[first]:
            case Fate.WHOLE:
                buffers.append(piece.data[piece.table[first, ENTRY] : piece.table[last - 1, END]])
                places += _places(piece.table[first:last])
            case Fate.CHANGED:
                for index in range(first, last):
                    for entry in _remains(piece, choice, index, horizon_ms):
                        buffers.append(entry)
                        header = header_at(entry, 0, 0)
                        assert header is not None
                        places.append((header.size, header.last_offset, header.max_timestamp))
    if places:
        target.append([b"".join(buffers)], places)


def _places(table: Table) -> Iterator[BatchPlace]:
    sizes = table[:, END] - table[:, ENTRY]
    columns = (sizes, table[:, layout.LAST_OFFSET], table[:, layout.MAX_TIMESTAMP])
    return zip(*(column.tolist() for column in columns), strict=True)


def _remains(piece: Piece, choice: Choice, index: int, horizon_ms: int) -> Iterator[bytes]:
    """What stays of an entry that loses records or gets a horizon."""
    start = int(piece.table[index, ENTRY])
    header = header_at(piece.data, start, start)
    assert header is not None
    first, last = int(choice.row_ends[index]), int(choice.row_ends[index + 1])
    keep = choice.keep[first:last]
    if keep.any():
        newest = int(piece.times[first:last][keep].max())
        horizon = horizon_ms if choice.gets_horizon[index] else None
        entry = piece.data[start : start + header.size]
        yield with_records(entry, header, keep.tolist(), newest, horizon)
        if header.magic == 2 or keep[-1]:
            return  # else: a wrapper ends where its last message does
    if choice.is_needed[index]:
        yield without_records(header)
