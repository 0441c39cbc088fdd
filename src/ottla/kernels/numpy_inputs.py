"""Arrow columns on their way into records: sizes of all values at once, and all their bytes at once.

See `record_encode` for how columns come.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ottla.kernels.layout import RECORD_OVERHEAD_MAX
from ottla.kernels.numpy_bytes import (
    I32Array,
    I64Array,
    U8Array,
    gather,
    scatter,
    varint_sizes,
    write_varints,
)


def ends_ascend(ends: I32Array) -> bool:
    """Whether no value ends before it begins."""
    return not bool((ends[1:] < ends[:-1]).any())


class BinaryInput(NamedTuple):
    """A column as the caller gave it, and the size of each value: -1 for null."""

    ends: I32Array
    data: U8Array
    sizes: I64Array

    @classmethod
    def of(cls, rows: int, ends: I32Array, data: U8Array, valid: U8Array, valid_at: int) -> BinaryInput:
        if not ends.size:
            return cls(ends, data, np.full(rows, -1, np.int64))
        sizes = np.diff(ends[: rows + 1]).astype(np.int64)
        if valid.size:
            held = valid[valid_at >> 3 : (valid_at + rows + 7) >> 3]
            bits = np.unpackbits(held, bitorder="little")[valid_at & 7 :][:rows]
            sizes[bits == 0] = -1
        return cls(ends, data, sizes)

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
        if not self.ends.size:
            return self.data[:0]
        start, stop = int(self.ends[first]), int(self.ends[last])
        lengths = np.maximum(self.sizes[first:last], 0)
        total = int(lengths.sum())
        if total == stop - start:
            return self.data[start:stop]
        # Nulls may have bytes as well, which nobody wants.
        out = np.empty(total, np.uint8)
        gather(out, 0, self.data, self.ends[first:last].astype(np.int64), lengths)
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


class HeaderInput(NamedTuple):
    """The headers of all records: record r has those from ends[r] to ends[r + 1]."""

    ends: I64Array
    key: BinaryInput
    value: BinaryInput
    positions: I64Array  # of each header, and the end, as if all were written one after the other

    @classmethod
    def of(
        cls,
        rows: int,
        ends: I32Array,
        key_ends: I32Array,
        key_data: U8Array,
        value_ends: I32Array,
        value_data: U8Array,
        value_valid: U8Array,
        value_valid_at: int,
    ) -> HeaderInput:
        count = key_ends.size - 1
        key = BinaryInput.of(count, key_ends, key_data, key_data[:0], 0)
        value = BinaryInput.of(count, value_ends, value_data, value_valid, value_valid_at)
        sizes = key.varint_lengths + value.varint_lengths
        return cls(ends[: rows + 1].astype(np.int64), key, value, np.append(0, np.cumsum(sizes)))

    @property
    def counts(self) -> I64Array:
        return np.diff(self.ends)

    @property
    def bytes_of_rows(self) -> I64Array:
        return np.diff(self.positions[self.ends])

    @property
    def room(self) -> I64Array:
        """As the kernel reckons it, with the bytes of nulls."""
        size = self.key.ends[self.ends].astype(np.int64) + self.value.ends[self.ends]
        return np.diff(size + self.ends * RECORD_OVERHEAD_MAX)

    def write(self, out: U8Array, at: I64Array, first: int, last: int) -> None:
        """Write the headers of records first to last, whose counts have been written."""
        ends = self.ends[first : last + 1]
        start, stop = int(ends[0]), int(ends[-1])
        if start == stop:
            return
        shifts = np.repeat(at - self.positions[ends[:-1]], np.diff(ends))
        header_at = self.positions[start:stop] + shifts
        self.value.write(out, self.key.write(out, header_at, start, stop), start, stop)
