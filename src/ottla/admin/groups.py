"""Consumer groups of both kinds: listed, described, deleted, their offsets read and written.

A name may stand for two groups, one with a coordinator and one in ZooKeeper. A call that is not told the kind
takes the one that has members; if both or none have, the coordinator's.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from ottla.admin.access import ClusterAccess
from ottla.admin.errors import Unsupported, each, told_error
from ottla.admin.group_descriptions import described_consumer_group, described_group
from ottla.admin.group_offsets import KafkaGroupOffsets, Offsets, group_error
from ottla.admin.group_values import GroupDescription, GroupKind, GroupListing
from ottla.admin.logs import Outcomes as PartitionOutcomes
from ottla.admin.zookeeper_groups import EMPTY, ZooKeeperGroups
from ottla.client.retry import Action, action_for
from ottla.model.cluster_view import BrokerNode
from ottla.model.error_codes import Code
from ottla.model.errors import ConfigError, KafkaError, OttlaError
from ottla.model.topic_partition import TopicAndPartition
from ottla.wire.api.consumer_group_describe import ConsumerGroupDescribeRequest, DescribedConsumerGroup
from ottla.wire.api.delete_groups import DeleteGroupsRequest
from ottla.wire.api.describe_groups import DescribedGroup, DescribeGroupsRequest
from ottla.wire.api.list_groups import ListGroupsRequest
from ottla.zookeeper import paths

log = logging.getLogger(__name__)

V = TypeVar("V")
Outcomes = dict[str, V | OttlaError]

DEAD = "Dead"


def _is_classic_name(group: str) -> bool:
    """Coordinators take any name, the classic consumer takes what makes a path."""
    try:
        paths.checked_group(group)
    except ConfigError:
        return False
    return True


class GroupCalls:
    """Every call returns an outcome for every group, or for every partition."""

    def __init__(self, access: ClusterAccess) -> None:
        self._access = access
        self._offsets = KafkaGroupOffsets(access)

    def listings(self) -> Outcomes[tuple[GroupListing, ...]]:
        """The groups of ZooKeeper, and of each broker."""
        found: Outcomes[tuple[GroupListing, ...]] = {}
        if self._access.has_zookeeper:
            found |= each(["zookeeper"], lambda _: self._keeper("listing groups").listings())
        if self._access.has(ListGroupsRequest.API):
            brokers = self._access.metadata.refresh((), reason="listing groups").brokers
            told = self._access.settle(
                brokers, lambda some: each(some, self._asked_for_groups), is_repeatable=True
            )
            found |= {f"broker {number}": told[number] for number in sorted(told)}
        elif not self._access.has_zookeeper:
            self._access.zookeeper("listing groups", self._access.lack(ListGroupsRequest.API))
        return found

    def _asked_for_groups(self, broker_id: int) -> tuple[GroupListing, ...]:
        answer = self._access.pool.to(broker_id).call(ListGroupsRequest())
        if answer.error_code:
            raise KafkaError(answer.error_code, f"groups of broker {broker_id}")
        return tuple(
            GroupListing(
                one.group_id, GroupKind.KAFKA, one.protocol_type, one.group_state, one.group_type.lower()
            )
            for one in answer.groups
        )

    # --- one kind or the other

    def kind_of(self, group: str) -> GroupKind:
        """Which of two groups a name stands for, if nobody says."""
        if not self._access.has_zookeeper or not _is_classic_name(group):
            return GroupKind.KAFKA
        keeper = self._keeper(f"group {group!r}")
        if not keeper.exists(group):
            return GroupKind.KAFKA
        told = self._described_by_kafka([group])[group]
        if isinstance(told, OttlaError):
            if isinstance(told, KafkaError) and told.code == Code.GROUP_ID_NOT_FOUND:
                return GroupKind.ZOOKEEPER
            raise told
        is_moved = bool(told.members) or not keeper.member_ids(group)
        return GroupKind.KAFKA if is_moved else GroupKind.ZOOKEEPER

    def _keeper(self, wish: str) -> ZooKeeperGroups:
        return ZooKeeperGroups(self._access.zookeeper(wish, "classic groups are in ZooKeeper"))

    def _by_kind(
        self,
        groups: Iterable[str],
        kind: GroupKind | None,
        in_zookeeper: Callable[[ZooKeeperGroups, str], V],
        in_kafka: Callable[[list[str]], Outcomes[V]],
    ) -> Outcomes[V]:
        """The outcome of each group, by its kind."""
        names = list(groups)
        for name in names:
            if not name:
                raise ConfigError("the name of a group is empty")
        kinds: Outcomes[GroupKind] = each(names, lambda name: kind or self.kind_of(name))
        kept = [name for name in names if kinds[name] is GroupKind.ZOOKEEPER]
        asked = [name for name in names if kinds[name] is GroupKind.KAFKA]
        failed = {name: told for name, told in kinds.items() if isinstance(told, OttlaError)}
        found: Outcomes[V] = {}
        if kept:
            keeper = self._keeper("groups")
            found |= each(kept, lambda name: in_zookeeper(keeper, name))
        found |= in_kafka(asked) if asked else {}
        found |= failed
        return {name: found[name] for name in names}

    # --- describing

    def describe(self, groups: Iterable[str], kind: GroupKind | None) -> Outcomes[GroupDescription]:
        """State, members, assignment."""
        return self._by_kind(
            groups, kind, lambda keeper, name: keeper.describe(name), self._described_by_kafka
        )

    def _described_by_kafka(self, groups: list[str]) -> Outcomes[GroupDescription]:
        return self._access.settle(groups, lambda some: each(some, self._asked_about), is_repeatable=True)

    def _asked_about(self, group: str) -> GroupDescription:
        """Of three ways to know a group, the first that does."""
        pool = self._access.pool
        coordinator = pool.coordinator(group)
        if self._access.has(DescribeGroupsRequest.API):
            request = DescribeGroupsRequest(groups=[group])
            for told in pool.to_coordinator(group).call(request).groups:
                if self._is_known(group, told) and told.group_state != DEAD:
                    return described_group(told, coordinator)
        if self._access.has(ConsumerGroupDescribeRequest.API):
            question = ConsumerGroupDescribeRequest(group_ids=[group])
            for one in pool.to_coordinator(group).call(question).groups:
                if self._is_known(group, one):
                    return described_consumer_group(one, coordinator)
        return self._known_by_offsets(group, coordinator)

    def _is_known(self, group: str, told: DescribedGroup | DescribedConsumerGroup) -> bool:
        """Whether it is a group of the kind that was asked for. Raises any other error."""
        if told.error_code and told.error_code != Code.GROUP_ID_NOT_FOUND:
            self._forget_if_moved(group, told.error_code)
            raise told_error(told.error_code, told.error_message, f"group {group!r}")
        return not told.error_code

    def _known_by_offsets(self, group: str, coordinator: BrokerNode) -> GroupDescription:
        """Before 0.11 a coordinator forgets a group without members, and only keeps its offsets."""
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
            groups, kind, lambda keeper, name: keeper.delete(name), self._deleted_by_kafka
        )
        for name, outcome in outcomes.items():
            if outcome is None:
                log.info("group %s deleted", name)
        return outcomes

    def _deleted_by_kafka(self, groups: list[str]) -> Outcomes[None]:
        if not self._access.has(DeleteGroupsRequest.API):
            raise Unsupported(
                f"deleting groups: {self._access.lack(DeleteGroupsRequest.API)} (it came with 1.1); their "
                "offsets expire by themselves, after the brokers' offsets.retention.minutes"
            )
        return self._access.settle(groups, lambda some: each(some, self._asked_to_delete), is_repeatable=True)

    def _asked_to_delete(self, group: str) -> None:
        answer = self._access.pool.to_coordinator(group).call(DeleteGroupsRequest(groups_names=[group]))
        for told in answer.results:
            self._forget_if_moved(group, told.error_code)
            error = group_error(group, told.error_code)
            if error is not None:
                raise error

    # --- offsets

    def offsets(self, groups: Iterable[str], kind: GroupKind | None) -> Outcomes[Offsets]:
        """What groups have committed."""
        return self._by_kind(groups, kind, lambda keeper, name: keeper.offsets(name), self.offsets_in_kafka)

    def offsets_in_kafka(self, groups: Iterable[str]) -> Outcomes[Offsets]:
        """What groups have committed with their coordinators."""
        return self._access.settle(groups, lambda some: each(some, self._fetched), is_repeatable=True)

    def _fetched(self, group: str) -> Offsets:
        try:
            return self._offsets.fetch(group)
        except KafkaError as error:
            self._forget_if_moved(group, error.code)
            raise

    def alter_offsets(
        self, group: str, offsets: Mapping[TopicAndPartition, int], kind: GroupKind | None
    ) -> PartitionOutcomes[None]:
        """Write positions of a group without members; a group that is not there comes to be."""
        for place, offset in offsets.items():
            if offset < 0:
                raise ConfigError(f"group {group!r}, {place}: offset {offset} is negative")
        if self._is_kept(group, kind):
            outcomes = self._keeper(f"group {group!r}").write_offsets(group, offsets)
        else:
            outcomes = self._offsets.commit(group, offsets)
        log.info(
            "group %s: offsets of %d partitions written",
            group,
            sum(told is None for told in outcomes.values()),
        )
        return outcomes

    def delete_offsets(
        self, group: str, places: Iterable[TopicAndPartition], kind: GroupKind | None
    ) -> PartitionOutcomes[None]:
        """Forget positions."""
        if self._is_kept(group, kind):
            return self._keeper(f"group {group!r}").delete_offsets(group, places)
        return self._offsets.delete(group, places)

    def _is_kept(self, group: str, kind: GroupKind | None) -> bool:
        return (kind or self.kind_of(group)) is GroupKind.ZOOKEEPER

    def classic(self) -> ZooKeeperGroups:
        """The groups in ZooKeeper."""
        return self._keeper("classic groups")
