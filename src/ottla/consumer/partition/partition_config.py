"""The settings of PartitionConsumer and replay, and checks of their arguments."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self

from ottla.client.client_config import CLIENT_PROPERTIES, FOREIGN_PROPERTIES, ClientConfig
from ottla.fetching.fetch_config import FETCH_PROPERTIES, FetchConfig, OffsetReset
from ottla.model.errors import ConfigError
from ottla.model.property_table import INT, INT_MAX, Property, parse_properties
from ottla.model.topic_partition import TopicAndPartition

NO_TIMEOUT = -1

PARTITION_PROPERTIES: tuple[Property, ...] = (
    *CLIENT_PROPERTIES,
    # A user who names an offset wants exactly that one. To continue elsewhere, auto.offset.reset must be set.
    *(
        replace(row, default=OffsetReset.NONE) if row.name == "auto.offset.reset" else row
        for row in FETCH_PROPERTIES
    ),
    Property(
        "consumer.timeout.ms",
        INT,
        NO_TIMEOUT,
        "How long iterators wait for the next record before they end; -1 waits for ever.",
        minimum=NO_TIMEOUT,
    ),
)

_NO_GROUP = "there is no group here, and offsets are yours to keep"
_DESERIALIZERS = "give a function of bytes as the argument key_deserializer or value_deserializer"
FOREIGN: Mapping[str, str] = {
    **FOREIGN_PROPERTIES,
    "group.id": _NO_GROUP,
    "enable.auto.commit": _NO_GROUP,
    "auto.commit.enable": _NO_GROUP,
    "key.deserializer": _DESERIALIZERS,
    "value.deserializer": _DESERIALIZERS,
}


@dataclass(frozen=True, slots=True)
class PartitionConfig:
    """Checked settings. `timeout_ms` is consumer.timeout.ms; None waits for ever."""

    client: ClientConfig
    fetch: FetchConfig
    timeout_ms: float | None

    @classmethod
    def from_properties(cls, properties: Mapping[str, object]) -> Self:
        """Parse Kafka's names, dotted or snake_case. Raises ConfigError."""
        values = parse_properties(PARTITION_PROPERTIES, properties, foreign=FOREIGN)
        timeout_ms = values["consumer_timeout_ms"]
        return cls(
            ClientConfig.from_values(values),
            FetchConfig.from_values(values),
            None if timeout_ms == NO_TIMEOUT else timeout_ms,
        )

    def wait_ms(self, timeout: float | None) -> float | None:
        """How long iterators wait: `timeout` seconds, else consumer.timeout.ms. Raises ConfigError."""
        return wait_ms(timeout, self.timeout_ms)


def wait_ms(timeout: float | None, default_ms: float | None) -> float | None:
    """Return `timeout` in ms, or `default_ms` if it is None; None for `inf`. Raises ConfigError."""
    if timeout is None:
        return default_ms
    return None if timeout == math.inf else checked_seconds("timeout", timeout) * 1000


def checked_seconds(name: str, seconds: float) -> float:
    """Return `seconds`. Raises ConfigError if it is not a duration."""
    if not isinstance(seconds, int | float) or isinstance(seconds, bool) or not seconds >= 0:
        raise ConfigError(f"{name}={seconds!r:.100}: give a number of seconds, 0 or more")
    return seconds


def checked_partition(topic: str, partition: int) -> TopicAndPartition:
    """The partition. Raises ConfigError."""
    if not isinstance(topic, str) or not topic:
        raise ConfigError(f"topic={topic!r:.100}: give the name of a topic")
    if not isinstance(partition, int) or isinstance(partition, bool) or not 0 <= partition <= INT_MAX:
        raise ConfigError(f"partition={partition!r:.100}: the partitions of {topic!r} are numbered from 0 on")
    return TopicAndPartition(topic, partition)
