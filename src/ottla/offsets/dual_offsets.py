"""DualOffsets: positions in two stores at once, while a group moves from ZooKeeper to Kafka.

Members that still read ZooKeeper and members that read Kafka find the same positions, so they can be replaced
one by one (dual.commit.enabled of Kafka 0.8.2 and 0.9). When all of them use Kafka, ZooKeeper is left out.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from ottla.fetching.places import TopicAndPartition
from ottla.offsets.store import OffsetAndMetadata, OffsetCommitFailed, OffsetStore
from ottla.zookeeper.errors import ZnodeError

log = logging.getLogger(__name__)


class DualOffsets:
    """`kafka` decides, `zookeeper` follows. Both are closed with it."""

    def __init__(self, kafka: OffsetStore, zookeeper: OffsetStore) -> None:
        self._kafka = kafka
        self._zookeeper = zookeeper

    def fetch(
        self, group: str, partitions: Iterable[TopicAndPartition]
    ) -> dict[TopicAndPartition, OffsetAndMetadata]:
        """The larger position of the two; partitions that neither store has are missing.

        A node that cannot be read does not hide what Kafka has; if Kafka has nothing, raises ZnodeError.
        """
        asked = set(partitions)
        found = self._kafka.fetch(group, asked)
        for place in asked:
            try:
                position = self._zookeeper.fetch(group, (place,)).get(place)
            except ZnodeError as error:
                if place not in found:
                    raise
                log.warning("%s goes on at Kafka's offset %d: %s", place, found[place].offset, error)
                continue
            if position is not None and (place not in found or position.offset > found[place].offset):
                found[place] = position
        return found

    def fetch_all(self, group: str) -> dict[TopicAndPartition, OffsetAndMetadata]:
        """Every position that one of the two has, the larger one, in order."""
        places = {*self._kafka.fetch_all(group), *self._zookeeper.fetch_all(group)}
        return dict(sorted(self.fetch(group, places).items()))

    def commit(self, group: str, offsets: Mapping[TopicAndPartition, OffsetAndMetadata]) -> None:
        """Store positions in Kafka, and what Kafka has stored in ZooKeeper too.

        Raises what the two raise; positions that Kafka refused are in neither.
        """
        try:
            self._kafka.commit(group, offsets)
        except OffsetCommitFailed as error:
            stored = {place: one for place, one in offsets.items() if place not in error.failures}
            self._zookeeper.commit(group, stored)
            raise
        self._zookeeper.commit(group, offsets)

    def close(self) -> None:
        """Close both."""
        try:
            self._kafka.close()
        finally:
            self._zookeeper.close()
