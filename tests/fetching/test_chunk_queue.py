"""Bounds of a partition's queue, and parking: who is full, for how long, and when it is over."""

from __future__ import annotations

import pytest

from ottla.fetching.budget import FetchBudget
from ottla.fetching.chunk_queue import ChunkQueue, Room
from tests.fetching.tables import PLENTY, chunk

PATIENCE_MS = 100


def queue(*sizes: int, chunks_max: int = 2, budget: FetchBudget | None = None) -> ChunkQueue:
    """Chunks of these sizes, put in at time 0."""
    made = ChunkQueue(chunks_max=chunks_max, patience_ms=PATIENCE_MS, budget=budget or FetchBudget(PLENTY))
    for number, nbytes in enumerate(sizes):
        made.put(chunk(number, nbytes=nbytes), now_ms=0)
    return made


def room(
    one: ChunkQueue, now_ms: float = 0, *, share: int = 1000, expected: int = 10, pending: int = 0
) -> Room:
    return one.room(now_ms, share_bytes=share, expected_bytes=expected, pending_bytes=pending)


@pytest.mark.parametrize(
    ("sizes", "pending", "share", "expected_room"),
    [
        ([], 0, 1000, Room.OPEN),
        ([10], 0, 1000, Room.OPEN),
        ([10, 10], 0, 1000, Room.FULL),
        ([10], 1, 1000, Room.FULL),  # what is received counts before it is in the queue
        ([], 991, 1000, Room.FULL),
        ([995], 0, 1000, Room.FULL),  # the next one would not fit
        ([990], 0, 1000, Room.OPEN),
        ([], 0, 1, Room.OPEN),  # one chunk is always allowed
        ([5000], 0, 1, Room.FULL),
    ],
)
def test_there_is_room_by_chunks_and_by_bytes(
    sizes: list[int], pending: int, share: int, expected_room: Room
) -> None:
    assert room(queue(*sizes), share=share, pending=pending) is expected_room


def test_a_reader_that_takes_nothing_for_too_long_is_parked_until_all_is_taken() -> None:
    slow = queue(10, 10)
    assert room(slow, PATIENCE_MS - 1) is Room.FULL
    assert room(slow, PATIENCE_MS) is Room.PARKED
    assert slow.take(PATIENCE_MS) is not None
    assert room(slow, PATIENCE_MS) is Room.PARKED  # one is left
    assert slow.take(PATIENCE_MS) is not None
    assert room(slow, PATIENCE_MS) is Room.OPEN


def test_a_reader_that_takes_in_time_is_never_parked() -> None:
    steady = queue(10, 10)
    for now_ms in range(PATIENCE_MS - 1, 10 * PATIENCE_MS, PATIENCE_MS - 1):
        assert room(steady, now_ms) is Room.FULL
        steady.take(now_ms)
        assert room(steady, now_ms) is Room.OPEN
        steady.put(chunk(), now_ms)


def test_a_queue_with_room_is_not_parked_however_long_it_waits() -> None:
    assert room(queue(10), 100 * PATIENCE_MS) is Room.OPEN


def test_chunks_come_out_in_order_and_bytes_are_counted() -> None:
    one = queue(10, 20, 30)
    assert one.nbytes == 60
    assert [one.take(0).nbytes for _ in range(3)] == [10, 20, 30]  # type: ignore[union-attr]
    assert one.take(0) is None
    assert one.nbytes == 0


def test_clearing_ends_a_parking() -> None:
    one = queue(10, 10)
    assert room(one, PATIENCE_MS) is Room.PARKED
    one.clear()
    assert (len(one), one.nbytes, room(one, PATIENCE_MS)) == (0, 0, Room.OPEN)


def test_what_waits_is_held_of_the_budget() -> None:
    budget = FetchBudget(PLENTY)
    one, other = queue(10, 20, budget=budget), queue(5, budget=budget)
    assert budget.held_bytes == 35
    one.take(0)
    assert budget.held_bytes == 25
    one.clear()
    other.take(0)
    assert budget.held_bytes == 0


def test_offsets_without_records_belong_to_the_chunk_before_them() -> None:
    one = queue(10)
    assert one.extend_last(17)
    taken = one.take(0)
    assert taken is not None
    assert taken.next_offset == 17
    assert not one.extend_last(18)
