"""What consumers report about themselves: health, metrics, and which partitions are not read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from ottla.consumer.reading.health import Health
from ottla.fetching.feed import PartitionFeed
from ottla.fetching.fetch_errors import PartitionError
from ottla.fetching.partition_feeds import PartitionFeeds
from ottla.model.errors import ConfigError
from ottla.model.topic_partition import TopicAndPartition

Stopped = dict[TopicAndPartition, PartitionError]
"""Partitions that are not read at present, and why."""


@dataclass(frozen=True)
class ReaderMetrics:
    """Figures of a consumer.

    >>> from ottla import PartitionConsumer
    >>> with PartitionConsumer(bootstrap_servers="127.0.0.1:9092") as consumer:
    ...     reader = consumer.consume_partition("orders", 0, "earliest")
    ...     message = next(reader.messages())
    ...     metrics = consumer.metrics()
    >>> metrics.partitions, dict(metrics.stopped), metrics.max_lag
    (1, {}, 0)
    """

    health: Health
    partitions: int
    stopped: Mapping[TopicAndPartition, PartitionError]
    """Partitions that cannot be read at present, and why. `skip`, `seek` or `retry` ends that."""
    lag: Mapping[TopicAndPartition, int]
    """Offsets between what was fetched and handed out and the end of the log, where that is known."""
    queued_chunks: int
    queued_bytes: int

    @property
    def max_lag(self) -> int:
        """The largest lag of a partition; 0 if none is known."""
        return max(self.lag.values(), default=0)

    @classmethod
    def of(cls, health: Health, engine: PartitionFeeds) -> ReaderMetrics:
        """The figures of everything that an engine reads."""
        infos = engine.infos()
        lags = {TopicAndPartition(info.topic, info.partition): info.lag for info in infos}
        return cls(
            health=health,
            partitions=len(infos),
            stopped=MappingProxyType(engine.stopped),
            lag=MappingProxyType({each: lag for each, lag in lags.items() if lag is not None}),
            queued_chunks=sum(info.queued_chunks for info in infos),
            queued_bytes=sum(info.queued_bytes for info in infos),
        )


def retry_all(feeds: Mapping[TopicAndPartition, PartitionFeed], chosen: Iterable[TopicAndPartition]) -> None:
    """Fetch now where errors stopped these partitions, or all partitions if none is named.

    Raises ConfigError if a partition is not read here.
    """
    wanted = list(chosen)
    for topic_partition in wanted:
        feed_of(feeds, topic_partition).retry()
    if not wanted:
        for feed in feeds.values():
            if feed.trouble is not None:
                feed.retry()


def feed_of(
    feeds: Mapping[TopicAndPartition, PartitionFeed], topic_partition: TopicAndPartition
) -> PartitionFeed:
    """Return the feed of a partition. Raises ConfigError if it is not read here."""
    feed = feeds.get(topic_partition)
    if feed is None:
        raise ConfigError(f"{topic_partition} is not read by this consumer at present")
    return feed
