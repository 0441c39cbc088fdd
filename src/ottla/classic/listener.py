"""ConsumerRebalanceListener: what an application may want to know of a rebalance, before it takes effect."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from ottla.classic.assignors import Assignment
from ottla.classic.identity import ConsumerThreadId
from ottla.fetching.places import TopicAndPartition


class ConsumerRebalanceListener(Protocol):
    """Runs on the rebalancing thread: what it does delays the group. If it raises, the attempt fails."""

    def before_releasing_partitions(self, partition_ownership: dict[str, set[int]]) -> None:
        """These partitions are not read any more and are about to be given up; others are kept."""

    def before_starting_fetchers(
        self, consumer_id: str, partition_assignment: dict[str, dict[int, ConsumerThreadId]]
    ) -> None:
        """New partitions are owned and about to be read. The assignment is the whole group's."""


def partitions_by_topic(places: Iterable[TopicAndPartition]) -> dict[str, set[int]]:
    """Topic → partitions."""
    found: dict[str, set[int]] = {}
    for topic, partition in places:
        found.setdefault(topic, set()).add(partition)
    return found


def by_topic(assignment: Assignment) -> dict[str, dict[int, ConsumerThreadId]]:
    """Topic → partition → stream."""
    found: dict[str, dict[int, ConsumerThreadId]] = {}
    for (topic, partition), thread in assignment.items():
        found.setdefault(topic, {})[partition] = thread
    return found
