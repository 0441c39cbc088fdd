"""Offsets of a classic group by partition, for the two old tools that print them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ottla.admin import Admin, GroupKind, TopicAndPartition
from ottla.client.zookeeper_metadata import ZooKeeperMetadata
from ottla.model.errors import AdminErrors
from ottla.zookeeper import paths
from ottla.zookeeper.consumer_znodes import decode_offset
from ottla.zookeeper.recipes import children_if_present, read_if_present
from ottla.zookeeper.session import ZooKeeperSession


@dataclass(frozen=True)
class ClassicOffset:
    """The group's position in a partition. `end` is None while the partition has no leader."""

    topic_partition: TopicAndPartition
    offset: int | None
    end: int | None
    leader: int | None
    owner: str | None

    @property
    def lag(self) -> int | None:
        """The lag as Kafka computes it; it may be negative."""
        return None if self.offset is None or self.end is None else self.end - self.offset


class ClassicOffsets:
    """Reads offsets from Kafka or ZooKeeper, through a session and an Admin that it does not own."""

    def __init__(self, session: ZooKeeperSession, admin: Admin) -> None:
        self._session = session
        self._admin = admin
        self._metadata = ZooKeeperMetadata(session)

    def owned_topics(self, group: str) -> list[str]:
        """The topics that the group has owner nodes for."""
        return sorted(children_if_present(self._session, paths.owners(group)))

    def of_topics(self, group: str, topics: Iterable[str]) -> list[ClassicOffset]:
        """All partitions of these topics, in order; without topics that do not exist."""
        leaders: dict[TopicAndPartition, int | None] = {}
        for topic in topics:
            for partition in self._metadata.topic(topic).partitions:
                leaders[TopicAndPartition(topic, partition.index)] = (
                    partition.leader if partition.leader >= 0 else None
                )
        in_kafka = self._admin.group_offsets(group, kind=GroupKind.KAFKA)
        ends = self._ends(
            [topic_partition for topic_partition, leader in leaders.items() if leader is not None]
        )
        return [
            ClassicOffset(
                topic_partition=topic_partition,
                offset=in_kafka[topic_partition].offset
                if topic_partition in in_kafka
                else self._in_zookeeper(group, topic_partition),
                end=ends.get(topic_partition),
                leader=leader,
                owner=self._owner(group, topic_partition),
            )
            for topic_partition, leader in leaders.items()
        ]

    def _ends(self, partitions: list[TopicAndPartition]) -> dict[TopicAndPartition, int]:
        try:
            ends = self._admin.list_offsets(partitions, "latest") if partitions else {}
        except AdminErrors as error:
            ends = dict(error.results)
        return {
            topic_partition: end.offset for topic_partition, end in ends.items() if end.offset is not None
        }

    def _in_zookeeper(self, group: str, topic_partition: TopicAndPartition) -> int | None:
        path = paths.offset(group, *topic_partition)
        stored = read_if_present(self._session, path)
        return None if stored is None else decode_offset(path, stored.data)

    def _owner(self, group: str, topic_partition: TopicAndPartition) -> str | None:
        stored = read_if_present(self._session, paths.owner(group, *topic_partition))
        return None if stored is None else stored.data.decode()
