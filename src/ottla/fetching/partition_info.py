"""Positions of partitions, and the brokers that they are read from: frozen values under Kafka's names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ottla.model.cluster_view import BrokerNode
from ottla.model.offset_spec import UNKNOWN_OFFSET


class BrokerAndFetcherId(NamedTuple):
    """A fetcher: a thread with its own connection to a broker."""

    broker: BrokerNode
    fetcher_id: int

    def __str__(self) -> str:
        return f"fetcher {self.fetcher_id} of broker {self.broker.broker_id} ({self.broker.address})"


class BrokerAndInitialOffset(NamedTuple):
    """The broker that a partition is read from at present, and the offset at which that began."""

    broker: BrokerNode
    init_offset: int


@dataclass(frozen=True, slots=True)
class PartitionTopicInfo:
    """How far a partition is read, at one moment.

    `consumed_offset` is the next offset that the reader gets, `fetched_offset` the next one that is fetched;
    the records between the two are in the queue. UNKNOWN_OFFSET before the first answer.
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
        """How many offsets there are up to the log's end; None before that is known."""
        if UNKNOWN_OFFSET in {self.consumed_offset, self.high_watermark}:
            return None
        return max(0, self.high_watermark - self.consumed_offset)
