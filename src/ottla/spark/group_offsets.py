"""Offsets of a query, committed to a consumer group beside Spark's checkpoint, so that lag tools see them."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from ottla.client.client_config import ClientConfig
from ottla.model.errors import OttlaError
from ottla.model.topic_partition import TopicAndPartition
from ottla.offsets import KafkaOffsets, OffsetAndMetadata, OffsetStore, ZooKeeperOffsets
from ottla.spark.offset_json import Offsets
from ottla.zookeeper.session import ZooKeeperSession
from ottla.zookeeper.zookeeper_errors import ZooKeeperError

log = logging.getLogger(__name__)


class GroupOffsets:
    """For one thread. With `zookeeper_connect` the group is a classic one, whose offsets are in ZooKeeper."""

    def __init__(self, group_id: str, client: ClientConfig, zookeeper_connect: str) -> None:
        self._group_id = group_id
        self._client = client
        self._zookeeper_connect = zookeeper_connect
        self._session: ZooKeeperSession | None = None
        self._store: OffsetStore | None = None
        self._stored: Offsets = {}

    def committed(self, partitions: Iterable[TopicAndPartition]) -> Offsets:
        """The group's committed offsets, without partitions that have none. Raises OttlaError."""
        positions = self._opened().fetch(self._group_id, partitions)
        return {topic_partition: position.offset for topic_partition, position in positions.items()}

    def commit(self, offsets: Offsets) -> None:
        """Commit the offsets that changed.

        A failure is only logged: Spark's checkpoint decides, not the group.
        """
        changed = {
            topic_partition: offset
            for topic_partition, offset in offsets.items()
            if self._stored.get(topic_partition) != offset
        }
        if not changed:
            return
        try:
            self._opened().commit(
                self._group_id,
                {topic_partition: OffsetAndMetadata(offset) for topic_partition, offset in changed.items()},
            )
        except (OttlaError, ZooKeeperError) as error:
            log.warning("group %s: offsets of the query are not committed: %s", self._group_id, error)
            return
        self._stored.update(changed)

    def _opened(self) -> OffsetStore:
        if self._store is None:
            self._store = self._in_zookeeper() if self._zookeeper_connect else KafkaOffsets(self._client)
        return self._store

    def _in_zookeeper(self) -> OffsetStore:
        # Imported here: few queries need it.
        from ottla.zookeeper.kazoo_session import KazooSettings, KazooZooKeeperSession

        self._session = KazooZooKeeperSession(KazooSettings(self._zookeeper_connect))
        self._session.connect()
        return ZooKeeperOffsets(self._session)

    def close(self) -> None:
        """Close all connections."""
        if self._store is not None:
            self._store.close()
        if self._session is not None:
            self._session.close()
