"""The name of a partition. Light, so that tools that only ask for names and offsets stay light too."""

from __future__ import annotations

from typing import NamedTuple


class TopicAndPartition(NamedTuple):
    """One partition; as text "orders-3"."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"
