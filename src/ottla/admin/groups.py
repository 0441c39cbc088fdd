"""Lists, describes and deletes consumer groups of both kinds; reads and writes their offsets.

A name may belong to two groups, one with a coordinator and one in ZooKeeper. A call without `kind` takes the
group that has members; if both or neither have, the coordinator's.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from ottla.admin.access import ClusterAccess
from ottla.admin.admin_errors import all_results, each, only, response_error
from ottla.admin.group_descriptions import described_assigned_group, described_group
from ottla.admin.group_offsets import KafkaGroupOffsets, Offsets, group_error
from ottla.admin.group_values import (
    CommittedOffset,
    GroupDescription,
    GroupKind,
    GroupListing,
    ShareOffset,
)
from ottla.admin.logs import Outcomes as PartitionOutcomes
from ottla.admin.share_offsets import ShareGroupOffsets
from ottla.admin.zookeeper_groups import EMPTY, ZooKeeperGroups
from ottla.client.reactions import Action, action_for
from ottla.model.cluster_view import BrokerNode
from ottla.model.error_codes import Code
from ottla.model.errors import ConfigError, KafkaError, OttlaError, Unsupported
from ottla.model.topic_partition import TopicAndPartition
from ottla.wire.api.consumer_group_describe import ConsumerGroupDescribeRequest, DescribedConsumerGroup
from ottla.wire.api.delete_groups import DeleteGroupsRequest
from ottla.wire.api.describe_groups import DescribedGroup, DescribeGroupsRequest
from ottla.wire.api.list_groups import ListGroupsRequest
from ottla.wire.api.share_group_describe import DescribedShareGroup, ShareGroupDescribeRequest
from ottla.zookeeper import paths

log = logging.getLogger(__name__)

V = TypeVar("V")
Outcomes = dict[str, V | OttlaError]

DEAD = "Dead"


def _is_classic_name(group: str) -> bool:
    """Whether the name can be a classic group's: it must be part of a znode path."""
    try:
        paths.checked_group(group)
    except ConfigError:
        return False
    return True


def _is_unknown(outcome: object) -> bool:
    return isinstance(outcome, KafkaError) and outcome.code == Code.GROUP_ID_NOT_FOUND


def _check_offsets(group: str, offsets: Mapping[TopicAndPartition, int]) -> None:
    for topic_partition, offset in offsets.items():
        if offset < 0:
            raise ConfigError(f"group {group!r}, {topic_partition}: offset {offset} is negative")


class GroupCalls:
    """Each call returns an outcome for every group, or for every partition."""

    def __init__(self, access: ClusterAccess) -> None:
        self._access = access
        self._offsets = KafkaGroupOffsets(access)
        self._share = ShareGroupOffsets(access)

    def listings(self) -> Outcomes[tuple[GroupListing, ...]]:
        """Return the groups in ZooKeeper, and those of each broker."""
        listings: Outcomes[tuple[GroupListing, ...]] = {}
        if self._access.has_zookeeper:
            listings |= each(["zookeeper"], lambda _: self._zookeeper("listing groups").listings())
        if self._access.has(ListGroupsRequest.API):
            brokers = self._access.metadata.refresh((), reason="listing groups").brokers
            by_broker = self._access.settle(
                brokers, lambda some: each(some, self._list_once), is_repeatable=True
            )
            listings |= {f"broker {number}": by_broker[number] for number in sorted(by_broker)}
        elif not self._access.has_zookeeper:
            self._access.zookeeper("listing groups", self._access.no_such_call(ListGroupsRequest.API))
        return listings

    def _list_once(self, broker_id: int) -> tuple[GroupListing, ...]:
        answer = self._access.pool.to(broker_id).call(ListGroupsRequest())
        if answer.error_code:
            raise KafkaError(answer.error_code, f"groups of broker {broker_id}")
        return tuple(
            GroupListing(
                group.group_id,
                GroupKind.KAFKA,
                group.protocol_type,
                group.group_state,
                group.group_type.lower(),
            )
            for group in answer.groups
        )

    # --- the kind of a group

    def kind_of(self, group: str) -> GroupKind:
        """Return the kind of group that a name means if the caller does not say."""
        zookeeper = self.classic_group(group)
        if zookeeper is None:
            return GroupKind.KAFKA
        description = self._described_by_kafka([group])[group]
        if _is_unknown(description):
            return GroupKind.ZOOKEEPER
        if isinstance(description, OttlaError):
            raise description
        is_moved = bool(description.members) or not zookeeper.member_ids(group)
        return GroupKind.KAFKA if is_moved else GroupKind.ZOOKEEPER

    def _zookeeper(self, purpose: str) -> ZooKeeperGroups:
        return ZooKeeperGroups(self._access.zookeeper(purpose, "classic groups are in ZooKeeper"))

    def _by_kind(
        self,
        groups: Iterable[str],
        kind: GroupKind | None,
        in_zookeeper: Callable[[ZooKeeperGroups, str], V],
        in_kafka: Callable[[list[str]], Outcomes[V]],
    ) -> Outcomes[V]:
        """Call the function for each group's kind; return all outcomes."""
        names = list(groups)
        for name in names:
            if not name:
                raise ConfigError("the name of a group is empty")
        kinds: Outcomes[GroupKind] = each(names, lambda name: kind or self.kind_of(name))
        classic_names = [name for name in names if kinds[name] is GroupKind.ZOOKEEPER]
        kafka_names = [name for name in names if kinds[name] is GroupKind.KAFKA]
        outcomes: Outcomes[V] = {
            name: error for name, error in kinds.items() if isinstance(error, OttlaError)
        }
        if classic_names:
            zookeeper = self._zookeeper("groups")
            outcomes |= each(classic_names, lambda name: in_zookeeper(zookeeper, name))
        if kafka_names:
            outcomes |= in_kafka(kafka_names)
        return {name: outcomes[name] for name in names}

    # --- describing

    def describe(self, groups: Iterable[str], kind: GroupKind | None) -> Outcomes[GroupDescription]:
        """Return state, members and assignments."""
        return self._by_kind(
            groups, kind, lambda zookeeper, name: zookeeper.describe(name), self._described_by_kafka
        )

    def named(self, group: str) -> dict[GroupKind, GroupDescription]:
        """Return the groups of this name, of either kind."""
        outcomes: dict[GroupKind, GroupDescription | OttlaError] = {
            GroupKind.KAFKA: self._described_by_kafka([group])[group]
        }
        zookeeper = self.classic_group(group)
        if zookeeper is not None:
            outcomes[GroupKind.ZOOKEEPER] = zookeeper.describe(group)
        return all_results({kind: outcome for kind, outcome in outcomes.items() if not _is_unknown(outcome)})

    def _described_by_kafka(self, groups: list[str]) -> Outcomes[GroupDescription]:
        return self._access.settle(groups, lambda some: each(some, self._describe_once), is_repeatable=True)

    def _describe_once(self, group: str) -> GroupDescription:
        """Describe a group by the first of four ways that knows it."""
        pool = self._access.pool
        coordinator = pool.coordinator(group)
        if self._access.has(DescribeGroupsRequest.API):
            request = DescribeGroupsRequest(groups=[group])
            for description in pool.to_coordinator(group).call(request).groups:
                if self._is_known(group, description) and description.group_state != DEAD:
                    return described_group(description, coordinator)
        if self._access.has(ConsumerGroupDescribeRequest.API):
            consumer_request = ConsumerGroupDescribeRequest(group_ids=[group])
            for consumer_group in pool.to_coordinator(group).call(consumer_request).groups:
                if self._is_known(group, consumer_group):
                    return described_assigned_group(consumer_group, coordinator)
        share_group = self._share_group(group)
        if share_group is not None:
            return described_assigned_group(share_group, coordinator)
        return self._known_by_offsets(group, coordinator)

    def _share_group(self, group: str) -> DescribedShareGroup | None:
        """Return the share group of this name; None if there is none."""
        if not self._access.has(ShareGroupDescribeRequest.API):
            return None
        request = ShareGroupDescribeRequest(group_ids=[group])
        (answer,) = self._access.pool.to_coordinator(group).call(request).groups
        return answer if self._is_known(group, answer) else None

    def _is_share(self, group: str) -> bool:
        outcomes = self._access.settle(
            [group], lambda _: {group: self._share_group(group) is not None}, is_repeatable=True
        )
        return only(outcomes)

    def _is_known(
        self, group: str, response: DescribedGroup | DescribedConsumerGroup | DescribedShareGroup
    ) -> bool:
        """Whether the group exists and is of the requested kind. Raises any other error."""
        if response.error_code and response.error_code != Code.GROUP_ID_NOT_FOUND:
            self._forget_if_moved(group, response.error_code)
            raise response_error(response.error_code, response.error_message, f"group {group!r}")
        return not response.error_code

    def _known_by_offsets(self, group: str, coordinator: BrokerNode) -> GroupDescription:
        """Describe a group without members. Before 0.11 a coordinator keeps only its offsets."""
        if not self._fetched(group):
            raise KafkaError(Code.GROUP_ID_NOT_FOUND, f"group {group!r}")
        return GroupDescription(group, GroupKind.KAFKA, EMPTY, "", "", coordinator, ())

    def _forget_if_moved(self, group: str, code: int) -> None:
        if action_for(code) is Action.FIND_COORDINATOR:
            self._access.pool.forget_coordinator(group)

    # --- deleting

    def delete(self, groups: Iterable[str], kind: GroupKind | None) -> Outcomes[None]:
        """Delete groups without members, and their offsets."""
        outcomes = self._by_kind(
            groups, kind, lambda zookeeper, name: zookeeper.delete(name), self._deleted_by_kafka
        )
        for name, outcome in outcomes.items():
            if outcome is None:
                log.info("group %s deleted", name)
        return outcomes

    def _deleted_by_kafka(self, groups: list[str]) -> Outcomes[None]:
        if not self._access.has(DeleteGroupsRequest.API):
            raise Unsupported(
                f"deleting groups: {self._access.no_such_call(DeleteGroupsRequest.API)} "
                "(it came with 1.1); their "
                "offsets expire by themselves, after the brokers' offsets.retention.minutes"
            )
        return self._access.settle(groups, lambda some: each(some, self._delete_once), is_repeatable=True)

    def _delete_once(self, group: str) -> None:
        answer = self._access.pool.to_coordinator(group).call(DeleteGroupsRequest(groups_names=[group]))
        for result in answer.results:
            self._forget_if_moved(group, result.error_code)
            error = group_error(group, result.error_code)
            if error is not None:
                raise error

    # --- offsets

    def offsets(self, groups: Iterable[str], kind: GroupKind | None) -> Outcomes[Offsets]:
        """Return the committed offsets of groups; of share groups where they begin."""
        return self._by_kind(
            groups,
            kind,
            lambda zookeeper, name: zookeeper.offsets(name),
            lambda some: self._access.settle(
                some, lambda names: each(names, self._committed_or_start), is_repeatable=True
            ),
        )

    def offsets_in_kafka(self, groups: Iterable[str]) -> Outcomes[Offsets]:
        """Return the offsets that groups committed to their coordinators."""
        return self._access.settle(groups, lambda some: each(some, self._fetched), is_repeatable=True)

    def _committed_or_start(self, group: str) -> Offsets:
        offsets = self._fetched(group)
        is_share = not offsets and self._share_group(group) is not None
        return self.share_starts(group) if is_share else offsets

    def share_starts(self, group: str) -> Offsets:
        """Return where a share group begins in its partitions: what is before is done. Raises KafkaError."""
        return {
            topic_partition: CommittedOffset(found.start, leader_epoch=found.leader_epoch)
            for topic_partition, found in sorted(self.share_offsets(group).items())
            if found.start is not None
        }

    def share_offsets(self, group: str) -> dict[TopicAndPartition, ShareOffset]:
        """Return what the coordinator tells of a share group's partitions."""
        return only(
            self._access.settle([group], lambda _: {group: self._share.fetch(group)}, is_repeatable=True)
        )

    def alter_share_offsets(
        self, group: str, offsets: Mapping[TopicAndPartition, int]
    ) -> PartitionOutcomes[None]:
        """Let a share group without members begin at these offsets; the group need not exist."""
        _check_offsets(group, offsets)
        return self._share.alter(group, offsets)

    def delete_share_offsets(self, group: str, topics: Iterable[str]) -> Outcomes[None]:
        """Let a share group forget topics."""
        return self._share.delete(group, topics)

    def _fetched(self, group: str) -> Offsets:
        try:
            return self._offsets.fetch(group)
        except KafkaError as error:
            self._forget_if_moved(group, error.code)
            raise

    def alter_offsets(
        self, group: str, offsets: Mapping[TopicAndPartition, int], kind: GroupKind | None
    ) -> PartitionOutcomes[None]:
        """Write offsets of a group without members; the group need not exist."""
        _check_offsets(group, offsets)
        if self._is_classic(group, kind):
            outcomes = self._zookeeper(f"group {group!r}").write_offsets(group, offsets)
        elif self._is_share(group):
            outcomes = self._share.alter(group, offsets)
        else:
            outcomes = self._offsets.commit(group, offsets)
        log.info(
            "group %s: offsets of %d partitions written",
            group,
            sum(outcome is None for outcome in outcomes.values()),
        )
        return outcomes

    def delete_offsets(
        self, group: str, topic_partitions: Iterable[TopicAndPartition], kind: GroupKind | None
    ) -> PartitionOutcomes[None]:
        """Delete offsets."""
        if self._is_classic(group, kind):
            return self._zookeeper(f"group {group!r}").delete_offsets(group, topic_partitions)
        return self._offsets.delete(group, topic_partitions)

    def _is_classic(self, group: str, kind: GroupKind | None) -> bool:
        return (kind or self.kind_of(group)) is GroupKind.ZOOKEEPER

    def classic_group(self, group: str) -> ZooKeeperGroups | None:
        """Return access to the groups in ZooKeeper; None if the group is not one of them."""
        if not self._access.has_zookeeper or not _is_classic_name(group):
            return None
        zookeeper = self._zookeeper(f"group {group!r}")
        return zookeeper if zookeeper.exists(group) else None
