"""ZooKeeperOffsets: positions in /consumers/GROUP/offsets, as the classic consumer keeps them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ottla.model.committed_positions import OffsetAndMetadata
from ottla.model.topic_partition import TopicAndPartition
from ottla.zookeeper import paths
from ottla.zookeeper.consumer_znodes import NO_OFFSET, decode_offset, encode_offset
from ottla.zookeeper.recipes import children_if_present, read_if_present, write_persistent
from ottla.zookeeper.session import ZooKeeperSession


class ZooKeeperOffsets:
    """Stores positions in ZooKeeper. A znode holds only a number: metadata and leader epochs are not kept.

        >>> from ottla import OffsetAndMetadata, TopicAndPartition
        >>> from ottla.offsets import ZooKeeperOffsets
        >>> from ottla.zookeeper.kazoo_session import KazooSettings, KazooZooKeeperSession
        >>> with KazooZooKeeperSession(KazooSettings("127.0.0.1:2181")) as session:
        ...     store = ZooKeeperOffsets(session)
        ...     store.commit("billing", {TopicAndPartition("orders", 0): OffsetAndMetadata(42)})
        ...     store.fetch_all("billing")[TopicAndPartition("orders", 0)].offset
        42

    ZooKeeper is slow at writes, so a position is written only if it differs from the one that was last read
    or written here. Therefore read a partition's position before you take it over.
    """

    def __init__(self, session: ZooKeeperSession) -> None:
        """The caller closes the session."""
        self._session = session
        self._known: dict[str, int] = {}  # path → offset

    def __repr__(self) -> str:
        return f"<ZooKeeperOffsets through {self._session!r}>"

    def fetch(
        self, group: str, partitions: Iterable[TopicAndPartition]
    ) -> dict[TopicAndPartition, OffsetAndMetadata]:
        """Return the stored positions; partitions without one are missing.

        Raises ZooKeeperError, and ZnodeError with the path if a znode does not hold a number.
        """
        positions: dict[TopicAndPartition, OffsetAndMetadata] = {}
        for topic_partition in set(partitions):
            path = paths.offset(group, *topic_partition)
            self._known.pop(path, None)
            node = read_if_present(self._session, path)
            offset = NO_OFFSET if node is None else decode_offset(path, node.data)
            if offset != NO_OFFSET:
                self._known[path] = offset
                positions[topic_partition] = OffsetAndMetadata(offset)
        return positions

    def fetch_all(self, group: str) -> dict[TopicAndPartition, OffsetAndMetadata]:
        """Return all stored positions of a group, sorted. Raises what `fetch` raises."""
        partitions = [
            TopicAndPartition(topic, int(name))
            for topic in children_if_present(self._session, paths.offsets(group))
            for name in children_if_present(self._session, paths.topic_offsets(group, topic))
            if name.isdecimal()
        ]
        return dict(sorted(self.fetch(group, partitions).items()))

    def commit(self, group: str, offsets: Mapping[TopicAndPartition, OffsetAndMetadata]) -> None:
        """Store positions one after the other. If it raises ZooKeeperError, some of them are stored."""
        for topic_partition, position in sorted(offsets.items()):
            path = paths.offset(group, *topic_partition)
            if self._known.get(path) == position.offset:
                continue
            self._known.pop(path, None)
            write_persistent(self._session, path, encode_offset(position.offset))
            self._known[path] = position.offset

    def close(self) -> None:
        """Do nothing: nothing was opened here."""
