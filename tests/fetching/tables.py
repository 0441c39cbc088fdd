"""Parts of the pure core in few words: cursors, feeds, answers, and a clock that is set by hand."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from ottla.client.retry import Backoff
from ottla.fetching.budget import FetchBudget
from ottla.fetching.chunk_queue import ChunkQueue, FetchedDataChunk
from ottla.fetching.cursor import Cursor
from ottla.fetching.feed import PartitionFeed
from ottla.fetching.feed_interface import Want, Wanted
from ottla.fetching.fetch_config import FetchConfig
from ottla.fetching.inbox import Inbox
from ottla.fetching.partition_table import PartitionTable
from ottla.model.topic_partition import TopicAndPartition
from ottla.records.columns import SCHEMA
from ottla.records.slabs import SlabPool
from ottla.wire.api.fetch import FetchPartitionResponse, FetchResponse, FetchTopicResponse
from tests.log.record_sets import batch, values

PLACE = TopicAndPartition("t", 0)
TOPIC_ID = bytes(range(16))
PLENTY = 1 << 40


class HandClock:
    """Time stands still until a test moves it."""

    def __init__(self) -> None:
        self.ms = 1000.0

    def now_ms(self) -> float:
        return self.ms

    def pause(self, duration_ms: float, until: threading.Event | None = None) -> bool:
        self.ms += duration_ms
        return until is not None and until.is_set()


def chunk(
    offset: int = 0, rows: int = 1, *, nbytes: int = 100, place: TopicAndPartition = PLACE
) -> FetchedDataChunk:
    """A chunk of empty records."""
    columns = [pa.array(range(offset, offset + rows)), *(pa.nulls(rows, kind) for kind in SCHEMA.types[1:])]
    records = pa.RecordBatch.from_arrays(columns, names=SCHEMA.names)
    return FetchedDataChunk(place, records, offset, offset + rows, offset + rows, nbytes)


def feed(
    place: TopicAndPartition = PLACE,
    start: int = 0,
    *,
    inbox: Inbox | None = None,
    chunks_max: int = 2,
    patience_ms: float = 100,
    clock: HandClock | None = None,
    budget: FetchBudget | None = None,
) -> PartitionFeed:
    queue = ChunkQueue(chunks_max=chunks_max, patience_ms=patience_ms, budget=budget or FetchBudget(PLENTY))
    return PartitionFeed(place, start, queue=queue, inbox=inbox, clock=clock or HandClock())


def cursor(place: TopicAndPartition = PLACE, offset: int = 0, *, lag: int | None = 1 << 40) -> Cursor:
    """A cursor that knows where it is."""
    one = Cursor(feed(place, offset), topic_id=TOPIC_ID)
    one.follow(Wanted(Want.FETCH, 0, offset))
    one.lag = lag
    return one


def reader_of(cursor: Cursor) -> PartitionFeed:
    """The reader's side of a cursor's feed."""
    assert isinstance(cursor.feed, PartitionFeed)
    return cursor.feed


class Table:
    """A PartitionTable with a budget and a clock to play with."""

    def __init__(
        self, config: FetchConfig | None = None, budget_bytes: int = PLENTY, *, scans_once: bool = True
    ) -> None:
        self.clock = HandClock()
        self.budget = FetchBudget(budget_bytes)
        self.table = PartitionTable(
            config or FetchConfig(fetch_message_max_bytes=1 << 20),
            budget=self.budget,
            pool=SlabPool(reserve_bytes=0),
            now_ms=self.clock.now_ms,
            backoff=Backoff(100, 1000, jitter=0.0),
            chance=random.Random(0),
            scans_once=scans_once,
        )

    def add(self, place: TopicAndPartition = PLACE, start: int = 0) -> Cursor:
        one = Cursor(feed(place, start, clock=self.clock, budget=self.budget), topic_id=TOPIC_ID)
        self.table.add(one)
        return one


def answer(
    rows: bytes | bytearray | memoryview | None = None,
    partition: int = 0,
    *,
    error: int = 0,
    high_watermark: int = 1000,
    **more: Any,
) -> FetchPartitionResponse:
    return FetchPartitionResponse(
        partition_index=partition, error_code=error, high_watermark=high_watermark, records=rows, **more
    )


def response(*answers: FetchPartitionResponse, topic: str = "t", error: int = 0) -> FetchResponse:
    return FetchResponse(
        responses=[FetchTopicResponse(topic=topic, topic_id=TOPIC_ID, partitions=list(answers))],
        error_code=error,
    )


def records(first: int, count: int, *, size: int = 20, **how: Any) -> bytes:
    """One batch of numbered records at an offset."""
    return bytes(batch(*values(first, count, size), base_offset=first, **how))


def offsets_of(chunks: Iterable[FetchedDataChunk]) -> list[int]:
    return [offset for one in chunks for offset in one.batch.column("offset").to_pylist()]


def taken(one: Any) -> list[FetchedDataChunk]:
    """All that waits."""
    found = []
    while (next_one := one.poll(0)) is not None:
        found.append(next_one)
    return found
