"""The decode of formats 0 and 1 without Numba; see `record_decode` for what it promises."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from ottla.kernels.layout import (
    ATTRIBUTES,
    BAD_RECORD,
    BASE_OFFSET,
    BASE_TIMESTAMP,
    COUNT,
    END,
    MAGIC,
    OK,
    SOURCE,
    START,
)
from ottla.kernels.numpy_bytes import CHUNK_RECORDS, I64Array, U8Array, read_numbers
from ottla.kernels.numpy_columns import BadRecord, Damaged, GatheredColumns, RecordRows, refuse
from ottla.model.record_layout import LENGTH_BYTES, LOG_APPEND_TIME, NO_TIMESTAMP_TYPE


def decode_messages(
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
    """As `record_decode.decode_messages`."""
    columns = GatheredColumns(slab, parts, header_at, header_stop, state)
    try:
        for start, stop in _message_chunks(table, first, last):
            data = arena if table[start, SOURCE] == 1 else raw
            _append_messages(columns, data, table, start, stop, from_offset)
    except Damaged as damage:
        return columns.damaged(damage)
    return OK


def _message_chunks(table: I64Array, first: int, last: int) -> Iterator[tuple[int, int]]:
    """Not too many messages, all of one source."""
    changes = np.flatnonzero(np.diff(table[first:last, SOURCE])) + first + 1
    bounds = [first, *changes.tolist(), last]
    for start, end in pairwise(bounds):
        for at in range(start, end, CHUNK_RECORDS):
            yield at, min(at + CHUNK_RECORDS, end)


def _append_messages(
    columns: GatheredColumns, data: U8Array, table: I64Array, first: int, last: int, from_offset: int
) -> None:
    """Deliver messages first to last of the table, up to the first that is damaged, and raise for that."""
    damage = None
    # A message without a count is hidden.
    entries = first + np.flatnonzero(table[first:last, COUNT])
    while True:
        try:
            rows = _read_messages(data, table[entries])
            break
        except BadRecord as bad:
            damage = Damaged(int(entries[bad.index]), BAD_RECORD)
            entries = entries[: bad.index]
    columns.append(rows, data, from_offset)
    columns.commit()
    if damage is not None:
        raise damage


def _read_messages(data: U8Array, entries: I64Array) -> RecordRows:
    start, end = entries[:, START], entries[:, END]
    # Both lengths are there: the scan refused anything smaller.
    key_size = read_numbers(data, start, ">i4")
    refuse((key_size < -1) | (key_size > end - start - 2 * LENGTH_BYTES))
    value_start = start + 2 * LENGTH_BYTES + np.maximum(key_size, 0)
    value_size = read_numbers(data, value_start - LENGTH_BYTES, ">i4")
    refuse((value_size < -1) | (np.maximum(value_size, 0) != end - value_start))
    is_append_time = (entries[:, ATTRIBUTES] & LOG_APPEND_TIME) != 0
    none = np.zeros(start.size, np.int64)
    return RecordRows(
        entries[:, BASE_OFFSET],
        entries[:, BASE_TIMESTAMP],
        np.where(entries[:, MAGIC] == 1, is_append_time, NO_TIMESTAMP_TYPE),
        start + LENGTH_BYTES,
        key_size,
        value_start,
        value_size,
        none,
        none,
        none,
    )
