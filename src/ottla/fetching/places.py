"""Who reads what from where: frozen values under Kafka's names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ottla.model.cluster_view import BrokerNode
from ottla.model.topic_partition import TopicAndPartition

__all__ = [
    "UNKNOWN_OFFSET",
    "BrokerAndFetcherId",
    "BrokerAndInitialOffset",
    "PartitionTopicInfo",
    "TopicAndPartition",
]

UNKNOWN_OFFSET = -1


class BrokerAndFetcherId(NamedTuple):
    """One fetcher: a thread with a connection of its own."""

    broker: BrokerNode
    fetcher_id: int

    def __str__(self) -> str:
        return f"fetcher {self.fetcher_id} of broker {self.broker.broker_id} ({self.broker.address})"


class BrokerAndInitialOffset(NamedTuple):
    """Whom a partition is read from at present, and from which offset on."""

    broker: BrokerNode
    init_offset: int


@dataclass(frozen=True, slots=True)
class PartitionTopicInfo:
    """How far the reading of a partition is, at one moment.

    `consumed_offset`: the next one that the reader gets. `fetched_offset`: the next one that is asked of the
    broker; what lies between the two waits in the queue. UNKNOWN_OFFSET before the first answer.
    """

    topic: str
    partition: int
    consumed_offset: int
    fetched_offset: int
    high_watermark: int
    queued_chunks: int
    queued_bytes: int
    is_parked: bool
    is_paused: bool
    source: BrokerAndInitialOffset | None

    @property
    def lag(self) -> int | None:
        """Records behind the log's end, as offsets count them; None before it is known."""
        if UNKNOWN_OFFSET in {self.consumed_offset, self.high_watermark}:
            return None
        return max(0, self.high_watermark - self.consumed_offset)
