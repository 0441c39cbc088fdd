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

from ottla.client.client_config import ClientConfig
from ottla.client.clock import MONOTONIC, Clock
from ottla.client.interruption import ended
from ottla.client.metadata import ClusterMetadata
from ottla.fetching.cursor import Cursor
from ottla.fetching.feed import NEVER, PartitionFeed
from ottla.fetching.feed_interface import BY_RESET_POLICY
from ottla.fetching.fetch_config import FetchConfig
from ottla.fetching.fetcher import BrokerFetcher
from ottla.fetching.inbox import Inbox
from ottla.fetching.leader_finder import LeaderFinder
from ottla.fetching.partition_feeds import PartitionFeeds
from ottla.fetching.partition_info import BrokerAndFetcherId
from ottla.model.closing import Closing
from ottla.model.topic_partition import TopicAndPartition


class FetchEngine(PartitionFeeds, Closing):
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
        super().__init__(client_config, config or FetchConfig(), clock, chance or random.Random())
        self._client_config = client_config
        self._owns_metadata = metadata is None
        self._metadata = metadata or ClusterMetadata(client_config, clock)
        self._name = name
        self._finder = LeaderFinder(
            self._metadata,
            self._make_fetcher,
            fetcher_count=self._config.num_consumer_fetchers,
            backoff=self._backoff,
            clock=clock,
            name=f"{name}-leader-finder-thread",
            chance=self._chance,
        )

    def add(
        self,
        topic_partition: TopicAndPartition,
        offset: int = BY_RESET_POLICY,
        *,
        inbox: Inbox | None = None,
        stop_offset: int = NEVER,
    ) -> PartitionFeed:
        """Read a partition from an offset on, or from LATEST, EARLIEST or BY_RESET_POLICY.

        Nothing is requested from `stop_offset` on: at the end of a log a broker would wait for more, and
        other partitions of the connection with it. Raises ConfigError if the partition is being read here
        already, or the engine is closed.
        """
        feed = self._open_feed(topic_partition, offset, inbox, stop_offset)
        with self._lock:
            if not self._is_closed and not self.is_running:
                self._finder.thread.start()
        self._finder.take_in([Cursor(feed)])
        return feed

    @property
    def is_running(self) -> bool:
        """Whether it has threads: from the first `add` to `close`."""
        return self._finder.thread.is_alive()

    def close(self) -> None:
        """Close all feeds and end all threads now. From any thread; may be called twice.

        Interrupt shared metadata first: a thread may be waiting for it.
        """
        feeds = self._close_intake()
        threads = self._finder.stop()
        if self._owns_metadata:
            self._metadata.interrupt()
        for feed in feeds:
            feed.close()
        ended([*threads, self._finder.thread], f"the fetching of {self._name}")
        if self._owns_metadata:
            self._metadata.close()

    def _make_fetcher(self, key: BrokerAndFetcherId) -> BrokerFetcher:
        return BrokerFetcher(
            key,
            self._new_table(),
            client_config=self._client_config,
            config=self._config,
            metadata=self._metadata,
            memory=self._memory,
            search=self._finder,
            clock=self._clock,
            name=f"ConsumerFetcherThread-{self._name}-{key.fetcher_id}-{key.broker.broker_id}",
        )
