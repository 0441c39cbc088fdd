"""A field of many values at a time: varints, and pieces of bytes, each at a position of its own."""

from __future__ import annotations

from ottla.kernels.kernel import kernel
from ottla.kernels.memory import copy_bytes, get_int64, pointer, put_int64
from ottla.kernels.varint import read_varint


@kernel
def varint_column(data, at, stop, values, after):
    """Zig-zag varints of at most 63 bits; a next position in `after` > its stop means a failure."""
    data_at, starts, stops = pointer(data), pointer(at), pointer(stop)
    out, ends = pointer(values), pointer(after)
    for row in range(at.size):
        end = min(get_int64(stops, row), data.size)
        value, position = read_varint(data_at, get_int64(starts, row), end)
        put_int64(out, row, value)
        put_int64(ends, row, position if position <= end else get_int64(stops, row) + 1)


@kernel
def piece_column(data, starts, sizes, out):
    """Copy pieces of `data`, one after the other. The caller has checked that they lie within it."""
    data_at, starts_at, sizes_at, out_at = pointer(data), pointer(starts), pointer(sizes), pointer(out)
    position = 0
    for row in range(starts.size):
        size = get_int64(sizes_at, row)
        copy_bytes(out_at, position, out.size, data_at, get_int64(starts_at, row), data.size, size)
        position += size
