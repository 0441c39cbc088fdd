"""The partitions that this process reads for the group: the feed, the stream and the position of each.

Performs the effects of a member that concern fetching and offsets. The rebalancing thread starts and stops
partitions; any thread commits.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import NamedTuple

from ottla.client.clock import Clock
from ottla.consumer.classic.effects import Partitions, Start
from ottla.consumer.classic.gate import DeliveryGate
from ottla.consumer.classic.stream_queue import StreamQueue
from ottla.consumer.reading.reader_state import Stopped
from ottla.fetching.commit_positions import Committable, commit_positions
from ottla.fetching.engine import FetchEngine
from ottla.fetching.feed import PartitionFeed
from ottla.fetching.feed_interface import BY_RESET_POLICY
from ottla.fetching.inbox import Inbox
from ottla.fetching.partition_info import PartitionTopicInfo
from ottla.model.errors import ConfigError, OttlaError
from ottla.model.topic_partition import TopicAndPartition
from ottla.offsets import OffsetAndMetadata, OffsetStore
from ottla.zookeeper.zookeeper_errors import ZnodeError, ZooKeeperConnectionLost

log = logging.getLogger(__name__)

QueueOf = Callable[[str, int], StreamQueue]
"""(topic, number of the stream) → its queue."""
Store = Callable[..., OffsetStore]
"""`store()` retries, `store(retries=False)` tries once."""


class _Reading(NamedTuple):
    feed: PartitionFeed
    queue: StreamQueue


class Readings:
    """`engine` and `store` are created at their first use: brokers may not be known before."""

    def __init__(
        self,
        group_id: str,
        engine: Callable[[], FetchEngine],
        store: Store,
        queue_of: QueueOf,
        *,
        gate: DeliveryGate,
        clock: Clock,
    ) -> None:
        self._group_id = group_id
        self._engine = engine
        self._store = store
        self._queue_of = queue_of
        self._gate = gate
        self._clock = clock
        self._lock = threading.Lock()  # guards the next two
        self._readings: dict[TopicAndPartition, _Reading] = {}
        self._stopped: dict[TopicAndPartition, int] = {}
        self._commit_lock = threading.Lock()
        """Held from reading positions until they are stored: a slow commit must not end after a release."""
        self.commits = 0

    # --- the rebalancing thread

    def start(self, starts: Mapping[TopicAndPartition, Start]) -> None:
        """Read partitions, all or none."""
        started: list[TopicAndPartition] = []
        try:
            for topic_partition, (thread, offset) in sorted(starts.items()):
                queue = self._queue_of(topic_partition.topic, thread.thread)
                start = offset if offset >= 0 else BY_RESET_POLICY
                add = partial(_add_feed, self._engine(), topic_partition, start)
                feed = queue.read(topic_partition, start, add)
                started.append(topic_partition)
                with self._lock:
                    self._stopped.pop(topic_partition, None)
                    self._readings[topic_partition] = _Reading(feed, queue)
        except OttlaError:
            self.abandon(tuple(started))
            raise

    def stop(self, partitions: Partitions) -> None:
        """Stop reading partitions; their positions are kept for a commit."""
        for topic_partition in partitions:
            with self._lock:
                reading = self._readings.pop(topic_partition, None)
            if reading is None:
                continue
            self._engine().remove(topic_partition)
            position = reading.queue.release(topic_partition)
            with self._lock:
                self._stopped[topic_partition] = position

    def abandon(self, partitions: Partitions) -> None:
        """Stop reading partitions and forget their positions."""
        self.stop(partitions)
        with self._lock:
            for topic_partition in partitions:
                self._stopped.pop(topic_partition, None)

    def commit_stopped(self, partitions: Partitions, *, is_wanted: bool) -> None:
        """Commit the positions of partitions that were stopped, if `is_wanted`; a failure is logged.

        Raises ZooKeeperConnectionLost while the session is in doubt.
        """
        with self._lock:
            positions = {each: self._stopped[each] for each in partitions if each in self._stopped}
        if is_wanted:
            self._check_session()
            try:
                with self._commit_lock:
                    self._save(commit_positions(positions, dict))
            except ZooKeeperConnectionLost:
                raise
            except OttlaError as error:
                log.warning("%s: their next owner will read messages again: %s", _listed(positions), error)
        with self._lock:
            for topic_partition in positions:
                self._stopped.pop(topic_partition, None)

    def committed(self, partitions: Partitions) -> dict[TopicAndPartition, int]:
        """Return the committed offsets of the group. A node that cannot be read is logged and ignored."""
        try:
            positions = self._store().fetch(self._group_id, partitions)
        except ZnodeError:
            positions = {}
            for topic_partition in partitions:
                try:
                    positions |= self._store().fetch(self._group_id, (topic_partition,))
                except ZnodeError as error:
                    log.warning("%s begins where auto.offset.reset says: %s", topic_partition, error)
        return {topic_partition: position.offset for topic_partition, position in positions.items()}

    def unfetched(self) -> frozenset[TopicAndPartition]:
        """Return the partitions that are fetched from no broker although no error stopped them."""
        return frozenset(
            topic_partition
            for topic_partition, reading in self._snapshot().items()
            if reading.feed.is_closed or (reading.feed.info().source is None and reading.feed.failure is None)
        )

    # --- any thread

    def _snapshot(self) -> dict[TopicAndPartition, _Reading]:
        with self._lock:
            return dict(self._readings)

    def positions(self) -> dict[TopicAndPartition, int]:
        """Return the offsets after what was handed out, of every partition where that is known."""
        positions = {
            topic_partition: reading.queue.position(topic_partition)
            for topic_partition, reading in self._snapshot().items()
        }
        return {topic_partition: offset for topic_partition, offset in positions.items() if offset >= 0}

    def seek(self, topic_partition: TopicAndPartition, start: int) -> None:
        """Continue at `start`: an offset, EARLIEST or LATEST. Raises ConfigError if it is not read here."""
        reading = self._snapshot().get(topic_partition)
        if reading is None:
            raise ConfigError(f"{topic_partition} is not read by this member at present")
        reading.queue.seek(topic_partition, start)

    @property
    def feeds(self) -> dict[TopicAndPartition, PartitionFeed]:
        """The feeds of all partitions that are read."""
        return {topic_partition: reading.feed for topic_partition, reading in self._snapshot().items()}

    @property
    def stopped(self) -> Stopped:
        """The partitions that cannot be read at present, and why."""
        reports = {topic_partition: feed.stopped for topic_partition, feed in self.feeds.items()}
        return {topic_partition: report for topic_partition, report in reports.items() if report is not None}

    def infos(self) -> list[PartitionTopicInfo]:
        """Return the progress of each partition that is read."""
        return [reading.feed.info() for reading in self._snapshot().values()]

    def commit(self, offsets: Committable | None = None, *, retries: bool = True) -> None:
        """Commit these positions, or everything that was handed out.

        Raises ZooKeeperConnectionLost while the session is in doubt, and what the store raises.
        """
        with self._commit_lock:
            self._check_session()
            self._save(commit_positions(offsets, self.positions), retries=retries)

    def _save(
        self, positions: Mapping[TopicAndPartition, OffsetAndMetadata], *, retries: bool = True
    ) -> None:
        known = {each: position for each, position in positions.items() if position.offset >= 0}
        if known:
            self._store(retries=retries).commit(self._group_id, known)
            self.commits += 1

    def _check_session(self) -> None:
        if not self._gate.is_open(self._clock.now_ms()):
            raise ZooKeeperConnectionLost(
                "nothing was committed: the ZooKeeper session is suspended, lost or closed, and the "
                "partitions may belong to others by now; what is not committed will be read again"
            )


def _add_feed(
    engine: FetchEngine, topic_partition: TopicAndPartition, start: int, inbox: Inbox
) -> PartitionFeed:
    return engine.add(topic_partition, start, inbox=inbox)


def _listed(partitions: Iterable[TopicAndPartition]) -> str:
    return ", ".join(map(str, sorted(partitions)))
