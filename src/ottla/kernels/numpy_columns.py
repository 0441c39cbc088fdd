"""Where decoded records go: the columns of a slab, filled from their front.

See `record_decode` for the layout. Whatever is written after the totals in `state` does not count.
"""

from __future__ import annotations

from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from ottla.kernels.layout import (
    FAILED_ROW,
    HEADERS,
    KEY_BYTES,
    KEY_ENDS_AT,
    KEY_NULLS,
    OFFSETS_AT,
    ROWS,
    TIMESTAMP_TYPES_AT,
    TIMESTAMPS_AT,
    TIMESTAMPS_MISSING,
    VALUE_BYTES,
    VALUE_ENDS_AT,
    VALUE_NULLS,
)
from ottla.kernels.numpy_bytes import I32Array, I64Array, U8Array, gather
from ottla.model.record_layout import NO_TIMESTAMP

Number = TypeVar("Number", bound=np.generic)


class Damaged(Exception):
    """Entry `entry` of the table is not sound; those before it have been delivered."""

    def __init__(self, entry: int, status: int) -> None:
        self.entry = entry
        self.status = status


class BadRecord(Exception):
    """Record `index` of a chunk does not fit its bytes."""

    def __init__(self, index: int) -> None:
        self.index = index


def refuse(wrong: npt.NDArray[np.bool_]) -> None:
    if wrong.any():
        raise BadRecord(int(wrong.argmax()))


def typed_part(slab: U8Array, parts: I64Array, part: int, kind: type[Number]) -> npt.NDArray[Number]:
    """A part of a slab as an array of numbers."""
    start, stop, size = int(parts[part]), int(parts[part + 1]), np.dtype(kind).itemsize
    return slab[start : start + (stop - start) // size * size].view(kind)


class BinaryColumn:
    """A column of bytes in a slab, filled from its front: ends, validity bits, data.

    `first` is the place of its ends in `parts`; validity and data are the next two.
    """

    def __init__(self, slab: U8Array, parts: I64Array, first: int) -> None:
        self.ends: I32Array = typed_part(slab, parts, first, np.int32)
        self.valid = slab[parts[first + 1] : parts[first + 2]]
        self.data = slab[parts[first + 2] : parts[first + 3]]

    def begin(self) -> None:
        """The first end is 0; validity starts all ones, and a null clears its bit."""
        self.ends[0] = 0
        self.valid[:] = 0xFF

    def append(self, row: int, at: int, data: U8Array, starts: I64Array, sizes: I64Array) -> tuple[int, int]:
        """Values from `row` on, with their bytes from `at` on; size -1 is null. Answers (end, nulls)."""
        nulls = np.flatnonzero(sizes < 0)
        if nulls.size:
            sizes = np.maximum(sizes, 0)
            bits = nulls + row
            np.bitwise_and.at(self.valid, bits >> 3, ~(1 << (bits & 7)).astype(np.uint8))
        self.ends[row + 1 : row + 1 + sizes.size] = at + np.cumsum(sizes)
        return gather(self.data, at, data, starts, sizes), nulls.size


class RecordRows(NamedTuple):
    """Records to append: a value each, and where key, value and headers lie in their source.

    `header_start` is inverted (~) for the arena, as `header_at` wants it.
    """

    offset: I64Array
    timestamp: I64Array
    timestamp_type: I64Array
    key_start: I64Array
    key_size: I64Array
    value_start: I64Array
    value_size: I64Array
    header_start: I64Array
    header_stop: I64Array
    header_count: I64Array

    def of(self, selection: npt.NDArray[np.bool_]) -> RecordRows:
        return RecordRows(*(column[selection] for column in self))


class GatheredColumns:
    """The columns of one slab, and running totals that become `state` when `commit` is called."""

    def __init__(
        self,
        slab: U8Array,
        parts: I64Array,
        header_at: I64Array | None,
        header_stop: I64Array | None,
        state: I64Array,
    ) -> None:
        self.offsets = typed_part(slab, parts, OFFSETS_AT, np.int64)
        self.timestamps = typed_part(slab, parts, TIMESTAMPS_AT, np.int64)
        self.timestamp_types = typed_part(slab, parts, TIMESTAMP_TYPES_AT, np.int8)
        self.keys = BinaryColumn(slab, parts, KEY_ENDS_AT)
        self.values = BinaryColumn(slab, parts, VALUE_ENDS_AT)
        self.header_at = header_at
        self.header_stop = header_stop
        self.state = state
        self.totals: list[int] = state.tolist()
        if not self.totals[ROWS]:
            self.keys.begin()
            self.values.begin()

    def append(self, rows: RecordRows, data: U8Array, from_offset: int) -> None:
        """Those of `rows` whose offset is from_offset or more."""
        wanted = rows.offset >= from_offset
        if not wanted.all():
            rows = rows.of(wanted)
        totals, first, last = self.totals, self.totals[ROWS], self.totals[ROWS] + rows.offset.size
        self.offsets[first:last] = rows.offset
        self.timestamps[first:last] = rows.timestamp
        self.timestamp_types[first:last] = rows.timestamp_type
        totals[TIMESTAMPS_MISSING] += int(np.count_nonzero(rows.timestamp == NO_TIMESTAMP))
        totals[KEY_BYTES], nulls = self.keys.append(
            first, totals[KEY_BYTES], data, rows.key_start, rows.key_size
        )
        totals[KEY_NULLS] += nulls
        totals[VALUE_BYTES], nulls = self.values.append(
            first, totals[VALUE_BYTES], data, rows.value_start, rows.value_size
        )
        totals[VALUE_NULLS] += nulls
        if self.header_at is not None and self.header_stop is not None:
            self.header_at[first:last] = rows.header_start
            self.header_stop[first:last] = rows.header_stop
            totals[HEADERS] += int(rows.header_count.sum())
        totals[ROWS] = last

    def commit(self) -> None:
        self.state[:] = self.totals

    def damaged(self, damage: Damaged) -> int:
        self.state[FAILED_ROW] = damage.entry
        return damage.status
