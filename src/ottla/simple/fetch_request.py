"""What a fetch asks for, put together step by step as Kafka's users do.

    request = FetchRequestBuilder().max_wait(500).min_bytes(1).add_fetch("orders", 0, 5, 100_000).build()

The result is frozen and may be sent as often as one likes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple, Self

from ottla.fetching import TopicAndPartition
from ottla.model.errors import ConfigError
from ottla.simple.settings import INT_MAX, LONG_MAX, checked_number, checked_place
from ottla.wire.api import fetch as wire

NAMES_UNTIL = 12
"""Later versions of Fetch name topics by ids, which a bare consumer does not know."""


class PartitionFetchInfo(NamedTuple):
    """From where on, and how many bytes at most."""

    offset: int
    fetch_size: int


@dataclass(frozen=True, slots=True)
class FetchRequest:
    """Made by FetchRequestBuilder. `request_version` is the newest version of Fetch that may be used."""

    request_info: Mapping[TopicAndPartition, PartitionFetchInfo]
    client_id: str = ""
    max_wait: int = 0
    min_bytes: int = 0
    max_bytes: int = INT_MAX
    request_version: int = NAMES_UNTIL

    def message(self) -> wire.FetchRequest:
        """As the protocol has it: partitions in their order, those of one topic together."""
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
            topics=list(topics.values()),
        )


class FetchRequestBuilder:
    """Every method but `build` returns the builder. Defaults are Kafka's: nobody waits for anything."""

    def __init__(self) -> None:
        self._client_id = ""
        self._max_wait = 0
        self._min_bytes = 0
        self._max_bytes = INT_MAX
        self._request_version = NAMES_UNTIL
        self._request_info: dict[TopicAndPartition, PartitionFetchInfo] = {}

    def client_id(self, client_id: str) -> Self:
        """What the broker calls who asks; without it the consumer's own name."""
        if not isinstance(client_id, str):
            raise ConfigError(f"client_id is {client_id!r}: give a text")
        self._client_id = client_id
        return self

    def max_wait(self, max_wait: int) -> Self:
        """How many milliseconds the broker may wait for `min_bytes`; 0 is not at all."""
        self._max_wait = checked_number("max_wait", max_wait, 0, INT_MAX, "give milliseconds, 0 or more")
        return self

    def min_bytes(self, min_bytes: int) -> Self:
        """How much the broker collects before it answers, if `max_wait` allows."""
        self._min_bytes = checked_number("min_bytes", min_bytes, 0, INT_MAX, "give bytes, 0 or more")
        return self

    def max_bytes(self, max_bytes: int) -> Self:
        """How much all partitions together may bring. Brokers before 0.10.1 do not know it."""
        self._max_bytes = checked_number("max_bytes", max_bytes, 1, INT_MAX, "give bytes, 1 or more")
        return self

    def request_version(self, version: int) -> Self:
        """Use no newer version of Fetch, to see what an old client sees. Kafka 4 has none before 4."""
        self._request_version = checked_number(
            "request_version",
            version,
            0,
            NAMES_UNTIL,
            f"versions of Fetch with topic names are 0 to {NAMES_UNTIL}",
        )
        return self

    def add_fetch(self, topic: str, partition: int, offset: int, fetch_size: int) -> Self:
        """Ask for `fetch_size` bytes of a partition from an offset on. A second time replaces the first."""
        place = checked_place(topic, partition)
        info = PartitionFetchInfo(
            checked_number(
                f"offset of {place}",
                offset,
                0,
                LONG_MAX,
                "give an offset of the log, 0 or more; get_offsets_before tells the first and the last",
            ),
            checked_number(f"fetch_size of {place}", fetch_size, 0, INT_MAX, "give bytes, 0 to 2**31 - 1"),
        )
        self._request_info[place] = info
        return self

    def build(self) -> FetchRequest:
        """The request. The builder keeps its settings and forgets the partitions, as Kafka's does."""
        if not self._request_info:
            raise ConfigError("nothing is asked for: add_fetch(topic, partition, offset, fetch_size) first")
        info, self._request_info = self._request_info, {}
        return FetchRequest(
            MappingProxyType(info),
            self._client_id,
            self._max_wait,
            self._min_bytes,
            self._max_bytes,
            self._request_version,
        )
