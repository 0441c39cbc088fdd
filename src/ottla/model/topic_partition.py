"""The name of a partition, and names that are Kafka's own.

Light, so that tools that only ask for names and offsets stay light too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

OFFSETS_TOPIC = "__consumer_offsets"
"""Where coordinator groups and their offsets are stored."""

TRANSACTIONS_TOPIC = "__transaction_state"
"""Where transactional ids and their transactions are stored."""

SHARE_STATE_TOPIC = "__share_group_state"
"""Where share groups store which records are done."""

INTERNAL_TOPICS = frozenset({OFFSETS_TOPIC, TRANSACTIONS_TOPIC, SHARE_STATE_TOPIC})
"""Kafka's own topics: since 0.8.2, 0.11 and 4.0."""


class TopicAndPartition(NamedTuple):
    """One partition; as text "orders-3".

    >>> from ottla import TopicAndPartition
    >>> orders = TopicAndPartition("orders", 3)
    >>> print(orders, orders.partition)
    orders-3 3
    """

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def by_topic(partitions: Iterable[TopicAndPartition]) -> dict[str, list[int]]:
    """Return the partition numbers of each topic, sorted."""
    topics: dict[str, list[int]] = defaultdict(list)
    for topic, partition in sorted(partitions):
        topics[topic].append(partition)
    return topics
