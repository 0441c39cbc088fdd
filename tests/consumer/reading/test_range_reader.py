"""Ranges read to their ends, with feeds that a test fills. Without a broker."""

from __future__ import annotations

import pytest

from ottla import CorruptRecord, RequestTimedOut
from ottla.consumer.reading.offset_ranges import OffsetRange, ReadRange
from ottla.consumer.reading.range_reader import OnStopped, OpenRange, RangeReader
from ottla.fetching.budget import FetchBudget
from ottla.fetching.chunk_queue import ChunkQueue, FetchedDataChunk
from ottla.fetching.feed import PartitionFeed
from ottla.fetching.inbox import Inbox
from ottla.model.topic_partition import TopicAndPartition
from ottla.records.messages import Message, MessageSet

ORDERS, CAKES = TopicAndPartition("orders", 0), TopicAndPartition("cakes", 1)
STALL_MS = 50


def chunk(partition: TopicAndPartition, first: int, count: int) -> FetchedDataChunk:
    messages = MessageSet.of([Message(b"v") for _ in range(count)], base_offset=first)
    (piece,) = messages.decoded()
    return FetchedDataChunk(partition, piece.batch, first, first + count, 100, 1000)


class Feeds:
    """An engine whose feeds bring nothing by themselves."""

    def __init__(self) -> None:
        self.feeds: dict[TopicAndPartition, PartitionFeed] = {}

    def add(
        self, topic_partition: TopicAndPartition, offset: int, *, inbox: Inbox | None = None, stop_offset: int
    ) -> PartitionFeed:
        queue = ChunkQueue(chunks_max=10, patience_ms=1000, budget=FetchBudget(1 << 20))
        feed = self.feeds[topic_partition] = PartitionFeed(
            topic_partition, offset, queue=queue, inbox=inbox, stop_offset=stop_offset
        )
        return feed

    def remove(self, topic_partition: TopicAndPartition) -> None:
        self.feeds.pop(topic_partition).close()


def stopped(part: OpenRange, error: Exception) -> None:
    raise error


def stalled(parts: list[OpenRange]) -> RequestTimedOut:
    return RequestTimedOut(", ".join(f"{part.feed.topic_partition}" for part in parts))


def reader(feeds: Feeds, on_stopped: OnStopped = stopped) -> RangeReader:
    return RangeReader(feeds, stall_timeout_ms=STALL_MS, on_stopped=on_stopped, on_stalled=stalled)


def test_ranges_are_cut_exactly_and_left_at_their_ends() -> None:
    feeds = Feeds()
    ranges = reader(feeds)
    ranges.add(ORDERS, ReadRange(OffsetRange(2, 6)))
    ranges.add(CAKES, ReadRange(OffsetRange(0, 0)))
    feeds.feeds[ORDERS].deliver(0, chunk(ORDERS, 0, 5))
    feeds.feeds[ORDERS].deliver(0, chunk(ORDERS, 5, 5))
    parts = [(part.batch.column("offset").to_pylist(), part.next_offset) for part in ranges.chunks()]
    assert parts == [([2, 3, 4], 5), ([5], 6)]
    assert ranges.positions == {ORDERS: 6, CAKES: 0}
    assert feeds.feeds == {}


def test_offsets_without_records_at_the_end_are_passed() -> None:
    feeds = Feeds()
    ranges = reader(feeds)
    ranges.add(ORDERS, ReadRange(OffsetRange(0, 9)))
    feeds.feeds[ORDERS].deliver(0, chunk(ORDERS, 0, 3))
    chunks = ranges.chunks()
    assert next(chunks).next_offset == 3
    feeds.feeds[ORDERS].passed(0, 9, 9)
    assert [*chunks] == []
    assert ranges.positions == {ORDERS: 9}


def test_nothing_for_too_long_is_an_error() -> None:
    feeds = Feeds()
    ranges = reader(feeds)
    ranges.add(ORDERS, ReadRange(OffsetRange(0, 9)))
    with pytest.raises(RequestTimedOut, match="orders-0"):
        next(ranges.chunks())
    assert feeds.feeds == {}


def test_an_error_stops_the_reading_or_is_dealt_with() -> None:
    damage = CorruptRecord("damaged", offset=3, next_offset=4)
    for skips in (False, True):
        feeds = Feeds()
        ranges = reader(feeds, (lambda part, _: part.feed.skip()) if skips else stopped)  # type: ignore[arg-type]
        ranges.add(ORDERS, ReadRange(OffsetRange(0, 4)))
        feeds.feeds[ORDERS].deliver(0, chunk(ORDERS, 0, 3))
        feeds.feeds[ORDERS].stop(0, damage)
        chunks = ranges.chunks()
        assert next(chunks).next_offset == 3
        if skips:
            assert [*chunks] == []
            assert ranges.positions == {ORDERS: 4}
        else:
            with pytest.raises(CorruptRecord):
                next(chunks)


def test_an_error_behind_the_end_does_not_matter() -> None:
    feeds = Feeds()
    ranges = reader(feeds)
    ranges.add(ORDERS, ReadRange(OffsetRange(0, 3)))
    feeds.feeds[ORDERS].passed(0, 3, 9)
    feeds.feeds[ORDERS].stop(0, CorruptRecord("damaged"))
    assert [*ranges.chunks()] == []


def test_a_close_ends_it() -> None:
    feeds = Feeds()
    ranges = reader(feeds)
    ranges.add(ORDERS, ReadRange(OffsetRange(0, 3)))
    ranges.close()
    assert [*ranges.chunks()] == []
    assert feeds.feeds == {}
