"""A source that stops at cuts: positions where no transaction of the source is divided.

poll ─▶ chunks up to the cut ─▶ … ─▶ all partitions are at it ─▶ the stream may commit ─▶ the next cut

A partition that has more than the cut allows is paused, and the rest of its chunk is kept. Then the next cut
is looked for. When a commit is due, the cut does not move until all partitions have reached it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np

from ottla.client.clock import MONOTONIC
from ottla.consumer.reading.reader_state import Stopped
from ottla.fetching.chunk_queue import FetchedDataChunk
from ottla.mirror.source_cuts import Cut, CutSearch
from ottla.mirror.source_logs import SourceLogs
from ottla.mirror.sources import GroupSource, Positions, SourceEvents
from ottla.model.errors import OttlaError
from ottla.model.offset_spec import UNKNOWN_OFFSET
from ottla.model.topic_partition import TopicAndPartition

log = logging.getLogger(__name__)

SEARCH_PAUSE_MS = 20.0
"""The pause between two searches, so that a source that grows steadily is not asked all the time."""
FAILURE_PAUSE_MS = 250.0
PATIENCE_INTERVALS = 2
"""A partition that has waited for this many commit intervals continues, even if that divides a
transaction.
"""


class CutSource:
    """A MirrorSource. It closes the source that it opens, and the logs."""

    def __init__(
        self,
        open_source: Callable[[SourceEvents], GroupSource],
        events: SourceEvents,
        logs: SourceLogs,
        interval_ms: float,
    ) -> None:
        self._events = events
        self._logs = logs
        self._search = CutSearch(logs)
        self._interval_ms = interval_ms
        self._cut = Cut({}, is_whole=True)
        self._below: set[TopicAndPartition] = set()  # partitions before the cut
        self._rests: dict[TopicAndPartition, FetchedDataChunk] = {}  # chunks after the cut
        self._sought_since_ms: dict[TopicAndPartition, float] = {}
        self._search_at_ms = self._committed_at_ms = MONOTONIC.now_ms()
        wrapped = events._replace(on_release=self._release, on_loss=self._lose)
        self._source = open_source(wrapped)

    # --- reading

    def poll(self) -> FetchedDataChunk | None:
        if self._rests and MONOTONIC.now_ms() >= self._search_at_ms and self._may_move():
            self._move()
        chunk = self._next_rest() or self._source.poll()
        return None if chunk is None else self._within_cut(chunk)

    def _next_rest(self) -> FetchedDataChunk | None:
        """Return a kept chunk that begins before the current cut; its partition continues.

        None if there is none.
        """
        for topic_partition, rest in self._rests.items():
            if rest.fetch_offset < self._cut.offsets.get(topic_partition, 0):
                self._source.go_on(topic_partition)
                return self._rests.pop(topic_partition)
        return None

    def _within_cut(self, chunk: FetchedDataChunk) -> FetchedDataChunk | None:
        """Return the part of a chunk up to the cut, None if there is none.

        The rest is kept, and the partition is paused.
        """
        topic_partition = chunk.topic_partition
        end = max(self._cut.offsets.get(topic_partition, 0), chunk.fetch_offset)
        rows = int(np.searchsorted(chunk.batch.column("offset").to_numpy(), end))
        if rows == chunk.batch.num_rows:
            return chunk
        self._source.stay(topic_partition)
        self._rests[topic_partition] = replace(chunk, batch=chunk.batch.slice(rows), fetch_offset=end)
        return replace(chunk, batch=chunk.batch.slice(0, rows), next_offset=end) if rows else None

    def _positions(self) -> dict[TopicAndPartition, int]:
        """Return the next offset of each partition."""
        positions = self._source.positions()
        return positions | {each: rest.fetch_offset for each, rest in self._rests.items()}

    # --- cuts

    @property
    def is_at_cut(self) -> bool:
        """Whether everything before the cut was handed out."""
        if self._below:
            positions, ends = self._positions(), self._cut.offsets
            self._below = {each for each in self._below if positions.get(each, ends[each]) < ends[each]}
        return not self._below

    @property
    def divides(self) -> bool:
        """Whether a commit now may divide transactions of the source."""
        return not self._cut.is_whole or not self.is_at_cut

    def _may_move(self) -> bool:
        is_commit_due = MONOTONIC.now_ms() - self._committed_at_ms >= self._interval_ms
        return not is_commit_due or self.is_at_cut

    def _move(self) -> None:
        """Look for the next cut. It includes what is not copied yet of the last one."""
        positions, now_ms = self._positions(), MONOTONIC.now_ms()
        if UNKNOWN_OFFSET in positions.values():
            return
        self._sought_since_ms = {each: self._sought_since_ms.get(each, now_ms) for each in self._rests}
        waited_ms = now_ms - min(self._sought_since_ms.values())
        is_patient = waited_ms < PATIENCE_INTERVALS * self._interval_ms
        try:
            cut = self._search.cut(positions, is_patient=is_patient)
        except OttlaError as error:
            log.log(logging.DEBUG if is_patient else logging.WARNING, "no cut of the source yet: %s", error)
            self._search_at_ms = MONOTONIC.now_ms() + FAILURE_PAUSE_MS
            return
        self._search_at_ms = MONOTONIC.now_ms() + SEARCH_PAUSE_MS
        if any(end > positions[each] for each, end in cut.offsets.items()):
            self._cut = cut
            self._below = {each for each, end in cut.offsets.items() if end > positions[each]}
            for topic_partition in self._below:
                self._sought_since_ms.pop(topic_partition, None)

    # --- the rest of a source

    def commit(self, positions: Positions) -> bool:
        self._committed_at_ms = MONOTONIC.now_ms()
        return self._source.commit(positions)

    @property
    def stopped(self) -> Stopped:
        return self._source.stopped

    def close(self) -> None:
        try:
            self._source.close()
        finally:
            self._logs.close()

    def _release(self) -> None:
        """Commit if this is a cut, and go back to what was kept: partitions may go to other members, or start
        again.

        Between cuts the transaction stays open: nobody else writes, and `resume` knows what was sent.
        """
        if self.is_at_cut:
            self._events.on_release()
        for topic_partition, rest in self._rests.items():
            self._source.go_back(topic_partition, rest.fetch_offset)
        self._rests.clear()

    def _lose(self, partitions: Iterable[TopicAndPartition]) -> None:
        lost = frozenset(partitions)
        for topic_partition in lost:
            self._rests.pop(topic_partition, None)
        self._events.on_loss(lost)
