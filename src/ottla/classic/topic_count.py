"""What a member subscribes to: topics by name, or all that a filter allows; and how it is registered.

Kafka's word: a *topic count* is topic → number of streams; a filter's streams are shared by all topics that
it allows. A filter is evaluated by every member on the topics that it sees, so a new topic needs no new
registration.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ottla.classic.java_regex import compile_java
from ottla.model.errors import ConfigError
from ottla.model.topic_partition import INTERNAL_TOPICS
from ottla.zookeeper import paths
from ottla.zookeeper.consumer_znodes import ConsumerRegistration, SubscriptionPattern

STREAMS_MAX = 100_000
"""Every member lists every stream of the group: a number out of a broken node must not fill its memory."""


@dataclass(frozen=True)
class TopicFilter(ABC):
    """A Java regular expression for whole names; commas mean "or", blanks and quotes are ignored."""

    raw_regex: str
    regex: str = field(init=False)
    _compiled: re.Pattern[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "regex", _normalised(self.raw_regex))
        object.__setattr__(self, "_compiled", compile_java(self.regex))

    def __str__(self) -> str:
        return self.regex

    def is_topic_allowed(self, topic: str, *, exclude_internal_topics: bool = True) -> bool:
        """Whether the topic is to be consumed."""
        if exclude_internal_topics and topic in INTERNAL_TOPICS:
            return False
        return self._allows(matches=self._compiled.fullmatch(topic) is not None)

    @abstractmethod
    def _allows(self, *, matches: bool) -> bool:
        """What a match means."""


@dataclass(frozen=True)
class Whitelist(TopicFilter):
    """All topics that match."""

    def _allows(self, *, matches: bool) -> bool:
        return matches


@dataclass(frozen=True)
class Blacklist(TopicFilter):
    """All topics that do not match."""

    def _allows(self, *, matches: bool) -> bool:
        return not matches


def _normalised(raw_regex: str) -> str:
    """As Kafka does it, so that everybody reads the same text from ZooKeeper."""
    text = raw_regex.strip().replace(",", "|").replace(" ", "")
    return text.lstrip("'\"").rstrip("'\"")


def _check_streams(what: str, count: object) -> None:
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= STREAMS_MAX:
        raise ConfigError(f"{what}: {count!r} streams; give a whole number of 1 to {STREAMS_MAX}")


@dataclass(frozen=True)
class StaticTopicCount:
    """Topics by name."""

    streams: Mapping[str, int]

    def __post_init__(self) -> None:
        for topic, count in self.streams.items():
            _check_streams(f"topic {paths.checked_topic(topic)!r}", count)

    @property
    def is_wildcard(self) -> bool:
        """Whether all topics have to be looked at."""
        return False

    def stream_counts(self, topics: Iterable[str], *, exclude_internal_topics: bool) -> Mapping[str, int]:  # noqa: ARG002  (names are not filtered)
        """Topic → streams, among the topics that there are."""
        return self.streams

    def registration(self, timestamp_ms: int) -> ConsumerRegistration:
        """What to write to ZooKeeper."""
        return ConsumerRegistration(dict(self.streams), SubscriptionPattern.STATIC, timestamp_ms)


@dataclass(frozen=True)
class WildcardTopicCount:
    """Topics by a filter."""

    topic_filter: TopicFilter
    stream_count: int

    def __post_init__(self) -> None:
        _check_streams(f"filter {self.topic_filter}", self.stream_count)

    @property
    def is_wildcard(self) -> bool:
        """Whether all topics have to be looked at."""
        return True

    def stream_counts(self, topics: Iterable[str], *, exclude_internal_topics: bool) -> Mapping[str, int]:
        """Topic → streams, among the topics that there are."""
        return {
            topic: self.stream_count
            for topic in topics
            if self.topic_filter.is_topic_allowed(topic, exclude_internal_topics=exclude_internal_topics)
        }

    def registration(self, timestamp_ms: int) -> ConsumerRegistration:
        """What to write to ZooKeeper."""
        allows = isinstance(self.topic_filter, Whitelist)
        pattern = SubscriptionPattern.WHITE_LIST if allows else SubscriptionPattern.BLACK_LIST
        return ConsumerRegistration({self.topic_filter.regex: self.stream_count}, pattern, timestamp_ms)


TopicCount = StaticTopicCount | WildcardTopicCount


def topic_count_of(registration: ConsumerRegistration) -> TopicCount:
    """What another member subscribes to. Raises ConfigError if nobody could say (a regex of no language)."""
    if registration.pattern is SubscriptionPattern.STATIC:
        return StaticTopicCount(registration.subscription)
    ((regex, count),) = registration.subscription.items()
    allows = registration.pattern is SubscriptionPattern.WHITE_LIST
    return WildcardTopicCount(Whitelist(regex) if allows else Blacklist(regex), count)
