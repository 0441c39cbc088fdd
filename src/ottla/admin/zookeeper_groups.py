"""Classic groups, as their members write them to ZooKeeper: ids, owners, offsets."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping

from ottla.admin.group_values import CommittedOffset, GroupDescription, GroupKind, GroupListing, GroupMember
from ottla.admin.logs import Outcomes
from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError
from ottla.model.topic_partition import TopicAndPartition
from ottla.offsets.stop_note import stop_reason
from ottla.wire.consumer_protocol import CONSUMER
from ottla.zookeeper import paths
from ottla.zookeeper.consumer_znodes import (
    PartitionOwner,
    decode_offset,
    decode_owner,
    decode_registration,
    encode_offset,
)
from ottla.zookeeper.recipes import (
    children_if_present,
    delete_if_present,
    delete_tree,
    read_if_present,
    write_persistent,
)
from ottla.zookeeper.session import ZooKeeperSession
from ottla.zookeeper.zookeeper_errors import NotEmpty, ZnodeError

log = logging.getLogger(__name__)

STABLE, EMPTY = "Stable", "Empty"


class ZooKeeperGroups:
    """Groups in ZooKeeper, through a session that it does not own. Groups with members cannot be changed."""

    def __init__(self, session: ZooKeeperSession) -> None:
        self._session = session

    def listings(self) -> tuple[GroupListing, ...]:
        """Return all groups."""
        names = children_if_present(self._session, paths.CONSUMERS)
        return tuple(
            GroupListing(name, GroupKind.ZOOKEEPER, CONSUMER, STABLE if self.member_ids(name) else EMPTY)
            for name in names
        )

    def exists(self, group: str) -> bool:
        """Whether the group exists."""
        return self._session.exists(paths.group(group)) is not None

    def member_ids(self, group: str) -> tuple[str, ...]:
        """Return the ids of the running members."""
        return children_if_present(self._session, paths.consumer_ids(group))

    def describe(self, group: str) -> GroupDescription:
        """Return the members and what they own. Raises KafkaError if the group does not exist."""
        if not self.exists(group):
            raise KafkaError(Code.GROUP_ID_NOT_FOUND, f"group {group!r} in ZooKeeper")
        owned: dict[str, list[TopicAndPartition]] = defaultdict(list)
        for topic_partition, owner in self.owners(group).items():
            owned[owner.consumer_id].append(topic_partition)
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
        znode = read_if_present(self._session, path)
        try:
            registration = decode_registration(path, znode.data) if znode is not None else None
        except ZnodeError as error:
            log.warning("member without a subscription: %s", error)
            return ()
        return tuple(registration.subscription) if registration is not None else ()

    def owners(self, group: str) -> dict[TopicAndPartition, PartitionOwner]:
        """Return the owner of each partition: a stream of a member."""
        owners: dict[TopicAndPartition, PartitionOwner] = {}
        for topic_partition, path in self._partition_nodes(paths.owners(group)):
            node = read_if_present(self._session, path)
            if node is not None:
                try:
                    owners[topic_partition] = decode_owner(path, node.data)
                except ZnodeError as error:
                    log.warning("partition without an owner: %s", error)
        return owners

    def stopped(self, group: str) -> dict[TopicAndPartition, str]:
        """Return why members cannot read partitions that they own."""
        nodes = {
            topic_partition: read_if_present(self._session, path)
            for topic_partition, path in self._partition_nodes(paths.stopped(group))
        }
        return {
            topic_partition: stop_reason(node.data.decode(errors="replace"))
            for topic_partition, node in nodes.items()
            if node is not None
        }

    def written_by_owners(self, group: str) -> set[TopicAndPartition]:
        """Return the partitions whose offset was written after their present owner claimed them."""
        claimed = {
            topic_partition: stat.created_zxid
            for topic_partition, path in self._partition_nodes(paths.owners(group))
            if (stat := self._session.exists(path)) is not None
        }
        return {
            topic_partition
            for topic_partition, zxid in claimed.items()
            if (stat := self._session.exists(paths.offset(group, *topic_partition))) is not None
            and stat.modified_zxid > zxid
        }

    def topics(self, group: str) -> tuple[str, ...]:
        """Return the topics of which a group owns or owned partitions, or has offsets."""
        parents = (paths.owners(group), paths.offsets(group))
        return tuple(sorted({name for path in parents for name in children_if_present(self._session, path)}))

    # --- offsets

    def offsets(self, group: str) -> dict[TopicAndPartition, CommittedOffset]:
        """Return all offsets. Raises KafkaError if the group does not exist."""
        if not self.exists(group):
            raise KafkaError(Code.GROUP_ID_NOT_FOUND, f"group {group!r} in ZooKeeper")
        offsets = {}
        for topic_partition, path in self._partition_nodes(paths.offsets(group)):
            node = read_if_present(self._session, path)
            offset = decode_offset(path, node.data) if node is not None else -1
            if offset >= 0:
                offsets[topic_partition] = CommittedOffset(offset)
        return dict(sorted(offsets.items()))

    def write_offsets(self, group: str, offsets: Mapping[TopicAndPartition, int]) -> Outcomes[None]:
        """Write offsets; the group need not exist."""
        self._check_idle(group)
        for topic_partition, offset in offsets.items():
            write_persistent(self._session, paths.offset(group, *topic_partition), encode_offset(offset))
        return dict.fromkeys(offsets, None)

    def delete_offsets(self, group: str, topic_partitions: Iterable[TopicAndPartition]) -> Outcomes[None]:
        """Delete offsets; missing ones are no error."""
        self._check_idle(group)
        outcomes: Outcomes[None] = {}
        for topic_partition in topic_partitions:
            delete_if_present(self._session, paths.offset(group, *topic_partition))
            outcomes[topic_partition] = None
        for topic in {topic_partition.topic for topic_partition in outcomes}:
            try:
                delete_if_present(self._session, paths.topic_offsets(group, topic))
            except NotEmpty:
                log.debug("group %s keeps offsets of other partitions of %s", group, topic)
        return outcomes

    def delete(self, group: str) -> None:
        """Delete all znodes of a group, as Kafka 0.9 does."""
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
        znodes = []
        for topic in children_if_present(self._session, parent):
            below = paths.child(parent, topic)
            znodes += [
                (TopicAndPartition(topic, int(name)), paths.child(below, name))
                for name in children_if_present(self._session, below)
                if name.isdecimal()
            ]
        return znodes


def _host(group: str, member_id: str) -> str:
    """Return the host in `<group>_<host>-<milliseconds>-<hex>`; "" if the id was configured by
    consumer.id."""
    parts = member_id.removeprefix(f"{group}_").rsplit("-", 2)
    return parts[0] if len(parts) == 3 and parts[1].isdecimal() else ""
