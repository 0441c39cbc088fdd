"""Reading and writing bytes at many positions at once.

Positions are int64. A *piece* is size bytes at a start; pieces are given by two arrays, in ascending
order without overlap, as records lie in their source.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

U8Array = npt.NDArray[np.uint8]
I32Array = npt.NDArray[np.int32]
I64Array = npt.NDArray[np.int64]

# What is worked on together: enough that NumPy's cost of a call is small, little enough to stay in cache.
CHUNK_RECORDS = 8192
# From this mean size on, a slice copied by Python (some 400 ns) is cheaper than a byte mask over the piece.
LARGE_PIECE_BYTES = 1024
# An index costs this many times more than a mask, for each byte; but a mask also covers what is between.
INDEX_COST = 4
# What a mask covers at most.
BLOCK_BYTES = 1 << 18
# A zig-zag varint has at most 63 bits here, as in the kernels.
VARINT_BITS = 63


def ranges(sizes: I64Array) -> I64Array:
    """0, 1, …, size - 1 of each size, one after the other."""
    ends = np.cumsum(sizes)
    return np.arange(int(sizes.sum()), dtype=np.int64) - np.repeat(ends - sizes, sizes)


# ---- varints


def zigzag_decoded(values: I64Array) -> I64Array:
    return (values >> 1) ^ -(values & 1)


def zigzag_encoded(values: I64Array) -> I64Array:
    return (values << 1) ^ (values >> 63)


def read_varints(data: U8Array, at: I64Array, stop: I64Array) -> tuple[I64Array, I64Array]:
    """Zig-zag varints: (values, next positions); a next position > its stop means a failure.

    No byte outside of `data` is read, wherever `at` points; a position past its stop stays past it.
    """
    byte = data.take(at, mode="clip")
    value = (byte & 0x7F).astype(np.int64)
    after = at + 1
    more = byte >= 0x80
    if more.any():
        # Lengths of usual records take one or two bytes, so the second is read for all.
        byte = data.take(after, mode="clip")
        value |= np.where(more, byte & 0x7F, 0).astype(np.int64) << 7
        after += more
        rest = np.flatnonzero(more & (byte >= 0x80))
        if rest.size:
            _read_rest(data, value, after, stop, rest)
    return zigzag_decoded(value), after


def _read_rest(data: U8Array, value: I64Array, after: I64Array, stop: I64Array, rest: I64Array) -> None:
    """Read the varints `rest` on from their third byte, in place."""
    for shift in range(14, VARINT_BITS, 7):
        byte = data.take(after[rest], mode="clip")
        value[rest] |= (byte & 0x7F).astype(np.int64) << shift
        after[rest] += 1
        rest = rest[byte >= 0x80]
        if not rest.size:
            return
    after[rest] = stop[rest] + 1


def varint_column(data: U8Array, at: I64Array, stop: I64Array, values: I64Array, after: I64Array) -> None:
    """`read_varints`, as the compiled kernel has it."""
    values[:], after[:] = read_varints(data, at, stop)


def piece_column(data: U8Array, starts: I64Array, sizes: I64Array, out: U8Array) -> None:
    """`gather`, as the compiled kernel has it."""
    gather(out, 0, data, starts, sizes)


def varint_sizes(values: I64Array) -> I64Array:
    """How many bytes each takes as a zig-zag varint."""
    zigzag = zigzag_encoded(values)
    sizes = np.ones(values.size, np.int64)
    largest = int(zigzag.max(initial=0))
    for shift in range(7, VARINT_BITS, 7):
        if largest < 1 << shift:
            break
        sizes += zigzag >= 1 << shift
    return sizes


def write_varints(out: U8Array, at: I64Array, values: I64Array) -> I64Array:
    """Write zig-zag varints; answers the next positions."""
    zigzag = zigzag_encoded(values)
    at = at.copy()
    rows = np.flatnonzero(zigzag >= 0x80)
    out[at] = zigzag & 0x7F
    while rows.size:
        out[at[rows]] |= 0x80
        at[rows] += 1
        zigzag[rows] >>= 7
        out[at[rows]] = zigzag[rows] & 0x7F
        rows = rows[zigzag[rows] >= 0x80]
    at += 1
    return at


# ---- fixed-width numbers


def _unaligned(data: U8Array, kind: str) -> npt.NDArray[np.generic]:
    """A number at every byte position where a whole one fits."""
    count = max(data.size - np.dtype(kind).itemsize + 1, 0)
    return np.ndarray((count,), kind, data.data, strides=(1,))


def numbers_at(data: U8Array, at: I64Array, kind: str) -> npt.NDArray[np.generic]:
    """Numbers of a NumPy kind such as ``<f8`` at any positions."""
    return _unaligned(data, kind)[at]


def read_numbers(data: U8Array, at: I64Array, kind: str) -> I64Array:
    """Whole numbers of a NumPy kind such as ``>i4`` at any positions."""
    return numbers_at(data, at, kind).astype(np.int64)


def write_numbers(out: U8Array, at: I64Array, kind: str, values: I64Array) -> None:
    """The same, written, cut to the width."""
    _unaligned(out, kind)[at] = values.astype(kind)


# ---- pieces


def _mask(first: int, starts: I64Array, sizes: I64Array) -> npt.NDArray[np.bool_]:
    """True for the bytes of the pieces, from position `first` to the end of the last piece.

    NumPy moves each run of a mask at once, so this costs half a nanosecond a byte.
    """
    runs = np.empty(2 * starts.size, np.int64)
    runs[1::2] = sizes
    runs[0] = starts[0] - first
    runs[2::2] = starts[1:] - starts[:-1] - sizes[:-1]
    inside = np.zeros(runs.size, np.bool_)
    inside[1::2] = True
    return np.repeat(inside, runs)


def _bytes_of(starts: I64Array, sizes: I64Array) -> I64Array:
    """The position of every byte of the pieces."""
    ends = np.cumsum(sizes)
    positions: I64Array = np.arange(int(ends[-1])) + np.repeat(starts - (ends - sizes), sizes)
    return positions


def _are_sparse(starts: I64Array, sizes: I64Array, total: int) -> bool:
    return INDEX_COST * total < int(starts[-1] + sizes[-1] - starts[0])


def _blocks(starts: I64Array, sizes: I64Array) -> Iterator[slice]:
    """Pieces that lie within some hundred kilobytes: larger masks are new memory each time, which is slow."""
    covered = int(starts[-1] + sizes[-1] - starts[0])
    step = max(1, starts.size * BLOCK_BYTES // max(covered, 1))
    for first in range(0, starts.size, step):
        yield slice(first, first + step)


def gather(out: U8Array, at: int, data: U8Array, starts: I64Array, sizes: I64Array) -> int:
    """Append pieces of `data` to out[at:]; answers where they end."""
    total = int(sizes.sum())
    if not total:
        return at
    if total > LARGE_PIECE_BYTES * sizes.size:
        for start, size in zip(starts.tolist(), sizes.tolist(), strict=True):
            out[at : at + size] = data[start : start + size]
            at += size
        return at
    if _are_sparse(starts, sizes, total):
        out[at : at + total] = data[_bytes_of(starts, sizes)]
        return at + total
    for block in _blocks(starts, sizes):
        first = int(starts[block.start])
        mask = _mask(first, starts[block], sizes[block])
        piece = data[first : first + mask.size][mask]
        out[at : at + piece.size] = piece
        at += piece.size
    return at


def scatter(out: U8Array, starts: I64Array, sizes: I64Array, packed: U8Array) -> None:
    """Write `packed`, which holds pieces one after the other, to where they belong in `out`."""
    if not packed.size:
        return
    ends = np.cumsum(sizes)
    if packed.size > LARGE_PIECE_BYTES * sizes.size:
        for start, end, size in zip(starts.tolist(), ends.tolist(), sizes.tolist(), strict=True):
            out[start : start + size] = packed[end - size : end]
        return
    if _are_sparse(starts, sizes, packed.size):
        out[_bytes_of(starts, sizes)] = packed
        return
    done = 0
    for block in _blocks(starts, sizes):
        first, end = int(starts[block.start]), int(ends[block][-1])
        mask = _mask(first, starts[block], sizes[block])
        out[first : first + mask.size][mask] = packed[done:end]
        done = end
