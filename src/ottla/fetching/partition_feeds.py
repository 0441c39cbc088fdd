"""PartitionFeeds: the partitions that one engine reads, and the memory that they share."""

from __future__ import annotations

import random
import threading
from collections.abc import Mapping

from ottla.client.client_config import ClientConfig
from ottla.client.clock import Clock
from ottla.client.retry import Backoff
from ottla.fetching.budget import FetchBudget
from ottla.fetching.chunk_queue import ChunkQueue
from ottla.fetching.feed import NEVER, PartitionFeed
from ottla.fetching.feed_interface import BY_RESET_POLICY
from ottla.fetching.fetch_config import FetchConfig
from ottla.fetching.fetch_errors import PartitionError
from ottla.fetching.frame_memory import FrameMemory
from ottla.fetching.inbox import Inbox
from ottla.fetching.partition_info import PartitionTopicInfo
from ottla.fetching.partition_table import PartitionTable
from ottla.model.errors import ConfigError
from ottla.model.topic_partition import TopicAndPartition
from ottla.records.slabs import SlabPool

CHUNK_RESERVE_BYTES = 32 << 20
FRAME_RESERVE_BYTES = 16 << 20


class PartitionFeeds:
    """The feeds and the memory of an engine, whatever drives it. Thread-safe."""

    def __init__(
        self, client_config: ClientConfig, config: FetchConfig, clock: Clock, chance: random.Random
    ) -> None:
        self._config = config
        self._clock = clock
        self._chance = chance
        self._replica_ms = client_config.metadata_max_age_ms
        first_ms = config.refresh_leader_backoff_ms
        self._backoff = Backoff(first_ms, max(first_ms, client_config.retry_backoff_max_ms))
        self._memory = FrameMemory(reserve_bytes=FRAME_RESERVE_BYTES)
        self._budget = FetchBudget(config.queued_max_bytes, threading.Lock())
        self._pool = SlabPool(reserve_bytes=CHUNK_RESERVE_BYTES)
        self._lock = threading.Lock()
        self._feeds: dict[TopicAndPartition, PartitionFeed] = {}
        self._is_closed = False

    def _open_feed(
        self, topic_partition: TopicAndPartition, offset: int, inbox: Inbox | None, stop_offset: int = NEVER
    ) -> PartitionFeed:
        """Return a new feed for a partition.

        Raises ConfigError if the partition is being read here already, or the engine is closed.
        """
        if offset < BY_RESET_POLICY:
            raise ConfigError(f"{topic_partition}: there is no offset {offset}; give 0 or more")
        queue = ChunkQueue(
            chunks_max=self._config.queued_max_message_chunks,
            patience_ms=self._config.max_processing_time_ms,
            budget=self._budget,
        )
        feed = PartitionFeed(
            topic_partition, offset, queue=queue, inbox=inbox, clock=self._clock, stop_offset=stop_offset
        )
        with self._lock:
            if self._is_closed:
                raise ConfigError(f"{topic_partition}: the engine is closed")
            if topic_partition in self._feeds:
                raise ConfigError(
                    f"{topic_partition} is being read already: remove it first, or seek its feed"
                )
            self._feeds[topic_partition] = feed
            self._budget.divide(len(self._feeds))
        return feed

    def remove(self, topic_partition: TopicAndPartition) -> None:
        """Stop reading a partition, and close its feed. Does nothing if it is not read."""
        with self._lock:
            feed = self._feeds.pop(topic_partition, None)
            self._budget.divide(len(self._feeds))
        if feed is not None:
            feed.close()

    def _close_intake(self) -> list[PartitionFeed]:
        """Accept no more partitions. Returns the feeds, which the caller has to close.

        Memory in reserve goes at once: an engine is in cycles, and the collector may come much later.
        """
        with self._lock:
            self._is_closed = True
            feeds = list(self._feeds.values())
            self._feeds.clear()
        self._memory.close()
        self._pool.close()
        return feeds

    @property
    def feeds(self) -> Mapping[TopicAndPartition, PartitionFeed]:
        """The feeds of all partitions that are read."""
        with self._lock:
            return dict(self._feeds)

    @property
    def stopped(self) -> dict[TopicAndPartition, PartitionError]:
        """The partitions that cannot be read at present, and why."""
        reports = {topic_partition: feed.stopped for topic_partition, feed in self.feeds.items()}
        return {topic_partition: report for topic_partition, report in reports.items() if report is not None}

    def infos(self) -> list[PartitionTopicInfo]:
        """A snapshot of each partition's positions and queue."""
        return [feed.info() for feed in self.feeds.values()]

    def _new_table(self, *, scans_once: bool = True) -> PartitionTable:
        """Return the table for a new fetcher."""
        return PartitionTable(
            self._config,
            budget=self._budget,
            pool=self._pool,
            now_ms=self._clock.now_ms,
            backoff=self._backoff,
            chance=random.Random(self._chance.random()),
            replica_ms=self._replica_ms,
            scans_once=scans_once,
        )
