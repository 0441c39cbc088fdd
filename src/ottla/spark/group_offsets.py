"""The group in whose name offsets are kept beside Spark's checkpoint, so that lag tools see the query."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from ottla.client.config import ClientConfig
from ottla.model.errors import OttlaError
from ottla.model.topic_partition import TopicAndPartition
from ottla.offsets import KafkaOffsets, OffsetAndMetadata, OffsetStore, ZooKeeperOffsets
from ottla.spark.offset_json import Offsets
from ottla.zookeeper.errors import ZooKeeperError
from ottla.zookeeper.session import ZooKeeperSession

log = logging.getLogger(__name__)


class GroupOffsets:
    """Belongs to one thread. With `zookeeper_connect` it is a classic group's, in ZooKeeper."""

    def __init__(self, group_id: str, client: ClientConfig, zookeeper_connect: str) -> None:
        self._group_id = group_id
        self._client = client
        self._zookeeper_connect = zookeeper_connect
        self._session: ZooKeeperSession | None = None
        self._store: OffsetStore | None = None
        self._stored: Offsets = {}

    def committed(self, places: Iterable[TopicAndPartition]) -> Offsets:
        """What the group has stored; partitions without are missing. Raises OttlaError, ZooKeeperError."""
        found = self._opened().fetch(self._group_id, places)
        return {place: position.offset for place, position in found.items()}

    def commit(self, offsets: Offsets) -> None:
        """Store what changed. A failure is logged: Spark's checkpoint is what counts, this is its shadow."""
        changed = {place: offset for place, offset in offsets.items() if self._stored.get(place) != offset}
        if not changed:
            return
        try:
            self._opened().commit(
                self._group_id, {place: OffsetAndMetadata(offset) for place, offset in changed.items()}
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
        from ottla.zookeeper.kazoo_session import KazooSettings, KazooZooKeeperSession  # few need it

        self._session = KazooZooKeeperSession(KazooSettings(self._zookeeper_connect))
        self._session.connect()
        return ZooKeeperOffsets(self._session)

    def close(self) -> None:
        """End the connections."""
        if self._store is not None:
            self._store.close()
        if self._session is not None:
            self._session.close()
