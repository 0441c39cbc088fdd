"""Slabs: alignment, size classes, what is kept in reserve, and when a slab comes back."""

from __future__ import annotations

import gc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.records.slabs import ALIGNMENT, SLAB_BYTES_MIN, SlabPool, part_positions

MIB = 1 << 20


@given(sizes=st.lists(st.integers(0, 5000), max_size=12))
def test_parts_are_aligned_and_do_not_overlap(sizes: list[int]) -> None:
    positions = part_positions(sizes)
    assert len(positions) == len(sizes) + 1
    assert all(position % ALIGNMENT == 0 for position in positions)
    for size, start, stop in zip(sizes, positions, positions[1:], strict=False):
        assert size <= stop - start < size + ALIGNMENT


@pytest.mark.parametrize("size", [0, 1, SLAB_BYTES_MIN, SLAB_BYTES_MIN + 1, MIB - 1, MIB, MIB + 1])
def test_a_slab_has_at_least_the_size_asked_for(size: int) -> None:
    slab = SlabPool(reserve_bytes=0).lease(size).slab
    assert slab.size == len(slab.array) >= max(size, SLAB_BYTES_MIN)
    assert slab.size < 2 * max(size, SLAB_BYTES_MIN)
    assert slab.address == slab.array.ctypes.data


def test_a_slab_returns_when_its_lease_ends_and_is_used_again() -> None:
    pool = SlabPool(reserve_bytes=MIB)
    lease = pool.lease(100)
    slab = lease.slab
    assert pool.reserved_bytes == 0
    del lease
    assert pool.reserved_bytes == slab.size
    assert pool.lease(200).slab is slab


def test_a_closed_pool_keeps_nothing() -> None:
    pool = SlabPool(reserve_bytes=MIB)
    used, kept = pool.lease(100), pool.lease(100)
    del kept
    pool.close()
    assert pool.reserved_bytes == 0
    del used
    assert pool.reserved_bytes == 0
    assert pool.lease(100).slab.size >= 100


def test_slabs_of_another_size_class_are_not_handed_out() -> None:
    pool = SlabPool(reserve_bytes=8 * MIB)
    slab = pool.lease(MIB).slab
    assert pool.lease(2 * MIB).slab is not slab
    assert pool.lease(100).slab is not slab


def test_a_buffer_holds_its_slab() -> None:
    pool = SlabPool(reserve_bytes=MIB)
    lease = pool.lease(100)
    lease.slab.array[:8] = np.arange(8)
    buffer = lease.buffer(2, 4)
    del lease
    gc.collect()
    assert pool.reserved_bytes == 0
    assert buffer.to_pybytes() == bytes([2, 3, 4, 5])
    del buffer
    assert pool.reserved_bytes == SLAB_BYTES_MIN


def test_a_slab_returns_when_the_last_slice_of_the_last_array_is_gone() -> None:
    pool = SlabPool(reserve_bytes=MIB)
    lease = pool.lease(100)
    first, second = (
        pa.Array.from_buffers(pa.int64(), 4, [None, lease.buffer(at, 32)]).slice(1, 1) for at in (0, 64)
    )
    del lease, first
    assert pool.reserved_bytes == 0
    del second
    assert pool.reserved_bytes == SLAB_BYTES_MIN


def test_no_more_than_the_reserve_is_kept() -> None:
    pool = SlabPool(reserve_bytes=3 * SLAB_BYTES_MIN)
    leases = [pool.lease(1) for _ in range(5)]
    assert len({lease.slab.address for lease in leases}) == 5
    leases.clear()
    assert pool.reserved_bytes == 3 * SLAB_BYTES_MIN
    del leases


def test_slabs_of_a_size_that_is_not_used_any_more_make_room() -> None:
    pool = SlabPool(reserve_bytes=4 * SLAB_BYTES_MIN)
    small = [pool.lease(SLAB_BYTES_MIN) for _ in range(4)]
    small.clear()
    assert pool.reserved_bytes == 4 * SLAB_BYTES_MIN
    large = pool.lease(2 * SLAB_BYTES_MIN)
    slab = large.slab
    del large
    assert pool.reserved_bytes == 4 * SLAB_BYTES_MIN
    assert pool.lease(2 * SLAB_BYTES_MIN).slab is slab


def test_a_pool_without_reserve_keeps_nothing() -> None:
    pool = SlabPool(reserve_bytes=0)
    pool.lease(1)
    assert pool.reserved_bytes == 0


def test_threads_never_share_a_slab() -> None:
    pool = SlabPool(reserve_bytes=MIB)

    def work(number: int) -> bool:
        for _ in range(300):
            lease = pool.lease(64)
            lease.slab.array[:64] = number
            buffer = lease.buffer(0, 64)
            del lease
            if buffer.to_pybytes() != bytes([number]) * 64:
                return False
        return True

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(work, range(8)))
    assert 0 < pool.reserved_bytes <= MIB


def test_a_lease_may_end_inside_a_garbage_collection() -> None:
    """Which may run in the middle of the pool's own code: a lock there would wait for itself."""
    pool = SlabPool(reserve_bytes=1 << 20)
    threshold = gc.get_threshold()
    gc.set_threshold(1)
    try:
        for _ in range(200):
            circle: list[object] = [pool.lease(1000)]
            circle.append(circle)
            del circle
            pool.lease(1000)
    finally:
        gc.set_threshold(*threshold)
    gc.collect()
    assert 0 < pool.reserved_bytes <= pool.reserve_bytes
