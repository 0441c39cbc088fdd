"""Where a classic group is, partition by partition: what both old tools print, each in its own form."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ottla.admin import Admin, AdminErrors, At, GroupKind, TopicAndPartition
from ottla.client.zookeeper_metadata import ZooKeeperMetadata
from ottla.zookeeper import paths
from ottla.zookeeper.consumer_znodes import decode_offset
from ottla.zookeeper.recipes import children_if_present, read_if_present
from ottla.zookeeper.session import ZooKeeperSession


@dataclass(frozen=True)
class ClassicOffset:
    """A partition of a topic that a group reads. `end` is None while nobody leads the partition."""

    place: TopicAndPartition
    offset: int | None
    end: int | None
    leader: int | None
    owner: str | None

    @property
    def lag(self) -> int | None:
        """As Kafka counts it, so that it may be negative."""
        return None if self.offset is None or self.end is None else self.end - self.offset


class ClassicOffsets:
    """Reads through a session and an Admin that it does not own: offsets may be in Kafka or in ZooKeeper."""

    def __init__(self, session: ZooKeeperSession, admin: Admin) -> None:
        self._session = session
        self._admin = admin
        self._metadata = ZooKeeperMetadata(session)

    def owned_topics(self, group: str) -> list[str]:
        """The topics that the group has read, by its owners."""
        return sorted(children_if_present(self._session, paths.owners(group)))

    def of_topics(self, group: str, topics: Iterable[str]) -> list[ClassicOffset]:
        """All partitions of these topics, in order; topics that are not there are left out."""
        leaders: dict[TopicAndPartition, int | None] = {}
        for topic in topics:
            for one in self._metadata.topic(topic).partitions:
                leaders[TopicAndPartition(topic, one.index)] = one.leader if one.leader >= 0 else None
        in_kafka = self._admin.group_offsets(group, kind=GroupKind.KAFKA)
        ends = self._ends([place for place, leader in leaders.items() if leader is not None])
        return [
            ClassicOffset(
                place=place,
                offset=in_kafka[place].offset if place in in_kafka else self._in_zookeeper(group, place),
                end=ends.get(place),
                leader=leader,
                owner=self._owner(group, place),
            )
            for place, leader in leaders.items()
        ]

    def _ends(self, places: list[TopicAndPartition]) -> dict[TopicAndPartition, int]:
        try:
            found = self._admin.list_offsets(places, At.LATEST) if places else {}
        except AdminErrors as error:
            found = dict(error.results)
        return {place: one.offset for place, one in found.items() if one.offset is not None}

    def _in_zookeeper(self, group: str, place: TopicAndPartition) -> int | None:
        path = paths.offset(group, *place)
        found = read_if_present(self._session, path)
        return None if found is None else decode_offset(path, found.data)

    def _owner(self, group: str, place: TopicAndPartition) -> str | None:
        found = read_if_present(self._session, paths.owner(group, *place))
        return None if found is None else found.data.decode()
