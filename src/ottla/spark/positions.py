"""Where a query begins and ends, as its options say, before any broker is asked. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Any

from ottla.model.errors import ConfigError
from ottla.model.topic_partition import TopicAndPartition
from ottla.spark.offset_json import Offsets, parse_partitions, shown


class Edge(Enum):
    """A named position: the start or end of the log, or the group's committed offset."""

    EARLIEST = "earliest"
    LATEST = "latest"
    GROUP = "group"


@dataclass(frozen=True, slots=True)
class AtOffsets:
    """An offset for each partition; -1 is its latest, -2 its earliest."""

    offsets: Offsets


@dataclass(frozen=True, slots=True)
class AtTime:
    """The first record of each partition at or after a time, in milliseconds since 1970."""

    time_ms: int


@dataclass(frozen=True, slots=True)
class AtTimes:
    """The first record of each partition at or after a time, with a time for each partition."""

    times_ms: Offsets


Position = Edge | AtOffsets | AtTime | AtTimes


class WithoutMatch(Enum):
    """What to do with a partition whose records are all older than the requested time."""

    ERROR = "error"
    LATEST = "latest"


@dataclass(frozen=True, slots=True)
class Topics:
    """`subscribe`: all partitions of these topics."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TopicPattern:
    """`subscribePattern`: all partitions of the topics in whose name the pattern is found, anywhere."""

    pattern: str

    def matches(self, topic: str) -> bool:
        """Whether the pattern, in Java's syntax, is found in the name."""
        return _compiled(self.pattern).search(topic) is not None


@dataclass(frozen=True, slots=True)
class Partitions:
    """`assign`: these and no others."""

    partitions: tuple[TopicAndPartition, ...]


Subscription = Topics | TopicPattern | Partitions


def subscription(values: Mapping[str, Any]) -> Subscription:
    """The subscription in `subscribe`, `subscribePattern` or `assign`.

    Raises ConfigError for none or several.
    """
    names = [name for name in ("assign", "subscribe", "subscribePattern") if values.get(name)]
    if len(names) != 1:
        given = " and ".join(names) or "none"
        raise ConfigError(
            f"one of assign, subscribe and subscribePattern says what to read; there is {given}"
        )
    if names == ["assign"]:
        return Partitions(parse_partitions(values["assign"], "assign"))
    if names == ["subscribe"]:
        return Topics(tuple(sorted(set(values["subscribe"]))))
    try:
        _compiled(values["subscribePattern"])
    except ConfigError as error:
        raise ConfigError(f"subscribePattern={values['subscribePattern']!r}: {error}") from None
    return TopicPattern(values["subscribePattern"])


@lru_cache(maxsize=16)
def _compiled(pattern: str) -> re.Pattern[str]:
    from ottla.consumer.classic.java_regex import compile_java  # most processes of Spark never need it

    return compile_java(pattern)


def check_complete(what: str, given: Offsets, wanted: set[TopicAndPartition]) -> None:
    """Raise ConfigError unless `given` has exactly the partitions of the query, as Spark demands."""
    missing, strange = wanted - given.keys(), given.keys() - wanted
    if missing:
        raise ConfigError(f"{what} has no {shown(missing)}: name every partition, -2 for its earliest offset")
    if strange:
        raise ConfigError(f"{what} has {shown(strange)}, which the query does not read: leave it out")
