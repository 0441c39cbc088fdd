"""The header walk without Numba; see `header_decode` for what it promises.

How many headers each record has is read for all records at once; only the headers that there are get
walked by Python, and their bytes are copied a chunk at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from ottla.kernels.layout import (
    BAD_HEADER,
    FAILED_ROW,
    HEADER_KEY_ENDS_AT,
    HEADER_VALUE_ENDS_AT,
    KEY_BYTES,
    OK,
    ROWS,
    VALUE_BYTES,
    VALUE_NULLS,
)
from ottla.kernels.numpy_bytes import (
    CHUNK_RECORDS,
    VARINT_BITS,
    I64Array,
    U8Array,
    read_varints,
)
from ottla.kernels.numpy_columns import BinaryColumn, typed_part

# Key start, key size, value start, value size.
_CELLS = 4


class _BadHeader(Exception):
    """The headers of record `row` do not fit their bytes."""

    def __init__(self, row: int) -> None:
        self.row = row


class _GatheredHeaders:
    """The header columns of a slab. `headers` and `nulls` are those of complete records."""

    def __init__(self, slab: U8Array, parts: I64Array, capacity: int) -> None:
        self.list_ends = typed_part(slab, parts, 0, np.int32)
        self.keys = BinaryColumn(slab, parts, HEADER_KEY_ENDS_AT)
        self.values = BinaryColumn(slab, parts, HEADER_VALUE_ENDS_AT)
        self.keys.ends[0] = 0
        self.values.begin()
        self.list_ends[0] = 0
        self.room = capacity
        self.headers = 0
        self.nulls = 0
        self.written = self.key_at = self.value_at = 0

    def write(self, data: U8Array, cell_numbers: list[int]) -> None:
        """Append headers that were walked in `data`, and forget them."""
        cells = np.array(cell_numbers, np.int64).reshape(-1, _CELLS).T
        cell_numbers.clear()
        self.key_at, _ = self.keys.append(self.written, self.key_at, data, cells[0], cells[1])
        self.value_at, _ = self.values.append(self.written, self.value_at, data, cells[2], cells[3])
        self.written += cells.shape[1]

    def commit(self, state: I64Array) -> None:
        """Totals of complete records: a damaged one leaves nothing behind."""
        state[ROWS] = self.headers
        state[KEY_BYTES] = self.keys.ends[self.headers]
        state[VALUE_BYTES] = self.values.ends[self.headers]
        state[VALUE_NULLS] = self.nulls


def decode_headers(
    raw: U8Array,
    arena: U8Array,
    header_at: I64Array,
    header_stop: I64Array,
    rows: int,
    capacity: int,
    slab: U8Array,
    parts: I64Array,
    state: I64Array,
) -> int:
    """As `header_decode.decode_headers`."""
    columns = _GatheredHeaders(slab, parts, capacity)
    status, done = OK, rows
    try:
        for first, last in _chunks(header_at, rows):
            is_arena = header_at[first] < 0
            at = ~header_at[first:last] if is_arena else header_at[first:last]
            _decode_chunk(columns, arena if is_arena else raw, first, at, header_stop[first:last])
    except _BadHeader as bad:
        state[FAILED_ROW] = done = bad.row
        status = BAD_HEADER
    if done:
        columns.commit(state)
    return status


def _chunks(header_at: I64Array, rows: int) -> Iterator[tuple[int, int]]:
    """Not too many records, all of one source."""
    changes = np.flatnonzero(np.diff(header_at[:rows] < 0)) + 1
    bounds = [0, *changes.tolist(), rows]
    for start, end in pairwise(bounds):
        steps = range(start, end, CHUNK_RECORDS)
        yield from ((at, min(at + steps.step, end)) for at in steps)


def _decode_chunk(columns: _GatheredHeaders, data: U8Array, first: int, at: I64Array, stop: I64Array) -> None:
    """Records `first` and on, whose headers are between `at` and `stop`; stop 0 is a message without any."""
    counts, after = np.zeros(at.size, np.int64), at.copy()
    there = np.flatnonzero(stop > 0)
    counts[there], after[there] = read_varints(data, at[there], stop[there])
    room = stop - after
    # A header takes two bytes at least, so a larger count cannot end well.
    wrong = (stop > 0) & ((room < 0) | (counts > room >> 1) | ((counts <= 0) & (room != 0)))
    sound = int(wrong.argmax()) if wrong.any() else at.size
    counts = np.maximum(counts[:sound], 0)
    columns.list_ends[first + 1 : first + 1 + sound] = columns.headers + np.cumsum(counts)
    _walk_records(columns, data, first, after[:sound], stop, counts)
    if sound < at.size:
        raise _BadHeader(first + sound)


def _walk_records(
    columns: _GatheredHeaders, data: U8Array, first: int, at: I64Array, stop: I64Array, counts: I64Array
) -> None:
    rows = np.flatnonzero(counts)
    if not rows.size:
        return
    base = int(at[rows[0]])
    text = data[base : int(stop[rows[-1]])].tobytes()
    cell_numbers: list[int] = []
    spans = (rows, at[rows], stop[rows], counts[rows])
    try:
        for row, start, end, count in zip(*(span.tolist() for span in spans), strict=True):
            _walk_record(columns, data, text, base, (start, end, count), cell_numbers, first + row)
    finally:
        if cell_numbers:
            columns.write(data, cell_numbers)


def _walk_record(
    columns: _GatheredHeaders,
    data: U8Array,
    text: bytes,
    base: int,
    span: tuple[int, int, int],
    cell_numbers: list[int],
    row: int,
) -> None:
    """Find the headers of one record; `text` is data from `base` on."""
    at, stop, count = span[0] - base, span[1] - base, span[2]
    nulls = 0
    if columns.headers + count > columns.room:
        raise _BadHeader(row)
    for _ in range(count):
        key_size, key_at = _varint(text, at, stop)
        if key_size < 0 or key_size > stop - key_at:
            raise _BadHeader(row)
        value_size, at = _varint(text, key_at + key_size, stop)
        if at > stop or value_size < -1 or value_size > stop - at:
            raise _BadHeader(row)
        cell_numbers += (base + key_at, key_size, base + at, value_size)
        if value_size < 0:
            nulls += 1
        else:
            at += value_size
        if len(cell_numbers) >= _CELLS * CHUNK_RECORDS:
            columns.write(data, cell_numbers)
    if at != stop:
        raise _BadHeader(row)
    columns.headers += count
    columns.nulls += nulls


def _varint(text: bytes, at: int, stop: int) -> tuple[int, int]:
    """(value, next position), next position > stop on failure."""
    if at < stop and text[at] < 0x80:
        return (text[at] >> 1) ^ -(text[at] & 1), at + 1
    value = 0
    for shift in range(0, VARINT_BITS, 7):
        if at >= stop:
            break
        value |= (text[at] & 0x7F) << shift
        at += 1
        if text[at - 1] < 0x80:
            return (value >> 1) ^ -(value & 1), at
    return 0, stop + 1
