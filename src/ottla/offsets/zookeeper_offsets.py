"""ZooKeeperOffsets: positions in /consumers/GROUP/offsets, as the classic consumer keeps them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ottla.fetching.places import TopicAndPartition
from ottla.offsets.store import OffsetAndMetadata
from ottla.zookeeper import paths
from ottla.zookeeper.consumer_znodes import NO_OFFSET, decode_offset, encode_offset
from ottla.zookeeper.recipes import children_if_present, read_if_present, write_persistent
from ottla.zookeeper.session import ZooKeeperSession


class ZooKeeperOffsets:
    """A znode holds a number and nothing else: metadata and leader epochs are not kept.

    Writes are what ZooKeeper is slow at, so a position is written only if it is another than the one that
    was last read or written here. Whoever takes a partition over reads its position first.
    """

    def __init__(self, session: ZooKeeperSession) -> None:
        """The session belongs to whoever made it."""
        self._session = session
        self._known: dict[str, int] = {}  # path → offset

    def fetch(
        self, group: str, partitions: Iterable[TopicAndPartition]
    ) -> dict[TopicAndPartition, OffsetAndMetadata]:
        """What is stored; partitions without a position are missing.

        Raises ZooKeeperError; ZnodeError, with the path, if a node does not hold a number.
        """
        found: dict[TopicAndPartition, OffsetAndMetadata] = {}
        for place in set(partitions):
            path = paths.offset(group, *place)
            self._known.pop(path, None)
            node = read_if_present(self._session, path)
            offset = NO_OFFSET if node is None else decode_offset(path, node.data)
            if offset != NO_OFFSET:
                self._known[path] = offset
                found[place] = OffsetAndMetadata(offset)
        return found

    def fetch_all(self, group: str) -> dict[TopicAndPartition, OffsetAndMetadata]:
        """Every position that is stored of a group, in order. Raises what `fetch` raises."""
        places = [
            TopicAndPartition(topic, int(name))
            for topic in children_if_present(self._session, paths.offsets(group))
            for name in children_if_present(self._session, paths.topic_offsets(group, topic))
            if name.isdecimal()
        ]
        return dict(sorted(self.fetch(group, places).items()))

    def commit(self, group: str, offsets: Mapping[TopicAndPartition, OffsetAndMetadata]) -> None:
        """Store positions, one after the other. Raises ZooKeeperError: the first ones are stored."""
        for place, position in sorted(offsets.items()):
            path = paths.offset(group, *place)
            if self._known.get(path) == position.offset:
                continue
            self._known.pop(path, None)
            write_persistent(self._session, path, encode_offset(position.offset))
            self._known[path] = position.offset

    def close(self) -> None:
        """Nothing was opened here."""
