"""FetchEngine: partitions in, chunks of Arrow columns out.

    with FetchEngine(client_config, fetch_config) as engine:
        feed = engine.add(TopicAndPartition("orders", 0), 17)
        while (chunk := feed.poll(timeout_ms=1000)) is not None:
            chunk.batch, chunk.next_offset

Threads: one that finds leaders, and one for each (broker, fetcher id) that partitions are read from. A
reader of several partitions gives them one `Inbox` and polls that.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Mapping

from ottla.client.client_config import ClientConfig
from ottla.client.clock import MONOTONIC, Clock
from ottla.client.interruption import ended
from ottla.client.metadata import ClusterMetadata
from ottla.client.retry import Backoff
from ottla.fetching.budget import FetchBudget
from ottla.fetching.chunk_queue import ChunkQueue
from ottla.fetching.cursor import Cursor
from ottla.fetching.feed import PartitionFeed
from ottla.fetching.feed_interface import BY_RESET_POLICY
from ottla.fetching.fetch_config import FetchConfig
from ottla.fetching.fetch_errors import PartitionError
from ottla.fetching.fetcher import BrokerFetcher
from ottla.fetching.frame_memory import FrameMemory
from ottla.fetching.inbox import Inbox
from ottla.fetching.leader_finder import LeaderFinder
from ottla.fetching.partition_info import BrokerAndFetcherId, PartitionTopicInfo
from ottla.fetching.partition_table import PartitionTable
from ottla.model.closing import Closing
from ottla.model.errors import ConfigError
from ottla.model.topic_partition import TopicAndPartition
from ottla.records.slabs import SlabPool

CHUNK_RESERVE_BYTES = 32 << 20
FRAME_RESERVE_BYTES = 16 << 20


class FetchEngine(Closing):
    """Reads partitions from their leaders. Starts no thread before the first `add`. Thread-safe."""

    def __init__(
        self,
        client_config: ClientConfig,
        config: FetchConfig | None = None,
        metadata: ClusterMetadata | None = None,
        *,
        name: str = "ottla",
        clock: Clock = MONOTONIC,
        chance: random.Random | None = None,
    ) -> None:
        """`metadata` may be shared; then the caller closes it. Without it the engine has its own.

        `name` is part of the threads' names.
        """
        self._client_config = client_config
        self._config = config or FetchConfig()
        self._owns_metadata = metadata is None
        self._metadata = metadata or ClusterMetadata(client_config, clock)
        self._name = name
        self._clock = clock
        self._chance = chance or random.Random()
        first_ms = self._config.refresh_leader_backoff_ms
        self._backoff = Backoff(first_ms, max(first_ms, client_config.retry_backoff_max_ms))
        self._budget = FetchBudget(self._config.queued_max_bytes, threading.Lock())
        self._pool = SlabPool(reserve_bytes=CHUNK_RESERVE_BYTES)
        self._memory = FrameMemory(reserve_bytes=FRAME_RESERVE_BYTES)
        self._lock = threading.Lock()
        self._feeds: dict[TopicAndPartition, PartitionFeed] = {}
        self._finder = LeaderFinder(
            self._metadata,
            self._make_fetcher,
            fetcher_count=self._config.num_consumer_fetchers,
            backoff=self._backoff,
            clock=clock,
            name=f"{name}-leader-finder-thread",
            chance=self._chance,
        )
        self._is_closed = False

    def add(
        self, topic_partition: TopicAndPartition, offset: int = BY_RESET_POLICY, *, inbox: Inbox | None = None
    ) -> PartitionFeed:
        """Read a partition from an offset on, or from LATEST, EARLIEST or BY_RESET_POLICY.

        Raises ConfigError if the partition is being read here already, or the engine is closed.
        """
        if offset < BY_RESET_POLICY:
            raise ConfigError(f"{topic_partition}: there is no offset {offset}; give 0 or more")
        queue = ChunkQueue(
            chunks_max=self._config.queued_max_message_chunks,
            patience_ms=self._config.max_processing_time_ms,
            budget=self._budget,
        )
        feed = PartitionFeed(topic_partition, offset, queue=queue, inbox=inbox, clock=self._clock)
        with self._lock:
            if self._is_closed:
                raise ConfigError(f"{topic_partition}: the engine is closed")
            if topic_partition in self._feeds:
                raise ConfigError(
                    f"{topic_partition} is being read already: remove it first, or seek its feed"
                )
            self._feeds[topic_partition] = feed
            self._budget.divide(len(self._feeds))
            if not self.is_running:
                self._finder.thread.start()
        self._finder.take_in([Cursor(feed)])
        return feed

    def remove(self, topic_partition: TopicAndPartition) -> None:
        """Stop reading a partition, and close its feed. Does nothing if it is not read."""
        with self._lock:
            feed = self._feeds.pop(topic_partition, None)
            self._budget.divide(len(self._feeds))
        if feed is not None:
            feed.close()

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

    @property
    def is_running(self) -> bool:
        """Whether it has threads: from the first `add` to `close`."""
        return self._finder.thread.is_alive()

    def infos(self) -> list[PartitionTopicInfo]:
        """A snapshot of each partition's positions and queue."""
        return [feed.info() for feed in self.feeds.values()]

    def close(self) -> None:
        """Close all feeds and end all threads now. From any thread; may be called twice.

        Interrupt shared metadata before: a thread may wait for them.
        """
        with self._lock:
            self._is_closed = True
            feeds = list(self._feeds.values())
            self._feeds.clear()
        threads = self._finder.stop()
        if self._owns_metadata:
            self._metadata.interrupt()
        for feed in feeds:
            feed.close()
        ended([*threads, self._finder.thread], f"the fetching of {self._name}")
        if self._owns_metadata:
            self._metadata.close()

    def _make_fetcher(self, key: BrokerAndFetcherId) -> BrokerFetcher:
        table = PartitionTable(
            self._config,
            budget=self._budget,
            pool=self._pool,
            now_ms=self._clock.now_ms,
            backoff=self._backoff,
            chance=random.Random(self._chance.random()),
        )
        return BrokerFetcher(
            key,
            table,
            client_config=self._client_config,
            config=self._config,
            metadata=self._metadata,
            memory=self._memory,
            search=self._finder,
            clock=self._clock,
            name=f"ConsumerFetcherThread-{self._name}-{key.fetcher_id}-{key.broker.broker_id}",
        )
