"""The scan without Numba; see `entry_scan` for what it promises.

Python walks from entry to entry by their sizes; fields of all entries are then read at once.
"""

from __future__ import annotations

import zlib

import numpy as np
import numpy.typing as npt

from ottla.kernels.layout import (
    ATTRIBUTES,
    BAD_CRC,
    BAD_FIELD,
    BAD_MAGIC,
    BAD_SIZE,
    BASE_OFFSET,
    BASE_TIMESTAMP,
    COUNT,
    CRC,
    END,
    ENTRY,
    EXPANDED_ENTRIES,
    EXPANDED_ROWS,
    FULL,
    LAST_OFFSET,
    LEFT,
    MAGIC,
    MAX_TIMESTAMP,
    OFFSET_LIMIT,
    OK,
    PRODUCER_ID,
    SOURCE,
    START,
    TIMESTAMP_LIMIT,
    VERIFY_NOTHING,
)
from ottla.kernels.numpy_bytes import I32Array, I64Array, U8Array, read_numbers
from ottla.model.record_layout import (
    BATCH_ATTRIBUTES_AT,
    BATCH_BASE_TIMESTAMP_AT,
    BATCH_COUNT_AT,
    BATCH_CRC_AT,
    BATCH_LAST_OFFSET_DELTA_AT,
    BATCH_MAX_TIMESTAMP_AT,
    BATCH_OVERHEAD,
    BATCH_PRODUCER_ID_AT,
    CODEC_MASK,
    ENTRY_OVERHEAD,
    LEGACY_ATTRIBUTES_AT,
    LEGACY_BODY_AT_V0,
    LEGACY_BODY_AT_V1,
    LEGACY_CRC_AT,
    MAGIC_AT,
    NO_TIMESTAMP,
    RECORD_SIZE_MIN,
    SIZE,
    SIZE_AT,
    SIZE_MIN_V0,
    SIZE_MIN_V1,
    SIZE_MIN_V2,
)

_read_size = SIZE.unpack_from
RUN_ENTRIES = 1024
"""Looked at in one go, where entries that are compressed may be among others."""
# Smallest legal size by magic; beyond 2 there is no format, and that is another error.
_SIZE_MIN = np.array([SIZE_MIN_V0, SIZE_MIN_V1, SIZE_MIN_V2] + 253 * [0])


def scan_entries(
    data: U8Array,
    at: int,
    end: int,
    source: int,
    verify: int,
    table: I64Array,
    progress: I64Array,
    summary: I64Array,
) -> int:
    """As `entry_scan.scan_entries`, but a batch's checksum is left for later whenever it is to be checked."""
    starts, at, is_full = _walk(data, at, end, table.shape[0])
    table = table[: starts.size]
    status = _read_frames(data, starts, source, table)
    _read_batches(data, table, status, verify)
    _read_messages(data, table, status)
    if verify != VERIFY_NOTHING:
        _verify_messages(data, table, status)
    rows, answer = starts.size, FULL if is_full else OK
    damaged = np.flatnonzero(status)
    if damaged.size:
        rows = int(damaged[0])
        at, answer = int(starts[rows]), int(status[rows])
    progress[0] = rows
    progress[1] = at
    _add_sums(table[:rows], summary)
    return answer


def expand_entries(
    data: U8Array,  # noqa: ARG001 - as the kernel has them
    table: I64Array,
    verify: int,  # noqa: ARG001
    records_max: int,  # noqa: ARG001
    arena: U8Array,  # noqa: ARG001
    scratch: I32Array,  # noqa: ARG001
    expanded: I64Array,
    state: I64Array,
    summary: I64Array,
) -> int:
    """As `expansion.expand_entries`, but every compressed entry is left to the caller."""
    entry, row, _ = state.tolist()
    status = OK
    while status == OK and entry < len(table):
        run = table[entry : entry + RUN_ENTRIES]
        compressed = (run[:, ATTRIBUTES] & CODEC_MASK != 0) & (run[:, START] < run[:, END])
        whole = int(compressed.argmax()) if compressed.any() else len(run)
        run = run[: min(whole, len(expanded) - row)]
        if len(run) < RUN_ENTRIES:
            status = FULL if len(run) < whole else LEFT if entry + whole < len(table) else OK
        if len(run):
            expanded[row : row + len(run)] = run
            _add_sums(run, summary)
            entry += len(run)
            row += len(run)
    state[EXPANDED_ENTRIES], state[EXPANDED_ROWS] = entry, row
    return status


def _add_sums(table: I64Array, summary: I64Array) -> None:
    before = summary.copy()
    summarize_entries(table, summary)
    summary[0] = max(summary[0], before[0])
    summary[1:3] |= before[1:3]
    summary[3:] += before[3:]


def _walk(data: U8Array, at: int, end: int, capacity: int) -> tuple[I64Array, int, bool]:
    """Where entries begin, the position after the last of them, and whether there are more than `capacity`.

    An entry that is too small ends the walk, and is the last one that is returned.
    """
    view = data.data
    starts: list[int] = []
    is_full = False
    while end - at >= ENTRY_OVERHEAD:
        (size,) = _read_size(view, at + SIZE_AT)
        if size > end - at - ENTRY_OVERHEAD:
            break
        if len(starts) == capacity:
            is_full = True
            break
        starts.append(at)
        if size < SIZE_MIN_V0:
            break
        at += ENTRY_OVERHEAD + size
    return np.array(starts, np.int64), at, is_full


def _read_frames(data: U8Array, at: I64Array, source: int, table: I64Array) -> I64Array:
    """Fill in what all formats have in common; answers the status of each entry."""
    offsets = read_numbers(data, at, ">i8")
    sizes = read_numbers(data, at + SIZE_AT, ">i4")
    magics = data.take(at + MAGIC_AT, mode="clip").astype(np.int64)
    table[:, ENTRY] = at
    table[:, BASE_OFFSET] = offsets
    table[:, LAST_OFFSET] = offsets
    table[:, SOURCE] = source
    table[:, MAGIC] = magics
    table[:, END] = at + ENTRY_OVERHEAD + sizes
    table[:, CRC] = -1
    wrong = [
        (offsets < 0) | (offsets >= OFFSET_LIMIT),
        (sizes < SIZE_MIN_V0) | (sizes < _SIZE_MIN[magics]),
        magics > 2,
    ]
    return np.select(wrong, [BAD_FIELD, BAD_SIZE, BAD_MAGIC], OK)


def _read_batches(data: U8Array, table: I64Array, status: I64Array, verify: int) -> None:
    rows = np.flatnonzero((status == OK) & (table[:, MAGIC] == 2))
    at = table[rows, ENTRY]
    last_deltas = read_numbers(data, at + BATCH_LAST_OFFSET_DELTA_AT, ">i4")
    base_timestamps = read_numbers(data, at + BATCH_BASE_TIMESTAMP_AT, ">i8")
    counts = read_numbers(data, at + BATCH_COUNT_AT, ">i4")
    table[rows, START] = at + BATCH_OVERHEAD
    table[rows, ATTRIBUTES] = read_numbers(data, at + BATCH_ATTRIBUTES_AT, ">i2")
    table[rows, LAST_OFFSET] += last_deltas
    table[rows, BASE_TIMESTAMP] = base_timestamps
    table[rows, MAX_TIMESTAMP] = read_numbers(data, at + BATCH_MAX_TIMESTAMP_AT, ">i8")
    table[rows, COUNT] = counts
    table[rows, PRODUCER_ID] = read_numbers(data, at + BATCH_PRODUCER_ID_AT, ">i8")
    if verify != VERIFY_NOTHING:
        table[rows, CRC] = read_numbers(data, at + BATCH_CRC_AT, ">u4")
    wrong = (last_deltas < 0) | (counts < 0)
    wrong |= (base_timestamps <= -TIMESTAMP_LIMIT) | (base_timestamps >= TIMESTAMP_LIMIT)
    status[rows[wrong]] = BAD_FIELD


def _read_messages(data: U8Array, table: I64Array, status: I64Array) -> None:
    rows = np.flatnonzero((status == OK) & (table[:, MAGIC] < 2))
    at = table[rows, ENTRY]
    has_time = table[rows, MAGIC] == 1
    timestamps = np.full(rows.size, NO_TIMESTAMP, np.int64)
    timestamps[has_time] = read_numbers(data, at[has_time] + LEGACY_BODY_AT_V0, ">i8")
    table[rows, START] = at + np.where(has_time, LEGACY_BODY_AT_V1, LEGACY_BODY_AT_V0)
    table[rows, ATTRIBUTES] = data[at + LEGACY_ATTRIBUTES_AT]
    table[rows, BASE_TIMESTAMP] = timestamps
    table[rows, MAX_TIMESTAMP] = timestamps
    table[rows, COUNT] = 1
    table[rows, PRODUCER_ID] = -1


def _verify_messages(data: U8Array, table: I64Array, status: I64Array) -> None:
    """Check messages up to the first damage, which is all that is delivered."""
    sound = status == OK
    count = status.size if sound.all() else int(sound.argmin())
    rows = np.flatnonzero(table[:count, MAGIC] < 2)
    at = table[rows, ENTRY]
    crcs = read_numbers(data, at + LEGACY_CRC_AT, ">u4").tolist()
    starts, ends = (at + MAGIC_AT).tolist(), table[rows, END].tolist()
    view = data.data
    for row, start, end, crc in zip(rows.tolist(), starts, ends, crcs, strict=True):
        if zlib.crc32(view[start:end]) != crc:
            status[row] = BAD_CRC
            return


def summarize_entries(table: I64Array, summary: I64Array) -> None:
    """As `entry_scan.summarize_entries`."""
    sizes = table[:, END] - table[:, START]
    counts = table[:, COUNT]
    filled: npt.NDArray[np.bool_] = (sizes > 0) | (counts > 0)  # else it is empty, or hidden
    held = np.minimum(counts, np.maximum(1, sizes // RECORD_SIZE_MIN))
    summary[0] = (table[:, LAST_OFFSET] + 1).max(initial=0)
    summary[1] = np.bitwise_or.reduce(1 << table[:, MAGIC])
    summary[2] = np.bitwise_or.reduce(table[filled, ATTRIBUTES])
    # A count is capped by the number of records that the bytes can hold.
    summary[3] = held[filled].sum()
    summary[4] = sizes.sum()
    summary[5] = np.count_nonzero(table[:, CRC] >= 0)
