"""The decode of format 2 without Numba; see `record_decode` for what it promises.

A record begins where the one before it ends, so Python walks from length to length. Everything else is
read for a chunk of records at once: usually some batches, or a part of a very large one. Totals move only
where an entry is complete.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice, repeat
from typing import NamedTuple

import numpy as np

from ottla.kernels.layout import (
    ATTRIBUTES,
    BAD_FIELD,
    BAD_RECORD,
    BASE_OFFSET,
    BASE_TIMESTAMP,
    COUNT,
    END,
    MAX_TIMESTAMP,
    OK,
    SOURCE,
    START,
)
from ottla.kernels.numpy_bytes import CHUNK_RECORDS, VARINT_BITS, I64Array, U8Array, read_varints
from ottla.kernels.numpy_columns import BadRecord, Damaged, GatheredColumns, RecordRows, refuse
from ottla.model.record_layout import LOG_APPEND_TIME, RECORD_SIZE_MIN


class RecordFields(NamedTuple):
    """What records say, a column for each field. Positions are in the source; a null has size -1."""

    timestamp_delta: I64Array
    offset_delta: I64Array
    key_start: I64Array
    key_size: I64Array
    value_start: I64Array
    value_size: I64Array
    header_start: I64Array
    header_count: I64Array


@dataclass(slots=True)
class _Chunk:
    """Records from `begins` to `stops` of entries `first` and on, `counts` of each."""

    data: U8Array
    source: int
    first: int
    counts: list[int]
    begins: I64Array
    stops: I64Array
    is_complete: bool  # whether its last entry ends with it

    def before(self, entries: int) -> _Chunk:
        """Only the first `count` entries."""
        counts = self.counts[:entries]
        records = sum(counts)
        begins, stops = self.begins[:records], self.stops[:records]
        return _Chunk(self.data, self.source, self.first, counts, begins, stops, entries > 0)


def decode_batches(
    raw: U8Array,
    arena: U8Array,
    table: I64Array,
    first: int,
    last: int,
    from_offset: int,
    slab: U8Array,
    parts: I64Array,
    header_at: I64Array | None,
    header_stop: I64Array | None,
    state: I64Array,
) -> int:
    """As `record_decode.decode_batches`."""
    columns = GatheredColumns(slab, parts, header_at, header_stop, state)
    try:
        for chunk in _chunks(raw, arena, table, first, last):
            _append_chunk(columns, chunk, table, from_offset)
    except Damaged as damage:
        return columns.damaged(damage)
    return OK


def fields_of_batch(data: U8Array, count: int) -> Iterator[tuple[I64Array, I64Array, RecordFields]]:
    """Yield begins, ends and fields of `count` records that fill `data`, CHUNK_RECORDS at a time.

    Raises BadRecord or Damaged at the first that does not hold. Headers are counted, not read.
    """
    for chunk in _walked(data, 0, 0, 0, data.size, count):
        yield chunk.begins, chunk.stops, _read_fields(data, chunk.begins, chunk.stops)


def _chunks(raw: U8Array, arena: U8Array, table: I64Array, first: int, last: int) -> Iterator[_Chunk]:
    """Walk entries first to last; damage is raised after what is sound before it."""
    gathered: list[_Chunk] = []
    records = 0
    damage = None
    columns = table[first:last, [START, END, COUNT, SOURCE]].tolist()
    for entry, (start, end, count, source) in enumerate(columns, first):
        if gathered and (source != gathered[0].source or records + count > CHUNK_RECORDS):
            yield _joined(gathered)
            gathered, records = [], 0
        try:
            walk = _walked(arena if source == 1 else raw, source, entry, start, end, count)
            for chunk in walk:
                if chunk.is_complete:
                    gathered.append(chunk)
                    records += count
                else:
                    yield chunk
        except Damaged as error:
            damage = error
            break
    if gathered:
        yield _joined(gathered)
    if damage is not None:
        raise damage


def _joined(chunks: list[_Chunk]) -> _Chunk:
    """Chunks of successive entries as one."""
    if len(chunks) == 1:
        return chunks[0]
    whole = chunks[0]
    whole.counts = [count for chunk in chunks for count in chunk.counts]
    whole.begins = np.concatenate([chunk.begins for chunk in chunks])
    whole.stops = np.concatenate([chunk.stops for chunk in chunks])
    return whole


def _walked(data: U8Array, source: int, entry: int, start: int, end: int, count: int) -> Iterator[_Chunk]:
    """The records of one entry, usually one chunk."""
    if count > (end - start) // RECORD_SIZE_MIN:
        raise Damaged(entry, BAD_FIELD)
    positions = _positions(data[start:end].tobytes(), count)
    begin = next(positions)
    steps = range(0, max(count, 1), CHUNK_RECORDS)
    for done in steps:
        size = min(steps.step, count - done)
        bounds = np.empty(size + 1, np.int64)
        bounds[0] = begin
        try:
            bounds[1:] = np.fromiter(islice(positions, size), np.int64, size)
        except IndexError:
            raise Damaged(entry, BAD_RECORD) from None
        begin = int(bounds[-1])
        is_complete = done + size == count
        if is_complete and begin != end - start:
            raise Damaged(entry, BAD_RECORD)
        bounds += start
        yield _Chunk(data, source, entry, [size], bounds[:-1], bounds[1:], is_complete)


def _positions(records: bytes, count: int) -> Iterator[int]:
    """Where each record begins, and where the last one ends; IndexError if that is outside.

    A negative length, which is an odd zig-zag number, is left to the reading of fields.
    """
    at = 0
    for _ in repeat(None, count):
        yield at
        byte = records[at]
        if byte < 0x80:
            at += 1 + (byte >> 1)
        else:
            second = records[at + 1]
            # Two bytes, and half of what they say, without the 0x80 of the first.
            at = at - 62 + (byte >> 1) + (second << 6) if second < 0x80 else _after_long(records, at)
    yield at


def _after_long(records: bytes, at: int) -> int:
    """Where a record ends whose length takes more than two bytes."""
    value = 0
    for shift in range(0, VARINT_BITS, 7):
        byte = records[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return at + (value >> 1)
    raise IndexError("a varint of more than nine bytes")


def _append_chunk(columns: GatheredColumns, chunk: _Chunk, table: I64Array, from_offset: int) -> None:
    """Deliver the sound entries of a chunk, then raise if one was not."""
    damage = None
    while True:
        try:
            fields = _read_fields(chunk.data, chunk.begins, chunk.stops)
            break
        except BadRecord as bad:
            # What is checked late may be wrong in an earlier record, so the rest is read again.
            sound = int(np.searchsorted(np.cumsum(chunk.counts), bad.index, side="right"))
            damage = Damaged(chunk.first + sound, BAD_RECORD)
            chunk = chunk.before(sound)
    columns.append(_placed(fields, chunk, table), chunk.data, from_offset)
    if chunk.is_complete:
        columns.commit()
    if damage is not None:
        raise damage


def _placed(fields: RecordFields, chunk: _Chunk, table: I64Array) -> RecordRows:
    """Deltas added to what the entries say."""
    entries = table[chunk.first : chunk.first + len(chunk.counts)]
    is_append_time = (entries[:, ATTRIBUTES] & LOG_APPEND_TIME) != 0
    base_timestamp = np.where(is_append_time, entries[:, MAX_TIMESTAMP], entries[:, BASE_TIMESTAMP])
    timestamp_type = np.repeat(is_append_time.astype(np.int64), chunk.counts)
    timestamp_delta = fields.timestamp_delta
    if is_append_time.any():
        timestamp_delta = np.where(timestamp_type, 0, timestamp_delta)
    return RecordRows(
        np.repeat(entries[:, BASE_OFFSET], chunk.counts) + fields.offset_delta,
        np.repeat(base_timestamp, chunk.counts) + timestamp_delta,
        timestamp_type,
        *fields[2:6],
        ~fields.header_start if chunk.source == 1 else fields.header_start,
        chunk.stops,
        fields.header_count,
    )


def _read_fields(data: U8Array, begins: I64Array, stops: I64Array) -> RecordFields:
    """Read records that end where they say; raises BadRecord if one holds more or less than that."""
    size, at = read_varints(data, begins, stops)
    refuse(size < 0)
    timestamp_delta, at = read_varints(data, at + 1, stops)
    offset_delta, at = read_varints(data, at, stops)
    key_size, key_start = read_varints(data, at, stops)
    room = stops - key_start
    refuse((room < 0) | (key_size < -1) | (key_size > room) | (offset_delta >> 31 != 0))
    value_size, value_start = read_varints(data, key_start + np.maximum(key_size, 0), stops)
    room = stops - value_start
    refuse((room < 0) | (value_size < -1) | (value_size > room))
    header_start = value_start + np.maximum(value_size, 0)
    header_count = _read_header_counts(data, header_start, stops)
    return RecordFields(
        timestamp_delta,
        offset_delta,
        key_start,
        key_size,
        value_start,
        value_size,
        header_start,
        header_count,
    )


def _read_header_counts(data: U8Array, at: I64Array, stops: I64Array) -> I64Array:
    """Usually all are 0, and each is its record's last byte."""
    counts = np.zeros(at.size, np.int64)
    rows = np.flatnonzero((stops - at != 1) | (data.take(at, mode="clip") != 0))
    if rows.size:
        count, after = read_varints(data, at[rows], stops[rows])
        room = stops[rows] - after
        # A header takes two bytes at least.
        wrong = np.flatnonzero((room < 0) | (count <= 0) | (count > room >> 1))
        if wrong.size:
            raise BadRecord(int(rows[wrong[0]]))
        counts[rows] = count
    return counts
