"""The name of a partition, and names that are Kafka's own.

Light, so that tools that only ask for names and offsets stay light too.
"""

from __future__ import annotations

from typing import NamedTuple

INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
"""Of Kafka 0.8.2, 0.11 and 4.0."""


class TopicAndPartition(NamedTuple):
    """One partition; as text "orders-3"."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"
