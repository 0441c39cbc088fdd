"""What users set about reading partitions of their choice, parsed once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self

from ottla.client.config import CLIENT_PROPERTIES, FOREIGN_PROPERTIES, ClientConfig
from ottla.client.properties import INT, INT_MAX, Property, parse_properties
from ottla.fetching import EARLIEST, FETCH_PROPERTIES, LATEST, FetchConfig, OffsetReset, TopicAndPartition
from ottla.model.errors import ConfigError

NO_TIMEOUT = -1

PARTITION_PROPERTIES: tuple[Property, ...] = (
    *CLIENT_PROPERTIES,
    # Who names an offset wants that one: going on elsewhere is something to ask for.
    *(
        replace(row, default=OffsetReset.NONE) if row.name == "auto.offset.reset" else row
        for row in FETCH_PROPERTIES
    ),
    Property(
        "consumer.timeout.ms",
        INT,
        NO_TIMEOUT,
        "How long iterators wait for the next record before they end; -1 is without end.",
        minimum=NO_TIMEOUT,
    ),
)

_NO_GROUP = "partitions are read without a group here, and offsets are yours to keep"
_DECODERS = "records are bytes here; give a function as key_decoder or value_decoder where you begin to read"
FOREIGN: Mapping[str, str] = {
    **FOREIGN_PROPERTIES,
    "group.id": _NO_GROUP,
    "enable.auto.commit": _NO_GROUP,
    "auto.commit.enable": _NO_GROUP,
    "key.deserializer": _DECODERS,
    "value.deserializer": _DECODERS,
}

_STARTS = {
    "earliest": EARLIEST,
    "smallest": EARLIEST,
    "oldest": EARLIEST,
    "latest": LATEST,
    "largest": LATEST,
    "newest": LATEST,
}


@dataclass(frozen=True, slots=True)
class PartitionConfig:
    """Checked settings. `timeout_ms` None is without end."""

    client: ClientConfig
    fetch: FetchConfig
    timeout_ms: float | None

    @classmethod
    def from_properties(cls, properties: Mapping[str, object]) -> Self:
        """Of Kafka's names, dotted or snake_case. Raises ConfigError."""
        values = parse_properties(PARTITION_PROPERTIES, properties, foreign=FOREIGN)
        return cls(
            ClientConfig.from_values(values),
            FetchConfig.from_values(values),
            limit(values["consumer_timeout_ms"]),
        )


def limit(timeout_ms: float) -> float | None:
    """A time limit, None if it is without end. Raises ConfigError."""
    if not isinstance(timeout_ms, int | float):
        raise ConfigError(f"timeout_ms is {timeout_ms!r:.100}: a number of milliseconds is wanted")
    return None if timeout_ms < 0 else timeout_ms


def place_of(topic: str, partition: int) -> TopicAndPartition:
    """A partition. Raises ConfigError."""
    if not isinstance(topic, str) or not topic:
        raise ConfigError(f"topic is {topic!r:.100}: the name of a topic is wanted")
    if not isinstance(partition, int) or isinstance(partition, bool) or not 0 <= partition <= INT_MAX:
        raise ConfigError(f"partition is {partition!r:.100}: those of {topic!r} are numbered 0, 1, 2, …")
    return TopicAndPartition(topic, partition)


def start_of(offset: int | str) -> int:
    """Where to begin, as the fetch engine is told: an offset, EARLIEST or LATEST. Raises ConfigError."""
    found = _STARTS.get(offset.strip().lower()) if isinstance(offset, str) else offset
    if not isinstance(found, int) or isinstance(found, bool) or found < EARLIEST:
        raise ConfigError(f"offset {offset!r} is wanted as a number from 0 on, 'earliest' or 'latest'")
    return found
