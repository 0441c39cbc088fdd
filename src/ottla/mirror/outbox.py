"""The records that one stream has sent through the producer, their outcomes, and the positions to commit.

Only the stream's thread uses it. Memory does not grow with the time between commits: finished deliveries are
removed as the stream continues.
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
from ottla.fetching.chunk_queue import FetchedDataChunk
from ottla.mirror.offset_runs import OffsetRun, Offsets, joined, runs_of
from ottla.mirror.records import Handler, columns_by_topic
from ottla.model.errors import ConfigError, MirrorFailed, OttlaError
from ottla.model.topic_partition import TopicAndPartition
from ottla.producer import BatchDelivery, Producer
from ottla.records.rows import Deserializer, RowMaker
from ottla.records.whole_batches import is_whole

log = logging.getLogger(__name__)

NEW_PARTITION_MS = 60_000
"""How long a new partition of the target may be unknown to the producer."""
RETRY_PAUSE_MS = 100


class MirrorPlacement(StrEnum):
    """Which partition of the target a record goes to."""

    SAME = "same"
    BY_KEY = "key"


@dataclass(frozen=True, kw_only=True)
class SendingRules:
    """How records are sent. A `handler` chooses topics and partitions itself, and gets keys and values as the
    `deserializers` make them; `prepare` is called before each chunk."""

    placement: MirrorPlacement = MirrorPlacement.SAME
    handler: Handler | None = None
    deserializers: tuple[Deserializer | None, Deserializer | None] = (None, None)
    aborts_on_failure: bool = True
    prepare: Callable[[TopicAndPartition], None] = lambda topic_partition: None  # noqa: ARG005

    @property
    def notes_offsets(self) -> bool:
        """Whether the records of a partition go to one partition in order, so that offsets can be
        translated."""
        return self.placement is MirrorPlacement.SAME and self.handler is None


@dataclass(frozen=True, slots=True)
class _Sent:
    """One `send_batch`, and the source of its rows."""

    topic_partition: TopicAndPartition
    delivery: BatchDelivery
    offsets: Offsets | range


class MirrorCounts:
    """Counts of all streams together."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.sent = 0
        self.dropped = 0
        self.commits = 0
        self.divided = 0

    def add(self, *, sent: int = 0, dropped: int = 0, commits: int = 0, divided: int = 0) -> None:
        """Thread-safe."""
        with self._lock:
            self.sent += sent
            self.dropped += dropped
            self.commits += commits
            self.divided += divided


class Outbox:
    """The records of one stream on their way to the target."""

    def __init__(self, producer: Producer, rules: SendingRules, counts: MirrorCounts) -> None:
        self._producer = producer
        self._rules = rules
        self._counts = counts
        self._unsettled: deque[_Sent] = deque()
        self._known_targets: set[TopicAndPartition] = set()
        self._positions: dict[TopicAndPartition, int] = {}
        self._runs: dict[TopicAndPartition, list[OffsetRun]] = {}

    # --- sending

    def send(self, chunk: FetchedDataChunk) -> None:
        """Give the records of a chunk to the producer; waits while its memory is full."""
        source = chunk.topic_partition
        self._rules.prepare(source)
        if self._rules.handler is not None:
            self._send_handled(chunk, self._rules.handler)
        else:
            self._unsettled.append(_Sent(source, self._submit(source, chunk.batch), _offsets(chunk.batch)))
        self._positions[source] = chunk.next_offset

    def _submit(self, source: TopicAndPartition, batch: pa.RecordBatch) -> BatchDelivery:
        if self._rules.placement is MirrorPlacement.BY_KEY:
            return self._producer.send_batch(source.topic, batch)
        send = self._producer.send_whole if is_whole(batch) else self._producer.send_batch
        deadline = Deadline(MONOTONIC, 0 if source in self._known_targets else NEW_PARTITION_MS)
        while True:
            try:
                delivery = send(source.topic, batch, partition=source.partition)
            except ConfigError:  # a new partition: the producer learns of it within metadata.max.age.ms
                if deadline.passed:
                    raise
                MONOTONIC.pause(RETRY_PAUSE_MS)
            else:
                self._known_targets.add(source)
                return delivery

    def _send_handled(self, chunk: FetchedDataChunk, handler: Handler) -> None:
        source = chunk.topic_partition
        rows = RowMaker(*source, *self._rules.deserializers).rows(chunk.batch)
        for topic, columns in columns_by_topic(record for row in rows for record in handler(row)):
            delivery = self._producer.send_batch(topic, columns)
            self._unsettled.append(_Sent(source, delivery, range(0)))

    def skip(self, chunk: FetchedDataChunk) -> None:
        """Skip a chunk: its position counts, its records are not sent."""
        self._positions[chunk.topic_partition] = chunk.next_offset

    def resume(self, topic_partition: TopicAndPartition, offset: int) -> None:
        """Note that reading continues at `offset`; the position is committed again."""
        self._positions[topic_partition] = offset

    # --- outcomes

    def harvest(self) -> None:
        """Remove finished deliveries. Raises MirrorFailed if one failed and failures end the mirror."""
        while self._unsettled and self._unsettled[0].delivery.done():
            self._settle(self._unsettled.popleft())

    def flush(self) -> None:
        """Wait until everything that was sent is acknowledged. Raises as `harvest`."""
        while self._unsettled:
            try:
                self._producer.flush()
            except OttlaError as error:
                # Streams share the producer: only the deliveries show which stream a failure belongs to.
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
                    f"{sent.topic_partition}: {dropped:,} records were not stored or committed: {error}"
                ) from error
            log.error("%s: %d records are dropped: %s", sent.topic_partition, dropped, error)
        elif self._rules.notes_offsets:
            self._note(sent)

    def _note(self, sent: _Sent) -> None:
        target = sent.delivery.result().column("offset").to_numpy()
        if (target < 0).any():  # acks=0, or stored by an earlier attempt: the offset is not known
            return
        source = sent.offsets
        if isinstance(source, range):
            source = np.arange(source.start, source.stop)
        runs = self._runs.setdefault(sent.topic_partition, [])
        runs[-1:] = joined((*runs[-1:], *runs_of(source, target)))

    # --- positions

    @property
    def positions(self) -> dict[TopicAndPartition, int]:
        """The offset after the last record that was sent, of each partition since its last `forget`."""
        return dict(self._positions)

    def take_runs(self) -> dict[TopicAndPartition, list[OffsetRun]]:
        """Return the runs of offsets since the last call."""
        runs, self._runs = self._runs, {}
        return runs

    def forget(self, partitions: Iterable[TopicAndPartition]) -> None:
        """Forget these partitions: they are committed, or belong to other members by now."""
        for topic_partition in partitions:
            self._positions.pop(topic_partition, None)


def _offsets(batch: pa.RecordBatch) -> Offsets | range:
    """Return the offsets of a chunk's records, without keeping the memory of the chunk."""
    offsets: Offsets = batch.column("offset").to_numpy()
    if is_whole(batch):
        counts = batch.column("records").to_numpy()
        first, end, count = int(offsets[0]), int(offsets[-1] + counts[-1]), int(counts.sum())
        if end - first == count:
            return range(first, end)
        return np.repeat(offsets - (np.cumsum(counts) - counts), counts) + np.arange(count)
    first, last = int(offsets[0]), int(offsets[-1])
    return range(first, last + 1) if last - first + 1 == len(offsets) else offsets.copy()
