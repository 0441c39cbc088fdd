"""What one stream has handed to the producer, what became of it, and how far its partitions may be committed.

Everything is for the stream's thread. The memory of deliveries does not grow with the time between commits:
those that are done are looked at as the stream goes on.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import pyarrow as pa

from ottla.client.clock import MONOTONIC, Deadline
from ottla.fetching import FetchedDataChunk, TopicAndPartition
from ottla.mirror.errors import MirrorFailed
from ottla.mirror.offset_runs import Offsets, Run, joined, runs_of
from ottla.mirror.records import Handler, columns_by_topic
from ottla.model.errors import ConfigError, OttlaError
from ottla.producer import BatchDelivery, Producer
from ottla.records.rows import RowMaker
from ottla.records.whole_batches import is_whole

log = logging.getLogger(__name__)

NEW_PARTITION_MS = 60_000
"""How long a partition of the target may be unknown to the producer."""
LOOK_MS = 100


class Placement(StrEnum):
    """Which partition of the target a record goes to."""

    SAME = "same"
    BY_KEY = "key"


@dataclass(frozen=True, kw_only=True)
class Rules:
    """How records are sent. `handler` decides about places itself; `prepare` is asked before each chunk."""

    placement: Placement = Placement.SAME
    handler: Handler | None = None
    aborts_on_failure: bool = True
    prepare: Callable[[TopicAndPartition], None] = lambda place: None  # noqa: ARG005

    @property
    def notes_offsets(self) -> bool:
        """Whether a partition's records go to one partition in their order, so that offsets can be told."""
        return self.placement is Placement.SAME and self.handler is None


@dataclass(frozen=True, slots=True)
class _Sent:
    """One `send_batch`: where its rows are from."""

    place: TopicAndPartition
    delivery: BatchDelivery
    offsets: Offsets | range


class Counts:
    """Of all streams together."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.sent = 0
        self.dropped = 0
        self.commits = 0

    def add(self, *, sent: int = 0, dropped: int = 0, commits: int = 0) -> None:
        """Thread-safe."""
        with self._lock:
            self.sent += sent
            self.dropped += dropped
            self.commits += commits


class Outbox:
    """See the module."""

    def __init__(self, producer: Producer, rules: Rules, counts: Counts) -> None:
        self._producer = producer
        self._rules = rules
        self._counts = counts
        self._unsettled: deque[_Sent] = deque()
        self._placed: set[TopicAndPartition] = set()
        self._positions: dict[TopicAndPartition, int] = {}
        self._runs: dict[TopicAndPartition, list[Run]] = {}

    # --- sending

    def send(self, chunk: FetchedDataChunk) -> None:
        """Hand a chunk's records to the producer; waits while its memory is full."""
        place = chunk.topic_partition
        self._rules.prepare(place)
        if self._rules.handler is not None:
            self._send_handled(chunk, self._rules.handler)
        else:
            self._unsettled.append(_Sent(place, self._submitted(place, chunk.batch), _offsets(chunk.batch)))
        self._positions[place] = chunk.next_offset

    def _submitted(self, place: TopicAndPartition, batch: pa.RecordBatch) -> BatchDelivery:
        if self._rules.placement is Placement.BY_KEY:
            return self._producer.send_batch(place.topic, batch)
        send = self._producer.send_whole if is_whole(batch) else self._producer.send_batch
        deadline = Deadline(MONOTONIC, 0 if place in self._placed else NEW_PARTITION_MS)
        while True:
            try:
                delivery = send(place.topic, batch, partition=place.partition)
            except ConfigError:  # the partition is new, and the producer learns of it within metadata.max.age
                if deadline.passed:
                    raise
                MONOTONIC.pause(LOOK_MS)
            else:
                self._placed.add(place)
                return delivery

    def _send_handled(self, chunk: FetchedDataChunk, handler: Handler) -> None:
        place = chunk.topic_partition
        rows = RowMaker(*place).rows(chunk.batch)
        for topic, columns in columns_by_topic(record for row in rows for record in handler(row)):
            delivery = self._producer.send_batch(topic, columns)
            self._unsettled.append(_Sent(place, delivery, range(0)))

    def skip(self, chunk: FetchedDataChunk) -> None:
        """Pass over a chunk."""
        self._positions[chunk.topic_partition] = chunk.next_offset

    # --- outcomes

    def harvest(self) -> None:
        """Look at what is done. Raises MirrorFailed if something failed and that ends the mirror."""
        while self._unsettled and self._unsettled[0].delivery.done():
            self._settle(self._unsettled.popleft())

    def flush(self) -> None:
        """Wait until all that was handed in is acknowledged. Raises as `harvest`."""
        while self._unsettled:
            try:
                self._producer.flush()
            except OttlaError as error:
                # Whose failure it is, the deliveries tell: streams share the producer.
                log.debug("flush: %s", error)
            self.harvest()

    def _settle(self, sent: _Sent) -> None:
        failures = sent.delivery.failures()
        dropped = sum(len(rows) for rows, _ in failures)
        self._counts.add(sent=len(sent.delivery) - dropped, dropped=dropped)
        if failures:
            error = failures[0][1]
            if self._rules.aborts_on_failure:
                raise MirrorFailed(
                    f"{sent.place}: {dropped:,} records were not stored, so nothing is committed: {error}"
                ) from error
            log.error("%s: %d records are dropped: %s", sent.place, dropped, error)
        elif self._rules.notes_offsets:
            self._note(sent)

    def _note(self, sent: _Sent) -> None:
        target = sent.delivery.result().column("offset").to_numpy()
        if (target < 0).any():  # acks=0, or stored by an earlier attempt: nobody knows where
            return
        source = sent.offsets
        if isinstance(source, range):
            source = np.arange(source.start, source.stop)
        runs = self._runs.setdefault(sent.place, [])
        runs[-1:] = joined((*runs[-1:], *runs_of(source, target)))

    # --- how far

    @property
    def positions(self) -> dict[TopicAndPartition, int]:
        """Behind the last record that was handed in, of each partition since it was forgotten."""
        return dict(self._positions)

    def take_runs(self) -> dict[TopicAndPartition, list[Run]]:
        """What was noted since the last time."""
        runs, self._runs = self._runs, {}
        return runs

    def forget(self, places: Iterable[TopicAndPartition]) -> None:
        """These are committed, or others have them by now."""
        for place in places:
            self._positions.pop(place, None)


def _offsets(batch: pa.RecordBatch) -> Offsets | range:
    """The offsets of a chunk's records, without holding on to its memory."""
    offsets: Offsets = batch.column("offset").to_numpy()
    if is_whole(batch):
        counts = batch.column("records").to_numpy()
        first, behind, count = int(offsets[0]), int(offsets[-1] + counts[-1]), int(counts.sum())
        if behind - first == count:
            return range(first, behind)
        return np.repeat(offsets - (np.cumsum(counts) - counts), counts) + np.arange(count)
    first, last = int(offsets[0]), int(offsets[-1])
    return range(first, last + 1) if last - first + 1 == len(offsets) else offsets.copy()
