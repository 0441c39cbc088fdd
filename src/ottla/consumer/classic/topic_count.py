"""What a member subscribes to: topics by name, or all topics that a filter allows; and its registration.

Kafka's term: a *topic count* maps topics to numbers of streams. The streams of a filter are shared by all
topics that it allows. Every member evaluates every filter on the topics that it sees, so a new topic needs no
new registration.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ottla.consumer.classic.java_regex import compile_java
from ottla.model.errors import ConfigError
from ottla.model.topic_partition import INTERNAL_TOPICS
from ottla.zookeeper import paths
from ottla.zookeeper.consumer_znodes import ConsumerRegistration, SubscriptionPattern

STREAMS_MAX = 100_000
"""Every member lists every stream of the group: a number from a broken node must not fill its memory."""


@dataclass(frozen=True)
class TopicFilter(ABC):
    """A Java regular expression that must match the whole name. Commas mean "or"; blanks and outer quotes are
    ignored.

        >>> from ottla.consumer.classic import TopicFilter, Whitelist
        >>> topic_filter = Whitelist("orders, clicks.*")
        >>> isinstance(topic_filter, TopicFilter), topic_filter.regex
        (True, 'orders|clicks.*')
    """

    raw_regex: str
    regex: str = field(init=False)
    _compiled: re.Pattern[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "regex", _normalised(self.raw_regex))
        object.__setattr__(self, "_compiled", compile_java(self.regex))

    def __str__(self) -> str:
        return self.regex

    def is_topic_allowed(self, topic: str, *, exclude_internal_topics: bool = True) -> bool:
        """Return whether the topic is consumed."""
        if exclude_internal_topics and topic in INTERNAL_TOPICS:
            return False
        return self._allows(matches=self._compiled.fullmatch(topic) is not None)

    @abstractmethod
    def _allows(self, *, matches: bool) -> bool:
        """Return whether the topic is allowed, given whether it matches."""


@dataclass(frozen=True)
class Whitelist(TopicFilter):
    """Allows the topics that match.

    >>> from ottla import Whitelist
    >>> list(filter(Whitelist("orders.*").is_topic_allowed, ["orders", "orders-eu", "clicks"]))
    ['orders', 'orders-eu']
    """

    def _allows(self, *, matches: bool) -> bool:
        return matches


@dataclass(frozen=True)
class Blacklist(TopicFilter):
    """Allows the topics that do not match.

    >>> from ottla import Blacklist
    >>> Blacklist("test-.*").is_topic_allowed("orders")
    True
    """

    def _allows(self, *, matches: bool) -> bool:
        return not matches


def _normalised(raw_regex: str) -> str:
    """Normalise as Kafka does, so that all members read the same text from ZooKeeper."""
    text = raw_regex.strip().replace(",", "|").replace(" ", "")
    return text.lstrip("'\"").rstrip("'\"")


def _check_streams(subject: str, count: object) -> None:
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= STREAMS_MAX:
        raise ConfigError(f"{subject}: {count!r} streams; give a whole number from 1 to {STREAMS_MAX}")


@dataclass(frozen=True)
class StaticTopicCount:
    """A subscription to topics by name."""

    streams: Mapping[str, int]

    def __post_init__(self) -> None:
        for topic, count in self.streams.items():
            _check_streams(f"topic {paths.checked_topic(topic)!r}", count)

    @property
    def is_wildcard(self) -> bool:
        """Whether the list of all topics is needed."""
        return False

    def stream_counts(self, topics: Iterable[str], *, exclude_internal_topics: bool) -> Mapping[str, int]:  # noqa: ARG002  (names are not filtered)
        """Return topic → number of streams; `topics` are all that exist."""
        return self.streams

    def registration(self, timestamp_ms: int) -> ConsumerRegistration:
        """Return what to write to ZooKeeper."""
        return ConsumerRegistration(dict(self.streams), SubscriptionPattern.STATIC, timestamp_ms)


@dataclass(frozen=True)
class WildcardTopicCount:
    """A subscription to all topics that a filter allows."""

    topic_filter: TopicFilter
    stream_count: int

    def __post_init__(self) -> None:
        _check_streams(f"filter {self.topic_filter}", self.stream_count)

    @property
    def is_wildcard(self) -> bool:
        """Whether the list of all topics is needed."""
        return True

    def stream_counts(self, topics: Iterable[str], *, exclude_internal_topics: bool) -> Mapping[str, int]:
        """Return topic → number of streams; `topics` are all that exist."""
        return {
            topic: self.stream_count
            for topic in topics
            if self.topic_filter.is_topic_allowed(topic, exclude_internal_topics=exclude_internal_topics)
        }

    def registration(self, timestamp_ms: int) -> ConsumerRegistration:
        """Return what to write to ZooKeeper."""
        allows = isinstance(self.topic_filter, Whitelist)
        pattern = SubscriptionPattern.WHITE_LIST if allows else SubscriptionPattern.BLACK_LIST
        return ConsumerRegistration({self.topic_filter.regex: self.stream_count}, pattern, timestamp_ms)


TopicCount = StaticTopicCount | WildcardTopicCount


def topic_count_of(registration: ConsumerRegistration) -> TopicCount:
    """Return what a registered member subscribes to. Raises ConfigError if its regex is not valid."""
    if registration.pattern is SubscriptionPattern.STATIC:
        return StaticTopicCount(registration.subscription)
    ((regex, count),) = registration.subscription.items()
    allows = registration.pattern is SubscriptionPattern.WHITE_LIST
    return WildcardTopicCount(Whitelist(regex) if allows else Blacklist(regex), count)
