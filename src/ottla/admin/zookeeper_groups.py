"""Classic groups, as their members leave them in ZooKeeper: ids, owners, offsets."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping

from ottla.admin.group_values import CommittedOffset, GroupDescription, GroupKind, GroupListing, GroupMember
from ottla.admin.logs import Outcomes
from ottla.admin.member_protocol import CONSUMER
from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError
from ottla.model.topic_partition import TopicAndPartition
from ottla.zookeeper import paths
from ottla.zookeeper.consumer_znodes import (
    PartitionOwner,
    decode_offset,
    decode_owner,
    decode_registration,
    encode_offset,
)
from ottla.zookeeper.errors import NotEmpty, ZnodeError
from ottla.zookeeper.recipes import (
    children_if_present,
    delete_if_present,
    delete_tree,
    read_if_present,
    write_persistent,
)
from ottla.zookeeper.session import ZooKeeperSession

log = logging.getLogger(__name__)

STABLE, EMPTY = "Stable", "Empty"


class ZooKeeperGroups:
    """Works through a session that it does not own. What changes a group is refused while it has members."""

    def __init__(self, session: ZooKeeperSession) -> None:
        self._session = session

    def listings(self) -> tuple[GroupListing, ...]:
        """All groups."""
        names = children_if_present(self._session, paths.CONSUMERS)
        return tuple(
            GroupListing(name, GroupKind.ZOOKEEPER, CONSUMER, STABLE if self.member_ids(name) else EMPTY)
            for name in names
        )

    def exists(self, group: str) -> bool:
        """Whether there is such a group."""
        return self._session.exists(paths.group(group)) is not None

    def member_ids(self, group: str) -> tuple[str, ...]:
        """The members that are up."""
        return children_if_present(self._session, paths.consumer_ids(group))

    def describe(self, group: str) -> GroupDescription:
        """Members and what they own. Raises KafkaError if there is no such group."""
        if not self.exists(group):
            raise KafkaError(Code.GROUP_ID_NOT_FOUND, f"group {group!r} in ZooKeeper")
        owned: dict[str, list[TopicAndPartition]] = defaultdict(list)
        for place, owner in self.owners(group).items():
            owned[owner.consumer_id].append(place)
        members = tuple(
            GroupMember(
                member_id=name,
                host=_host(group, name),
                subscription=self._subscription(group, name),
                assignment=tuple(sorted(owned[name])),
            )
            for name in self.member_ids(group)
        )
        state = STABLE if members else EMPTY
        return GroupDescription(group, GroupKind.ZOOKEEPER, state, CONSUMER, "", None, members)

    def _subscription(self, group: str, member_id: str) -> tuple[str, ...]:
        path = paths.consumer(group, member_id)
        found = read_if_present(self._session, path)
        try:
            registration = decode_registration(path, found.data) if found is not None else None
        except ZnodeError as error:
            log.warning("member without a subscription: %s", error)
            return ()
        return tuple(registration.subscription) if registration is not None else ()

    def owners(self, group: str) -> dict[TopicAndPartition, PartitionOwner]:
        """Which stream of which member owns a partition."""
        found: dict[TopicAndPartition, PartitionOwner] = {}
        for place, path in self._partition_nodes(paths.owners(group)):
            node = read_if_present(self._session, path)
            if node is not None:
                try:
                    found[place] = decode_owner(path, node.data)
                except ZnodeError as error:
                    log.warning("partition without an owner: %s", error)
        return found

    def topics(self, group: str) -> tuple[str, ...]:
        """Topics that a group owns or owned partitions of, or has offsets for."""
        parents = (paths.owners(group), paths.offsets(group))
        return tuple(sorted({name for path in parents for name in children_if_present(self._session, path)}))

    # --- offsets

    def offsets(self, group: str) -> dict[TopicAndPartition, CommittedOffset]:
        """All offsets. Raises KafkaError if there is no such group."""
        if not self.exists(group):
            raise KafkaError(Code.GROUP_ID_NOT_FOUND, f"group {group!r} in ZooKeeper")
        found = {}
        for place, path in self._partition_nodes(paths.offsets(group)):
            node = read_if_present(self._session, path)
            offset = decode_offset(path, node.data) if node is not None else -1
            if offset >= 0:
                found[place] = CommittedOffset(offset)
        return dict(sorted(found.items()))

    def write_offsets(self, group: str, offsets: Mapping[TopicAndPartition, int]) -> Outcomes[None]:
        """Write offsets; the group need not exist."""
        self._check_idle(group)
        for place, offset in offsets.items():
            write_persistent(self._session, paths.offset(group, *place), encode_offset(offset))
        return dict.fromkeys(offsets, None)

    def delete_offsets(self, group: str, places: Iterable[TopicAndPartition]) -> Outcomes[None]:
        """Forget offsets; those that are not there are forgotten already."""
        self._check_idle(group)
        outcomes: Outcomes[None] = {}
        for place in places:
            delete_if_present(self._session, paths.offset(group, *place))
            outcomes[place] = None
        for topic in {place.topic for place in outcomes}:
            try:
                delete_if_present(self._session, paths.topic_offsets(group, topic))
            except NotEmpty:
                log.debug("group %s keeps offsets of other partitions of %s", group, topic)
        return outcomes

    def delete(self, group: str) -> None:
        """Delete everything of a group, as Kafka 0.9 does."""
        if not self.exists(group):
            raise KafkaError(Code.GROUP_ID_NOT_FOUND, f"group {group!r} in ZooKeeper")
        self._check_idle(group)
        delete_tree(self._session, paths.group(group))

    def _check_idle(self, group: str) -> None:
        members = self.member_ids(group)
        if members:
            raise KafkaError(
                Code.NON_EMPTY_GROUP, f"group {group!r} in ZooKeeper, members {', '.join(members)}"
            )

    def _partition_nodes(self, parent: str) -> list[tuple[TopicAndPartition, str]]:
        found = []
        for topic in children_if_present(self._session, parent):
            below = paths.child(parent, topic)
            found += [
                (TopicAndPartition(topic, int(name)), paths.child(below, name))
                for name in children_if_present(self._session, below)
                if name.isdecimal()
            ]
        return found


def _host(group: str, member_id: str) -> str:
    """Of `<group>_<host>-<milliseconds>-<hex>`; "" where a consumer.id was configured instead."""
    parts = member_id.removeprefix(f"{group}_").rsplit("-", 2)
    return parts[0] if len(parts) == 3 and parts[1].isdecimal() else ""
