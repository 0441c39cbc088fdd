"""Arrow columns on their way into records: sizes of all values at once, and all their bytes at once.

See `record_encode` for how columns come.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ottla.kernels.numpy_bytes import (
    I32Array,
    I64Array,
    U8Array,
    gather,
    ranges,
    scatter,
    varint_sizes,
    write_varints,
)
from ottla.model.record_layout import RECORD_OVERHEAD_MAX

NO_PICKS: I64Array = np.zeros(0, np.int64)


def ends_ascend(ends: I32Array) -> bool:
    """Whether no value ends before it begins."""
    return not bool((ends[1:] < ends[:-1]).any())


class BinarySource(NamedTuple):
    """Where the values of some rows begin, and the size of each: -1 for null."""

    starts: I64Array
    data: U8Array
    sizes: I64Array
    is_packed: bool  # the values lie one after the other

    @classmethod
    def of(
        cls, rows: int, picks: I64Array, ends: I32Array, data: U8Array, valid: U8Array, valid_at: int
    ) -> BinarySource:
        """Of the rows `picks`, or of the first `rows` if there are none."""
        if not ends.size:
            return cls(np.zeros(rows, np.int64), data, np.full(rows, -1, np.int64), is_packed=True)
        chosen = picks if picks.size else np.arange(rows)
        starts = ends[chosen].astype(np.int64)
        sizes = ends[chosen + 1] - starts
        is_packed = not picks.size
        if valid.size:
            bits = chosen + valid_at
            is_null = (valid[bits >> 3] >> (bits & 7).astype(np.uint8)) & 1 == 0
            # Nulls may have bytes too; they are left out.
            is_packed = is_packed and not sizes[is_null].any()
            sizes[is_null] = -1
        return cls(starts, data, sizes, is_packed)

    @property
    def lengths(self) -> I64Array:
        """Of the bytes, so 0 for null."""
        return np.maximum(self.sizes, 0)

    @property
    def varint_lengths(self) -> I64Array:
        """Of the bytes with their size in front."""
        return varint_sizes(self.sizes) + self.lengths

    def packed(self, first: int, last: int) -> U8Array:
        """The bytes of values first to last, one after the other."""
        lengths = np.maximum(self.sizes[first:last], 0)
        total = int(lengths.sum())
        if self.is_packed:
            start = int(self.starts[first]) if total else 0
            return self.data[start : start + total]
        out = np.empty(total, np.uint8)
        gather(out, 0, self.data, self.starts[first:last], lengths)
        return out

    def write(self, out: U8Array, at: I64Array, first: int, last: int) -> I64Array:
        """Write values first to last behind their sizes; answers where they end."""
        sizes = self.sizes[first:last]
        return self.write_bytes(out, write_varints(out, at, sizes), first, last)

    def write_bytes(self, out: U8Array, at: I64Array, first: int, last: int) -> I64Array:
        """Write the bytes of values first to last; answers where they end."""
        lengths = np.maximum(self.sizes[first:last], 0)
        scatter(out, at, lengths, self.packed(first, last))
        return at + lengths


class HeaderSource(NamedTuple):
    """The headers of some records: record r has those from ends[r] to ends[r + 1]."""

    ends: I64Array
    key: BinarySource
    value: BinarySource
    positions: I64Array  # of each header, and the end, as if all were written one after the other
    room: I64Array  # of each record, as the kernel reckons it: with the bytes of nulls

    @classmethod
    def of(
        cls,
        rows: int,
        picks: I64Array,
        ends: I32Array,
        key_ends: I32Array,
        key_data: U8Array,
        value_ends: I32Array,
        value_data: U8Array,
        value_valid: U8Array,
        value_valid_at: int,
    ) -> HeaderSource:
        chosen = picks if picks.size else np.arange(rows)
        firsts, lasts = ends[chosen].astype(np.int64), ends[chosen + 1].astype(np.int64)
        counts = lasts - firsts
        headers = ranges(counts) + np.repeat(firsts, counts)
        key = BinarySource.of(headers.size, headers, key_ends, key_data, key_data[:0], 0)
        value = BinarySource.of(headers.size, headers, value_ends, value_data, value_valid, value_valid_at)
        sizes = key.varint_lengths + value.varint_lengths
        reach = key_ends.astype(np.int64) + value_ends
        room = reach[lasts] - reach[firsts] + counts * RECORD_OVERHEAD_MAX
        return cls(np.append(0, np.cumsum(counts)), key, value, np.append(0, np.cumsum(sizes)), room)

    @property
    def counts(self) -> I64Array:
        return np.diff(self.ends)

    @property
    def bytes_of_rows(self) -> I64Array:
        return np.diff(self.positions[self.ends])

    def write(self, out: U8Array, at: I64Array, first: int, last: int) -> None:
        """Write the headers of records first to last, whose counts have been written."""
        ends = self.ends[first : last + 1]
        start, stop = int(ends[0]), int(ends[-1])
        if start == stop:
            return
        shifts = np.repeat(at - self.positions[ends[:-1]], np.diff(ends))
        header_at = self.positions[start:stop] + shifts
        self.value.write(out, self.key.write(out, header_at, start, stop), start, stop)
