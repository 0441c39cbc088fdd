"""TopicSelection: the topics that a consumer wants, by name or by pattern."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from ottla.model.cluster_view import ClusterView
from ottla.model.error_codes import Code
from ottla.model.errors import ConfigError

WantedTopics = str | Iterable[str] | re.Pattern[str]


class TopicSelection:
    """Topic names, or a pattern. Immutable.

    A pattern must match the whole name, as in Java, and never matches Kafka's internal topics.
    """

    def __init__(self, topics: WantedTopics) -> None:
        self._pattern = topics if isinstance(topics, re.Pattern) else None
        names = () if isinstance(topics, re.Pattern) else (topics,) if isinstance(topics, str) else topics
        self._names = frozenset(names)
        if self._pattern is None and not self._names:
            raise ConfigError("no topics: give a name, several, or a compiled pattern")

    @property
    def is_pattern(self) -> bool:
        """Whether the topics are given by a pattern, so that they may change."""
        return self._pattern is not None

    @property
    def names(self) -> frozenset[str]:
        """The given names; empty for a pattern."""
        return self._names

    def matching(self, view: ClusterView) -> frozenset[str]:
        """Return the names, or the topics that match the pattern. A pattern needs a view of all topics."""
        if self._pattern is None:
            return self._names
        return frozenset(
            name
            for name, topic in view.topics.items()
            if not topic.error and not topic.is_internal and self._pattern.fullmatch(name)
        )

    def __repr__(self) -> str:
        return f"/{self._pattern.pattern}/" if self._pattern is not None else ", ".join(sorted(self._names))


def partition_counts(view: ClusterView, topics: Iterable[str]) -> Mapping[str, int]:
    """The partition counts of those topics that exist."""
    known = [view.topics[name] for name in topics if name in view.topics]
    return {
        topic.name: len(topic.partitions)
        for topic in known
        if topic.error != Code.UNKNOWN_TOPIC_OR_PARTITION and topic.partitions
    }
