"""RangeReader: reads given ranges of offsets to their ends. Replays and the tasks of Spark use it.

The last offsets of a range may have no records (compaction, transactions), so no chunk reaches its end.
Therefore the positions of feeds are checked while no chunk comes. An error after the end of a range is
ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Protocol

from ottla.client.clock import MONOTONIC, Clock
from ottla.consumer.reading.offset_ranges import OffsetRange, ReadRange, Trimmer
from ottla.fetching.chunk_queue import FetchedDataChunk
from ottla.fetching.feed import PartitionFeed
from ottla.fetching.fetch_errors import PartitionError
from ottla.fetching.inbox import Inbox
from ottla.model.errors import OttlaError
from ottla.model.topic_partition import TopicAndPartition

LOOK_MS = 20
"""How often positions are checked while no chunk comes."""


class RangeEngine(Protocol):
    """The part of a FetchEngine that is needed here."""

    def add(
        self, topic_partition: TopicAndPartition, offset: int, *, inbox: Inbox | None = None, stop_offset: int
    ) -> PartitionFeed:
        """Read a partition, up to an offset."""

    def remove(self, topic_partition: TopicAndPartition) -> None:
        """Stop reading a partition."""


@dataclass(slots=True)
class OpenRange:
    """A range that is not read to its end yet."""

    feed: PartitionFeed
    trimmer: Trimmer

    @property
    def offsets(self) -> OffsetRange:
        """The whole range."""
        return self.trimmer.range.offsets


OnStopped = Callable[[OpenRange, Exception], None]
"""Called when an error has stopped a partition: raises an error, or makes the feed continue."""
OnStalled = Callable[[list[OpenRange]], OttlaError]
"""Called when nothing came for too long: returns the error to raise."""


class RangeReader:
    """Read it once, in one thread; any thread may `close` it. Raises as `on_stopped` and `on_stalled` say."""

    def __init__(
        self,
        engine: RangeEngine,
        *,
        stall_timeout_ms: float,
        on_stopped: OnStopped,
        on_stalled: OnStalled,
        clock: Clock = MONOTONIC,
    ) -> None:
        self.positions: dict[TopicAndPartition, int] = {}
        """Up to where each range is read; its `stop` at the end."""
        self.errors: list[PartitionError] = []
        """What the feeds of finished ranges reported."""
        self._engine = engine
        self._stall_timeout_ms = stall_timeout_ms
        self._on_stopped = on_stopped
        self._on_stalled = on_stalled
        self._clock = clock
        self._inbox = Inbox()
        self._open: dict[TopicAndPartition, OpenRange] = {}

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self._inbox.is_closed

    def close(self) -> None:
        """End `chunks`. From any thread."""
        self._inbox.close()

    def add(self, topic_partition: TopicAndPartition, wanted: ReadRange) -> None:
        """Begin to fetch a range; nothing is done for an empty one."""
        start, stop = wanted.offsets
        self.positions[topic_partition] = start
        if start < stop:
            feed = self._engine.add(topic_partition, start, inbox=self._inbox, stop_offset=stop)
            self._open[topic_partition] = OpenRange(feed, Trimmer(topic_partition, wanted))

    def chunks(self) -> Iterator[FetchedDataChunk]:
        """The records of all ranges, each once, in order within each partition. Chunks are never empty."""
        try:
            while (chunk := self._next()) is not None:
                part = self._open[chunk.topic_partition]
                batch = part.trimmer.trim(chunk.batch)
                ends = (chunk.next_offset, part.offsets.stop, part.trimmer.cut_at or chunk.next_offset)
                self._advance(chunk.topic_partition, chunk.next_offset)
                if batch.num_rows:
                    yield replace(chunk, batch=batch, next_offset=min(ends))
        finally:
            for topic_partition in list(self._open):
                self._finish(topic_partition)

    def _next(self) -> FetchedDataChunk | None:
        """The next chunk of a range that is not at its end; None if there is none left."""
        waited_ms, before = 0.0, list[int]()
        while self._open and not self._inbox.is_closed:
            begun_ms = self._clock.now_ms()
            try:
                chunk = self._inbox.poll(LOOK_MS)
            except Exception:  # noqa: BLE001  (raised by `on_stopped` if it matters)
                self._finish_passed()
                self._handle_stops()
                continue
            if chunk is not None:
                return chunk
            self._finish_passed()
            positions = [part.feed.position for part in self._open.values()]
            waited_ms = waited_ms + self._clock.now_ms() - begun_ms if positions == before else 0.0
            before = positions
            if waited_ms >= self._stall_timeout_ms:
                raise self._on_stalled(list(self._open.values()))
        return None

    def _handle_stops(self) -> None:
        """`on_stopped` raises, or makes each stopped feed continue."""
        for part in list(self._open.values()):
            failure = part.feed.failure
            if failure is not None:
                self._on_stopped(part, failure)

    def _finish_passed(self) -> None:
        for topic_partition, part in list(self._open.items()):
            self._advance(topic_partition, part.feed.position)

    def _advance(self, topic_partition: TopicAndPartition, position: int) -> None:
        """Note that everything before `position` is read."""
        part = self._open[topic_partition]
        start, stop = part.offsets
        is_done = part.trimmer.is_done or position >= stop
        self.positions[topic_partition] = stop if is_done else max(position, start)
        if is_done:
            self._finish(topic_partition)

    def _finish(self, topic_partition: TopicAndPartition) -> None:
        part = self._open.pop(topic_partition)
        self._engine.remove(topic_partition)
        while (report := part.feed.errors.poll(0)) is not None:
            self.errors.append(report)
