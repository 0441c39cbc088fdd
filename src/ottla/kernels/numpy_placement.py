"""Placing rows without Numba; see `placement` for what it promises."""

from __future__ import annotations

import numpy as np

from ottla.kernels.numpy_bytes import I32Array, I64Array, U8Array
from ottla.kernels.numpy_hashes import murmur2_column


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
