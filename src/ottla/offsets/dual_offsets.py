"""DualOffsets: positions in two stores at once, while a group moves from ZooKeeper to Kafka.

Members that still use ZooKeeper and members that use Kafka see the same positions, so they can be replaced
one by one (dual.commit.enabled of Kafka 0.8.2 and 0.9). When all of them use Kafka, drop the ZooKeeper
store.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from ottla.model.committed_positions import OffsetAndMetadata
from ottla.model.errors import OffsetCommitFailed
from ottla.model.topic_partition import TopicAndPartition
from ottla.offsets.store import OffsetStore
from ottla.zookeeper.zookeeper_errors import ZnodeError

log = logging.getLogger(__name__)


class DualOffsets:
    """Stores positions in `kafka` first, then in `zookeeper`. Closes both.

    >>> from ottla import OffsetAndMetadata, TopicAndPartition
    >>> from ottla.client.client_config import ClientConfig
    >>> from ottla.offsets import DualOffsets, KafkaOffsets, ZooKeeperOffsets
    >>> from ottla.zookeeper.memory_session import MemoryZooKeeper  # or kazoo_session
    >>> config = ClientConfig.from_properties({"bootstrap.servers": "127.0.0.1:9092"})
    >>> with MemoryZooKeeper().session() as session, KafkaOffsets(config) as kafka:
    ...     store = DualOffsets(kafka, ZooKeeperOffsets(session))
    ...     store.commit("billing", {TopicAndPartition("orders", 0): OffsetAndMetadata(2)})
    """

    def __init__(self, kafka: OffsetStore, zookeeper: OffsetStore) -> None:
        self._kafka = kafka
        self._zookeeper = zookeeper

    def __repr__(self) -> str:
        return f"<DualOffsets in {self._kafka!r} and {self._zookeeper!r}>"

    def fetch(
        self, group: str, partitions: Iterable[TopicAndPartition]
    ) -> dict[TopicAndPartition, OffsetAndMetadata]:
        """Return the larger of the two positions; partitions that neither store has are missing.

        If a znode cannot be read, Kafka's position counts; if Kafka has none, raises ZnodeError.
        """
        requested = set(partitions)
        positions = self._kafka.fetch(group, requested)
        for topic_partition in requested:
            try:
                position = self._zookeeper.fetch(group, (topic_partition,)).get(topic_partition)
            except ZnodeError as error:
                if topic_partition not in positions:
                    raise
                log.warning(
                    "%s goes on at Kafka's offset %d: %s",
                    topic_partition,
                    positions[topic_partition].offset,
                    error,
                )
                continue
            if position is not None and (
                topic_partition not in positions or position.offset > positions[topic_partition].offset
            ):
                positions[topic_partition] = position
        return positions

    def fetch_all(self, group: str) -> dict[TopicAndPartition, OffsetAndMetadata]:
        """Return all positions that either store has, the larger ones, sorted."""
        partitions = {*self._kafka.fetch_all(group), *self._zookeeper.fetch_all(group)}
        return dict(sorted(self.fetch(group, partitions).items()))

    def commit(self, group: str, offsets: Mapping[TopicAndPartition, OffsetAndMetadata]) -> None:
        """Store positions in Kafka first, then in ZooKeeper those that Kafka has accepted.

        Raises what the two stores raise; positions that Kafka refused are stored in neither.
        """
        try:
            self._kafka.commit(group, offsets)
        except OffsetCommitFailed as error:
            stored = {name: position for name, position in offsets.items() if name not in error.failures}
            self._zookeeper.commit(group, stored)
            raise
        self._zookeeper.commit(group, offsets)

    def close(self) -> None:
        """Close both."""
        try:
            self._kafka.close()
        finally:
            self._zookeeper.close()
