"""The work of a Spark task in an executor: ranges of offsets → Arrow batches.

A Python worker process serves one task at a time and lives through many, so its fetch engine, with its
connections and what it knows of the cluster, is kept for the next task.
"""

from __future__ import annotations

import gc
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, partial

import pyarrow as pa

from ottla import kernels
from ottla.client.client_config import ClientConfig
from ottla.client.clock import MONOTONIC, Clock
from ottla.consumer.reading.offset_ranges import OffsetRange, ReadRange
from ottla.consumer.reading.range_reader import OpenRange, RangeReader
from ottla.fetching.engine import FetchEngine
from ottla.fetching.fetch_config import FetchConfig, OffsetReset
from ottla.model.error_codes import Code
from ottla.model.errors import CorruptRecord, DataLost, KafkaError, RequestTimedOut
from ottla.model.topic_partition import TopicAndPartition
from ottla.spark.range_planner import Task

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Kept:
    """The engine of this process, and its settings."""

    client: ClientConfig
    fetch: FetchConfig
    engine: FetchEngine


_kept: list[_Kept] = []


def engine_of(client: ClientConfig, fetch: FetchConfig) -> FetchEngine:
    """The engine of this process for these settings."""
    for kept in _kept:
        if (kept.client, kept.fetch) == (client, fetch):
            return kept.engine
    close_engine()
    engine = FetchEngine(client, fetch, name="ottla-spark")
    _kept.append(_Kept(client, fetch, engine))
    return engine


def close_engine() -> None:
    """Close the engine that is kept, if there is one."""
    while _kept:
        _kept.pop().engine.close()


@cache
def settle_in() -> None:
    """Prepare a worker process of Spark, once, for reading a lot.

    Spark collects garbage after each task, through everything that is imported: 46 ms, or 2 ms after a
    freeze.
    """
    kernels.hasten()
    gc.collect()
    gc.freeze()


def read_ranges(
    task: Task, client: ClientConfig, fetch: FetchConfig, *, patience_ms: int, clock: Clock = MONOTONIC
) -> Iterator[tuple[TopicAndPartition, pa.RecordBatch]]:
    """Yield the records of all ranges, each once, in order within each partition.

    A range begins at its `first`, which may be before its `start`. Raises the error that stops a partition,
    and RequestTimedOut if nothing comes for `patience_ms`. If auto.offset.reset allows losing records,
    damaged batches are skipped.
    """
    yield from read_with(engine_of(client, fetch), task, fetch, patience_ms=patience_ms, clock=clock)


def read_with(
    engine: FetchEngine, task: Task, fetch: FetchConfig, *, patience_ms: int, clock: Clock = MONOTONIC
) -> Iterator[tuple[TopicAndPartition, pa.RecordBatch]]:
    """As `read_ranges`, with an engine of the caller."""
    may_lose = fetch.auto_offset_reset is not OffsetReset.NONE
    reader = RangeReader(
        engine,
        stall_timeout_ms=patience_ms,
        on_stopped=partial(_skip_damage, may_lose=may_lose),
        on_stalled=partial(_too_long, patience_ms),
        clock=clock,
    )
    for wanted in task:
        engine.remove(wanted.topic_partition)  # a task that was cancelled may have left it open
        reader.add(wanted.topic_partition, ReadRange(OffsetRange(wanted.first, wanted.end)))
    for chunk in reader.chunks():
        yield chunk.topic_partition, chunk.batch


def _skip_damage(stopped: OpenRange, error: Exception, *, may_lose: bool) -> None:
    """Continue after damaged records if `may_lose`; otherwise raise the error that stops the task, with a
    remedy.
    """
    feed = stopped.feed
    where = f"{feed.topic_partition} at offset {feed.position}"
    if isinstance(error, KafkaError) and error.code == Code.OFFSET_OUT_OF_RANGE:
        raise DataLost(
            f"{where}: the log does not have it any more. To continue with what it has, set failOnDataLoss to"
            " false"
        ) from error
    if not isinstance(error, CorruptRecord):
        raise error
    if not may_lose:
        raise CorruptRecord(
            f"{where}: {error}. To continue after it, set failOnDataLoss to false",
            offset=error.offset,
            next_offset=error.next_offset,
        ) from error
    log.warning("records are lost: %s; goes on at offset %d", error, feed.skip())


def _too_long(patience_ms: int, parts: list[OpenRange]) -> RequestTimedOut:
    feed, (start, stop) = parts[0].feed, parts[0].offsets
    report = feed.errors.last
    because = f": {report}" if report is not None else ""
    return RequestTimedOut(
        f"{feed.topic_partition}: no records for {patience_ms} ms, at offset {feed.position} of"
        f" {start} to {stop}{because}; raise kafkaConsumer.pollTimeoutMs if that is too early"
    )
