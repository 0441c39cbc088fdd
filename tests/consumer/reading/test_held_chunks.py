"""Chunks that are being handed out: positions to the row, drops, seeks, Ctrl-C. Without a broker."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

import pytest

from ottla.consumer.reading.held_chunks import HeldChunk, HeldChunks, ReadingPosition
from ottla.fetching.budget import FetchBudget
from ottla.fetching.chunk_queue import ChunkQueue, FetchedDataChunk
from ottla.fetching.feed import PartitionFeed
from ottla.model.offset_spec import LATEST
from ottla.model.topic_partition import TopicAndPartition
from ottla.records.messages import Message, MessageSet
from ottla.records.rows import RowMaker

ORDERS = TopicAndPartition("orders", 0)


def chunk(first: int, count: int, *, gap: int = 0) -> FetchedDataChunk:
    """Offsets from `first` on, and a gap behind them."""
    messages = MessageSet.of([Message(b"v%d" % n) for n in range(first, first + count)], base_offset=first)
    (piece,) = messages.decoded()
    return FetchedDataChunk(ORDERS, piece.batch, first, first + count + gap, 100, 1000)


def reading(start: int = 0, *chunks: FetchedDataChunk) -> tuple[HeldChunks, ReadingPosition]:
    """A feed that has these chunks, and nothing held yet."""
    queue = ChunkQueue(chunks_max=10, patience_ms=1000, budget=FetchBudget(1 << 20))
    feed = PartitionFeed(ORDERS, start, queue=queue)
    for one in chunks:
        assert feed.deliver(0, one)
    held, position = HeldChunks(), ReadingPosition(feed, start, RowMaker(*ORDERS))
    held.add(position)
    return held, position


def taken(held: HeldChunks, position: ReadingPosition) -> HeldChunk:
    assert held.take(lambda: position.feed.poll(0)) is position
    current = held.next()
    assert current is not None
    return current


def offsets(current: HeldChunk, count: int | None = None) -> list[int]:
    return [row.offset for row in islice(current.rows, count)]


def test_the_position_is_exact_to_the_row_and_ends_behind_the_chunk() -> None:
    held, position = reading(0, chunk(0, 5, gap=3))
    assert held.next() is None
    current = taken(held, position)
    assert position.position == 0
    assert offsets(current, 2) == [0, 1]
    assert (position.position, held.next()) == (2, current)
    assert offsets(current) == [2, 3, 4]
    assert (position.position, held.next()) == (8, None)


def test_the_rest_of_a_chunk_can_be_taken_as_columns() -> None:
    held, position = reading(0, chunk(0, 5))
    current = taken(held, position)
    assert offsets(current, 2) == [0, 1]
    rest = current.take_rest()
    assert rest is not None
    assert rest.batch.column("offset").to_pylist() == [2, 3, 4]
    assert (rest.topic_partition, rest.next_offset) == (ORDERS, 5)
    assert current.take_rest() is None
    assert position.position == 5


def test_chunks_are_handed_out_in_order() -> None:
    held, position = reading(0, chunk(0, 2), chunk(2, 2))
    first = taken(held, position)
    assert held.take(lambda: position.feed.poll(0)) is position
    assert held.next() is first
    assert offsets(first) == [0, 1]
    second = held.next()
    assert second is not None
    assert offsets(second) == [2, 3]


def test_a_drop_ends_the_rows_and_keeps_the_position() -> None:
    held, position = reading(0, chunk(0, 3), chunk(3, 3))
    current = taken(held, position)
    assert held.take(lambda: position.feed.poll(0)) is position
    rows = iter(current.rows)
    assert next(rows).offset == 0
    assert position.drop() == 1
    assert position.drop() == 1
    assert [*rows] == []
    assert (position.position, held.next()) == (1, None)


def test_a_drop_of_nothing_is_where_the_feed_is() -> None:
    held, position = reading(0, chunk(0, 3, gap=2))
    offsets(taken(held, position))
    assert position.drop() == 5


def test_a_seek_drops_what_is_held_and_fetches_elsewhere() -> None:
    held, position = reading(0, chunk(0, 3))
    rows = iter(taken(held, position).rows)
    next(rows)
    position.seek(50)
    assert [*rows] == []
    assert (position.position, position.feed.start, held.next()) == (50, 50, None)


def test_rows_that_are_ended_go_to_the_next_one_who_reads() -> None:
    held, position = reading(0, chunk(0, 3))
    rows = iter(taken(held, position).rows)
    next(rows)
    position.end_rows()
    assert [*rows] == []
    assert position.position == 1
    current = held.next()
    assert current is not None
    assert offsets(current) == [1, 2]


def test_partitions_can_be_left_out() -> None:
    held, position = reading(0, chunk(0, 3))
    current = taken(held, position)
    assert held.next(but_not={ORDERS}) is None
    assert held.next() is current


def test_what_is_held_of_a_removed_partition_is_handed_out_unless_it_is_dropped() -> None:
    held, position = reading(0, chunk(0, 3))
    current = taken(held, position)
    assert held.remove(ORDERS) is position
    assert (held.next(), ORDERS in held, [*held]) == (current, False, [])
    held.drop_all()
    assert held.next() is None


def interrupted(poll: Callable[[], object]) -> Callable[[], FetchedDataChunk | None]:
    def poll_and_interrupt() -> None:
        poll()
        raise KeyboardInterrupt

    return poll_and_interrupt


@pytest.mark.parametrize("start", [0, LATEST])
def test_a_chunk_that_ctrl_c_has_taken_away_is_fetched_again(start: int) -> None:
    held, position = reading(start)
    assert position.feed.started(0, 0)
    position.feed.deliver(0, chunk(0, 3))
    with pytest.raises(KeyboardInterrupt):
        held.take(interrupted(lambda: position.feed.poll(0)))
    assert (position.feed.position, position.feed.generation) == (0, 1)
    position.feed.deliver(1, chunk(0, 3))
    position.feed.deliver(1, chunk(3, 3))
    assert offsets(taken(held, position)) == [0, 1, 2]
    with pytest.raises(KeyboardInterrupt):
        held.take(interrupted(lambda: position.feed.poll(0)))
    assert (position.feed.position, position.feed.generation) == (3, 2)


def test_ctrl_c_while_nothing_comes_costs_nothing() -> None:
    held, position = reading(0, chunk(0, 3))
    current = taken(held, position)
    with pytest.raises(KeyboardInterrupt):
        held.take(interrupted(lambda: None))
    assert (position.feed.generation, held.next()) == (0, current)
