"""A fetch request, built step by step as with Kafka's class of the same name.

    request = FetchRequestBuilder().max_wait(500).min_bytes(1).add_fetch("orders", 0, 5, 100_000).build()

The result is immutable and may be sent several times.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple, Self

from ottla.consumer.simple.simple_settings import INT_MAX, LONG_MAX, checked_number, checked_partition
from ottla.fetching.fetch_config import IsolationLevel
from ottla.model.errors import ConfigError
from ottla.model.topic_partition import TopicAndPartition
from ottla.wire.api import fetch as wire

NAMES_UNTIL = 12
"""The newest version of Fetch that names topics.

Later ones use topic ids, which a SimpleConsumer does not know.
"""
ISOLATION_SINCE = 4
"""The first version of Fetch that may ask for committed messages only."""
_LEVELS = {level.name.lower(): level for level in IsolationLevel}


class PartitionFetchInfo(NamedTuple):
    """The first offset to fetch, and the maximum number of bytes.

    >>> from ottla import FetchRequestBuilder, TopicAndPartition
    >>> request = FetchRequestBuilder().add_fetch("orders", 0, 5, 100_000).build()
    >>> request.request_info[TopicAndPartition("orders", 0)]
    PartitionFetchInfo(offset=5, fetch_size=100000)
    """

    offset: int
    fetch_size: int


@dataclass(frozen=True, slots=True)
class FetchRequest:
    """Made by FetchRequestBuilder. `request_version` is the newest version of Fetch that may be used.

    >>> from ottla import FetchRequestBuilder
    >>> request = FetchRequestBuilder().client_id("billing").add_fetch("orders", 0, 5, 100_000).build()
    >>> request.client_id, [str(topic_partition) for topic_partition in request.request_info]
    ('billing', ['orders-0'])
    """

    request_info: Mapping[TopicAndPartition, PartitionFetchInfo]
    client_id: str = ""
    max_wait: int = 0
    min_bytes: int = 0
    max_bytes: int = INT_MAX
    request_version: int = NAMES_UNTIL
    isolation_level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED

    @property
    def reads_committed(self) -> bool:
        """Whether messages of open and aborted transactions are left out."""
        return self.isolation_level is IsolationLevel.READ_COMMITTED

    def message(self) -> wire.FetchRequest:
        """Return the protocol's message: partitions in their order, grouped by topic."""
        topics: dict[str, wire.FetchTopic] = {}
        for (topic, partition), info in self.request_info.items():
            rows = topics.setdefault(topic, wire.FetchTopic(topic=topic, partitions=[])).partitions
            rows.append(
                wire.FetchPartition(
                    partition=partition, fetch_offset=info.offset, partition_max_bytes=info.fetch_size
                )
            )
        return wire.FetchRequest(
            max_wait_ms=self.max_wait,
            min_bytes=self.min_bytes,
            max_bytes=self.max_bytes,
            isolation_level=int(self.isolation_level),
            topics=list(topics.values()),
        )


class FetchRequestBuilder:
    """Every method but `build` returns the builder. By default the broker answers at once, as with Kafka's.

    >>> from ottla import FetchRequestBuilder
    >>> request = FetchRequestBuilder().max_wait(500).add_fetch("orders", 0, 5, 100_000).build()
    >>> request.max_wait
    500
    """

    def __init__(self) -> None:
        self._client_id = ""
        self._max_wait = 0
        self._min_bytes = 0
        self._max_bytes = INT_MAX
        self._request_version = NAMES_UNTIL
        self._isolation_level = IsolationLevel.READ_UNCOMMITTED
        self._request_info: dict[TopicAndPartition, PartitionFetchInfo] = {}

    def client_id(self, client_id: str) -> Self:
        """The client id of this request; by default that of the consumer."""
        if not isinstance(client_id, str):
            raise ConfigError(f"client_id is {client_id!r}: give a text")
        self._client_id = client_id
        return self

    def max_wait(self, max_wait: int) -> Self:
        """How many milliseconds the broker may wait for `min_bytes`; 0 means no waiting."""
        self._max_wait = checked_number("max_wait", max_wait, 0, INT_MAX, "give milliseconds, 0 or more")
        return self

    def min_bytes(self, min_bytes: int) -> Self:
        """How many bytes the broker collects before it answers, within `max_wait`."""
        self._min_bytes = checked_number("min_bytes", min_bytes, 0, INT_MAX, "give bytes, 0 or more")
        return self

    def max_bytes(self, max_bytes: int) -> Self:
        """The maximum size of the whole response. Brokers before 0.10.1 ignore it."""
        self._max_bytes = checked_number("max_bytes", max_bytes, 1, INT_MAX, "give bytes, 1 or more")
        return self

    def request_version(self, version: int) -> Self:
        """The newest version of Fetch to use, to see what an old client sees. Kafka 4 serves none below 4."""
        self._request_version = checked_number(
            "request_version",
            version,
            0,
            NAMES_UNTIL,
            f"versions of Fetch with topic names are 0 to {NAMES_UNTIL}",
        )
        return self

    def isolation_level(self, level: str) -> Self:
        """With "read_committed", messages of open and aborted transactions are left out."""
        if level not in _LEVELS:
            raise ConfigError(f"isolation_level is {level!r}: give {' or '.join(_LEVELS)}")
        self._isolation_level = _LEVELS[level]
        return self

    def add_fetch(self, topic: str, partition: int, offset: int, fetch_size: int) -> Self:
        """Request up to `fetch_size` bytes of a partition from an offset on.

        A second call for the same partition replaces the first.
        """
        topic_partition = checked_partition(topic, partition)
        info = PartitionFetchInfo(
            checked_number(
                f"offset of {topic_partition}",
                offset,
                0,
                LONG_MAX,
                "give an offset of the log, 0 or more; get_offsets_before returns the first and the last",
            ),
            checked_number(
                f"fetch_size of {topic_partition}", fetch_size, 0, INT_MAX, "give bytes, 0 to 2**31 - 1"
            ),
        )
        self._request_info[topic_partition] = info
        return self

    def build(self) -> FetchRequest:
        """Return the request. The builder keeps its settings and forgets the partitions, as Kafka's does.

        Raises ConfigError if no partition was added, or if its version has no isolation level.
        """
        if self._isolation_level and self._request_version < ISOLATION_SINCE:
            raise ConfigError(
                f"Fetch {self._request_version} gives messages of all transactions: isolation_level needs "
                f"request_version {ISOLATION_SINCE} or later"
            )
        if not self._request_info:
            raise ConfigError(
                "no partition is requested: call add_fetch(topic, partition, offset, fetch_size) first"
            )
        info, self._request_info = self._request_info, {}
        return FetchRequest(
            MappingProxyType(info),
            self._client_id,
            self._max_wait,
            self._min_bytes,
            self._max_bytes,
            self._request_version,
            self._isolation_level,
        )
