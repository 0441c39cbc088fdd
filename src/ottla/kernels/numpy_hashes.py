"""Hashes without Numba; see `hashes` for what they promise.

murmur2 takes four bytes at a time, for all keys that are long enough at once; the few longest keys are
finished one by one. String.hashCode is a polynomial, so that each character is multiplied by its power of
31 and each row summed up.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from ottla.kernels.layout import MURMUR_MULTIPLIER, MURMUR_SEED
from ottla.kernels.numpy_bytes import I32Array, I64Array, U8Array, ranges, read_numbers

U32Array = npt.NDArray[np.uint32]

MASK = 0xFFFFFFFF
# Fewer keys than this are cheaper to hash one by one than by NumPy calls.
FEW_KEYS = 16
CHUNK_BYTES = 1 << 18


# ---- murmur2


def murmur2_column(ends: I32Array, data: U8Array, out: I32Array) -> None:
    """As `hashes.murmur2_column`."""
    starts = ends[: out.size].astype(np.int64)
    sizes = ends[1 : out.size + 1] - starts
    blocks = sizes >> 2
    order = np.argsort(-blocks, kind="stable")
    hashes = ((MURMUR_SEED ^ sizes[order]) & MASK).astype(np.uint32)
    _mix_blocks(hashes, data, starts[order], blocks[order])
    _mix_tails(hashes, data, (starts + 4 * blocks)[order], (sizes & 3)[order])
    hashes ^= hashes >> 13
    hashes *= np.uint32(MURMUR_MULTIPLIER)
    hashes ^= hashes >> 15
    out[order] = hashes.view(np.int32)


def _mix_blocks(hashes: U32Array, data: U8Array, starts: I64Array, blocks: I64Array) -> None:
    """Mix all whole blocks in; rows come by descending number of blocks."""
    if not blocks.size:
        return
    multiplier = np.uint32(MURMUR_MULTIPLIER)
    # How many rows have more blocks than this.
    longest = int(blocks[min(FEW_KEYS, blocks.size) - 1])
    for block in range(longest):
        rows = int(np.searchsorted(-blocks, -block))
        mixed = read_numbers(data, starts[:rows] + 4 * block, "<u4").astype(np.uint32) * multiplier
        mixed ^= mixed >> 24
        mixed *= multiplier
        hashes[:rows] *= multiplier
        hashes[:rows] ^= mixed
    for row in range(int(np.searchsorted(-blocks, -longest))):
        at, end = int(starts[row]) + 4 * longest, int(starts[row]) + 4 * int(blocks[row])
        hashes[row] = _mixed_on(int(hashes[row]), data[at:end].tobytes())


def _mixed_on(value: int, key: bytes) -> int:
    for at in range(0, len(key), 4):
        block = int.from_bytes(key[at : at + 4], "little") * MURMUR_MULTIPLIER & MASK
        block = (block ^ (block >> 24)) * MURMUR_MULTIPLIER & MASK
        value = (value * MURMUR_MULTIPLIER & MASK) ^ block
    return value


def _mix_tails(hashes: U32Array, data: U8Array, starts: I64Array, sizes: I64Array) -> None:
    """Mix the last one to three bytes in, where there are any."""
    rows = np.flatnonzero(sizes)
    if not rows.size:
        return
    tails = np.zeros(rows.size, np.uint32)
    for i in range(3):
        byte = data.take(starts[rows] + i, mode="clip").astype(np.uint32)
        tails |= np.where(sizes[rows] > i, byte << (8 * i), 0).astype(np.uint32)
    hashes[rows] = (hashes[rows] ^ tails) * np.uint32(MURMUR_MULTIPLIER)


# ---- String.hashCode


def java_hash_column(ends: I32Array, data: U8Array, out: I32Array) -> None:
    """As `hashes.java_hash_column`."""
    bounds = ends[: out.size + 1].astype(np.int64)
    for first, last in _row_chunks(bounds, out.size):
        start = bounds[first]
        text = data[start : bounds[last]]
        out[first:last] = _java_hashes(text, bounds[first : last + 1] - start).view(np.int32)


def _row_chunks(bounds: I64Array, rows: int) -> Iterator[tuple[int, int]]:
    """Not too many bytes, but one row at least."""
    first = 0
    while first < rows:
        last = int(np.searchsorted(bounds, bounds[first] + CHUNK_BYTES, side="right")) - 1
        last = min(max(last, first + 1), rows)
        yield first, last
        first = last


def _java_hashes(text: U8Array, bounds: I64Array) -> U32Array:
    """Of text[bounds[0]:bounds[1]] and so on, which cover all of it."""
    if not text.size or text.max() < 0x80:
        return _polynomials(text.astype(np.uint32), bounds)
    heads = np.flatnonzero((text & 0xC0) != 0x80)
    widths = _widths(text[heads])
    # A character ends where the next one or the next row begins; where not, this is not UTF-8.
    limits = np.append(heads, text.size)[1:]
    is_cut = widths != limits - heads
    row_of_head = np.searchsorted(bounds, heads, side="right") - 1
    is_cut |= heads + widths > bounds[row_of_head + 1]
    broken = np.unique(np.concatenate([row_of_head[is_cut], _rows_without_head(text, bounds)]))
    units, unit_counts = _utf16_units(text, heads, widths)
    unit_bounds = np.append(0, np.cumsum(unit_counts))[np.searchsorted(heads, bounds)]
    hashes = _polynomials(units, unit_bounds)
    for row in broken.tolist():
        hashes[row] = _walked_java_hash(text[bounds[row] : bounds[row + 1]].tobytes())
    return hashes


def _rows_without_head(text: U8Array, bounds: I64Array) -> I64Array:
    """Rows that begin inside of a character."""
    rows: I64Array = np.flatnonzero(bounds[:-1] < bounds[1:])
    inside: I64Array = rows[(text[bounds[rows]] & 0xC0) == 0x80]
    return inside


def _widths(heads: U8Array) -> I64Array:
    return 1 + (heads >= 0x80).astype(np.int64) + (heads >= 0xE0) + (heads >= 0xF0)


def _utf16_units(text: U8Array, heads: I64Array, widths: I64Array) -> tuple[U32Array, I64Array]:
    """The units of all characters, and how many each has: two if it takes four bytes."""
    points = text[heads].astype(np.int64)
    for width, bits in ((2, 0x1F), (3, 0x0F), (4, 0x07)):
        rows = np.flatnonzero(widths == width)
        point = points[rows] & bits
        for i in range(1, width):
            point = point << 6 | (text.take(heads[rows] + i, mode="clip") & 0x3F)
        points[rows] = point
    counts = 1 + (widths == 4).astype(np.int64)
    units = np.repeat(points, counts)
    pairs = np.flatnonzero(np.repeat(widths == 4, counts))
    highs, lows = pairs[::2], pairs[1::2]
    units[lows] = 0xDC00 + (units[lows] - 0x10000 & 0x3FF)
    units[highs] = 0xD800 + (units[highs] - 0x10000 >> 10)
    return units.astype(np.uint32), counts


def _polynomials(units: U32Array, bounds: I64Array) -> U32Array:
    """The sum of unit * 31**(units after it in its row), of each row, modulo 2**32."""
    sizes = np.diff(bounds)
    hashes = np.zeros(sizes.size, np.uint32)
    rows = np.flatnonzero(sizes)
    if not rows.size:
        return hashes
    powers = np.full(int(sizes.max()), 31, np.uint32)
    powers[0] = 1
    powers = np.cumprod(powers, dtype=np.uint32)
    after = np.repeat(sizes - 1, sizes) - ranges(sizes)
    hashes[rows] = np.add.reduceat(units * powers[after], bounds[rows], dtype=np.uint32)
    return hashes


def _walked_java_hash(text: bytes) -> int:
    """Bytes that are not UTF-8 get a hash as well: a cut character counts byte by byte."""
    value = at = 0
    while at < len(text):
        byte = text[at]
        width = 1 if byte < 0x80 else 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
        if at + width > len(text):
            width = 1
        for unit in _units_of(text[at : at + width]):
            value = (31 * value + unit) & MASK
        at += width
    return value


def _units_of(character: bytes) -> tuple[int, ...]:
    if len(character) == 1:
        return (character[0],)
    point = character[0] & (0x7F >> len(character))
    for byte in character[1:]:
        point = point << 6 | (byte & 0x3F)
    if len(character) < 4:
        return (point,)
    point -= 0x10000
    return 0xD800 + (point >> 10), 0xDC00 + (point & 0x3FF)


def key_partitions(
    ends: I32Array, data: U8Array, valid: U8Array, valid_at: int, partition_count: int, out: I32Array
) -> None:
    """As `placement.key_partitions`."""
    murmur2_column(ends, data, out)
    out &= 0x7FFFFFFF
    out %= partition_count
    if valid.size:
        bits = np.arange(valid_at, valid_at + out.size)
        out[(valid[bits >> 3] >> (bits & 7).astype(np.uint8)) & 1 == 0] = -1


def rows_by_partition(
    chosen: I32Array, reach: I64Array, starts: I64Array, order: I64Array, reach_placed: I64Array
) -> None:
    """As `placement.rows_by_partition`."""
    order[:] = np.argsort(chosen, kind="stable")
    counts = np.bincount(chosen, minlength=starts.size - 1)
    starts[1:] = np.cumsum(counts)
    reached = np.append(0, np.cumsum(np.diff(reach)[order]))
    reach_placed[:] = reached[1:] - np.repeat(reached[starts[:-1]], counts)
