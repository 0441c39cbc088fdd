"""What a task does in an executor: offset ranges → Arrow batches.

A Python worker process serves one task at a time and lives through many, so its fetch engine, with its
connections and what it knows of the cluster, is kept for the next task.
"""

from __future__ import annotations

import gc
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import pyarrow as pa

from ottla.client.clock import MONOTONIC, Clock, Deadline
from ottla.client.config import ClientConfig
from ottla.fetching import FetchConfig, FetchEngine, Inbox, PartitionFeed
from ottla.fetching.chunk_queue import FetchedDataChunk
from ottla.fetching.config import OffsetReset
from ottla.model.error_codes import Code
from ottla.model.errors import CorruptRecord, KafkaError, OttlaError, RequestTimedOut
from ottla.model.topic_partition import TopicAndPartition
from ottla.spark.data_loss import DataLost
from ottla.spark.range_planner import OffsetRange, Task

log = logging.getLogger(__name__)

LOOK_MS = 50
"""How often ranges are looked at whose last offsets have no records: no chunk comes to tell."""


@dataclass(slots=True)
class _Kept:
    """The engine of this process, and what it was made of."""

    client: ClientConfig
    fetch: FetchConfig
    engine: FetchEngine


_kept: list[_Kept] = []

OpenRanges = dict[TopicAndPartition, tuple[OffsetRange, PartitionFeed]]


def engine_of(client: ClientConfig, fetch: FetchConfig) -> FetchEngine:
    """The engine of this process for these settings."""
    for one in _kept:
        if (one.client, one.fetch) == (client, fetch):
            return one.engine
    close_engine()
    engine = FetchEngine(client, fetch, name="ottla-spark")
    _kept.append(_Kept(client, fetch, engine))
    return engine


def close_engine() -> None:
    """Close what is kept, if anything is."""
    while _kept:
        _kept.pop().engine.close()


@cache
def freeze_once() -> None:
    """Spark's worker collects garbage after each task, through all that is imported: 46 ms, frozen 2 ms."""
    gc.collect()
    gc.freeze()


def read_ranges(
    task: Task, client: ClientConfig, fetch: FetchConfig, *, patience_ms: int, clock: Clock = MONOTONIC
) -> Iterator[tuple[TopicAndPartition, pa.RecordBatch]]:
    """The records of all ranges, in order within each partition; no others, and each once. They begin
    where there is something to learn, if that is before the range.

    Raises what stops a partition, and RequestTimedOut if nothing comes for so long. Damaged batches are
    passed over where what is gone is, too.
    """
    engine = engine_of(client, fetch)
    inbox = Inbox()
    open_ranges: OpenRanges = {}
    may_lose = fetch.auto_offset_reset is not OffsetReset.NONE
    try:
        for one in task:
            engine.remove(one.topic_partition)  # a task that was cut off may have left it
            open_ranges[one.topic_partition] = one, engine.add(one.topic_partition, one.first, inbox=inbox)
        deadline = Deadline(clock, patience_ms)
        while open_ranges:
            try:
                chunk = inbox.poll(timeout_ms=LOOK_MS)
            except OttlaError as error:
                _pass_over(error, open_ranges, may_lose=may_lose)
                continue
            if chunk is not None:
                deadline = Deadline(clock, patience_ms)
                if chunk.topic_partition not in open_ranges:
                    continue
                rows = _within(chunk, open_ranges[chunk.topic_partition][0])
                if rows.num_rows:
                    yield chunk.topic_partition, rows
            elif deadline.passed:
                raise _too_long(open_ranges, patience_ms)
            for place in _finished(open_ranges, chunk):
                engine.remove(place)
                del open_ranges[place]
    finally:
        for place in open_ranges:
            engine.remove(place)


def _within(chunk: FetchedDataChunk, wanted: OffsetRange) -> pa.RecordBatch:
    """The chunk's records that belong to the range."""
    batch = chunk.batch
    if chunk.next_offset <= wanted.end and chunk.fetch_offset >= wanted.first:
        return batch
    offsets = batch.column("offset").to_numpy()
    first, last = offsets.searchsorted([wanted.first, wanted.end])
    return batch.slice(int(first), int(last - first))


def _pass_over(error: OttlaError, open_ranges: OpenRanges, *, may_lose: bool) -> None:
    """Go on behind damaged records, if that is wanted; else raise what stops the task, with its remedy."""
    feed = next((feed for _, feed in open_ranges.values() if feed.failure is error), None)
    if feed is None:
        raise error
    where = f"{feed.topic_partition} at offset {feed.position}"
    if isinstance(error, KafkaError) and error.code == Code.OFFSET_OUT_OF_RANGE:
        raise DataLost(
            f"{where}: the log does not have it any more. To go on with what it has, set failOnDataLoss to"
            " false"
        ) from error
    if not isinstance(error, CorruptRecord):
        raise error
    if not may_lose:
        raise CorruptRecord(
            f"{where}: {error}. To go on behind it, set failOnDataLoss to false",
            offset=error.offset,
            next_offset=error.next_offset,
        ) from error
    log.warning("records are lost: %s; goes on at offset %d", error, feed.skip())


def _finished(open_ranges: OpenRanges, chunk: FetchedDataChunk | None) -> list[TopicAndPartition]:
    """Ranges whose end is passed: the chunk's own, or any of them if there was nothing to read."""
    places = list(open_ranges) if chunk is None else [chunk.topic_partition]
    return [place for place in places if open_ranges[place][1].position >= open_ranges[place][0].end]


def _too_long(open_ranges: OpenRanges, patience_ms: int) -> RequestTimedOut:
    wanted, feed = next(iter(open_ranges.values()))
    report = feed.errors.poll()
    because = f": {report}" if report is not None else ""
    return RequestTimedOut(
        f"{wanted.topic_partition}: no records for {patience_ms} ms, at offset {feed.position} of"
        f" {wanted.start} to {wanted.end}{because}; raise kafkaConsumer.pollTimeoutMs if that is too early"
    )
