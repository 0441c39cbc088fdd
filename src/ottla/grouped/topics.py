"""Which topics a consumer wants: names, or a pattern over those that there are."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from ottla.model.cluster_view import ClusterView
from ottla.model.error_codes import Code
from ottla.model.errors import ConfigError

Wanted = str | Iterable[str] | re.Pattern[str]


class TopicSelection:
    """Frozen. A pattern has to match whole names, as in Java, and never finds Kafka's internal topics."""

    def __init__(self, wanted: Wanted) -> None:
        self._pattern = wanted if isinstance(wanted, re.Pattern) else None
        names = () if isinstance(wanted, re.Pattern) else (wanted,) if isinstance(wanted, str) else wanted
        self._names = frozenset(names)
        if self._pattern is None and not self._names:
            raise ConfigError("no topics: give a name, several, or a compiled pattern")

    @property
    def is_pattern(self) -> bool:
        """Whether topics may come and go without the consumer's doing."""
        return self._pattern is not None

    @property
    def names(self) -> frozenset[str]:
        """The names that were given; none of a pattern."""
        return self._names

    def found_in(self, view: ClusterView) -> frozenset[str]:
        """The wanted topics; for a pattern those of a view that is whole."""
        if self._pattern is None:
            return self._names
        return frozenset(
            name
            for name, topic in view.topics.items()
            if not topic.error and not topic.is_internal and self._pattern.fullmatch(name)
        )


def counts_in(view: ClusterView, topics: Iterable[str]) -> Mapping[str, int]:
    """How many partitions topics have; those that do not exist (yet) are missing."""
    found = [view.topics[name] for name in topics if name in view.topics]
    there = [one for one in found if one.error != Code.UNKNOWN_TOPIC_OR_PARTITION and one.partitions]
    return {topic.name: len(topic.partitions) for topic in there}
