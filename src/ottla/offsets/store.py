"""OffsetStore: the interface of all stores of positions.

A position is the offset of the next record to read. The stores are `KafkaOffsets` (`__consumer_offsets`),
`ZooKeeperOffsets` and `DualOffsets`. `OffsetLedger` keeps positions in the user's database, in the same
transaction as the results, so it has another interface; `LedgerOffsets` is its table as an OffsetStore.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from ottla.model.committed_positions import OffsetAndMetadata
from ottla.model.topic_partition import TopicAndPartition


class OffsetStore(Protocol):
    """Positions of groups. Methods may be called from any thread, except those of LedgerOffsets.

    >>> from ottla import OffsetAndMetadata
    >>> from ottla.client.client_config import ClientConfig
    >>> from ottla.offsets import KafkaOffsets, OffsetStore
    >>> def rewind(store: OffsetStore, group: str) -> None:
    ...     store.commit(group, dict.fromkeys(store.fetch_all(group), OffsetAndMetadata(0)))
    >>> with KafkaOffsets(ClientConfig.from_properties({"bootstrap.servers": "127.0.0.1:9092"})) as store:
    ...     rewind(store, "billing")
    """

    def fetch(
        self, group: str, partitions: Iterable[TopicAndPartition]
    ) -> dict[TopicAndPartition, OffsetAndMetadata]:
        """Return the stored positions; partitions without one are missing."""

    def fetch_all(self, group: str) -> dict[TopicAndPartition, OffsetAndMetadata]:
        """Return all stored positions of a group, sorted; empty if the group is unknown."""

    def commit(self, group: str, offsets: Mapping[TopicAndPartition, OffsetAndMetadata]) -> None:
        """Store positions. Raises OffsetCommitFailed if some were refused; the others are stored."""

    def close(self) -> None:
        """Close what the store opened itself. May be called twice."""
