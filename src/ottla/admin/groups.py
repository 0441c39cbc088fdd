"""Lists, describes and deletes consumer groups of every kind; reads and writes their offsets.

A name may belong to two groups, one with a coordinator and one in ZooKeeper. A call without `kind` takes the
group that has members; if both or neither have, the coordinator's.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TypeVar

from ottla.admin.access import ClusterAccess
from ottla.admin.admin_errors import all_results, each, only, response_error
from ottla.admin.group_descriptions import described_assigned_group, described_group
from ottla.admin.group_offsets import KafkaGroupOffsets, Offsets, Positions, committed_offsets, group_error
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
_NO_SUCH_GROUP = {Code.GROUP_ID_NOT_FOUND, Code.UNSUPPORTED_VERSION}


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

    async def listings(self) -> Outcomes[tuple[GroupListing, ...]]:
        """Return the groups in ZooKeeper, and those of each broker."""
        listings: Outcomes[tuple[GroupListing, ...]] = {}
        if self._access.has_zookeeper:
            listings |= await each(["zookeeper"], self._list_in_zookeeper)
        if await self._access.has(ListGroupsRequest.API):
            view = await (await self._access.metadata()).refresh((), reason="listing groups")
            by_broker = await self._access.settle(
                view.brokers, lambda some: each(some, self._list_once), is_repeatable=True
            )
            listings |= {f"broker {number}": by_broker[number] for number in sorted(by_broker)}
        elif not self._access.has_zookeeper:
            reason = await self._access.no_such_call(ListGroupsRequest.API)
            await self._access.zookeeper("listing groups", reason)
        return listings

    async def _list_in_zookeeper(self, _: str) -> tuple[GroupListing, ...]:
        zookeeper = await self._zookeeper("listing groups")
        return await self._access.blocking(zookeeper.listings)

    async def _list_once(self, broker_id: int) -> tuple[GroupListing, ...]:
        answer = await (await self._access.broker(broker_id)).call(ListGroupsRequest())
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

    async def kind_of(self, group: str) -> GroupKind:
        """Return the kind of group that a name means if the caller does not give one."""
        zookeeper = await self.classic_group(group)
        if zookeeper is None:
            return GroupKind.KAFKA
        description = (await self._described_by_kafka([group]))[group]
        if _is_unknown(description):
            return GroupKind.ZOOKEEPER
        if isinstance(description, OttlaError):
            raise description
        is_moved = bool(description.members) or not await self._access.blocking(
            lambda: zookeeper.member_ids(group)
        )
        return GroupKind.KAFKA if is_moved else GroupKind.ZOOKEEPER

    async def _zookeeper(self, purpose: str) -> ZooKeeperGroups:
        return ZooKeeperGroups(await self._access.zookeeper(purpose, "classic groups are in ZooKeeper"))

    async def _by_kind(
        self,
        groups: Iterable[str],
        kind: GroupKind | None,
        in_zookeeper: Callable[[ZooKeeperGroups, str], V],
        in_kafka: Callable[[list[str]], Awaitable[Outcomes[V]]],
    ) -> Outcomes[V]:
        """Call the function for each group's kind; return all outcomes."""
        names = list(groups)
        for name in names:
            if not name:
                raise ConfigError("the name of a group is empty")
        kinds: Outcomes[GroupKind] = (
            dict.fromkeys(names, kind) if kind is not None else await each(names, self.kind_of)
        )
        classic_names = [name for name in names if kinds[name] is GroupKind.ZOOKEEPER]
        kafka_names = [name for name in names if kinds[name] is GroupKind.KAFKA]
        outcomes: Outcomes[V] = {
            name: error for name, error in kinds.items() if isinstance(error, OttlaError)
        }
        if classic_names:
            zookeeper = await self._zookeeper("groups")
            outcomes |= await each(
                classic_names, lambda name: self._access.blocking(lambda: in_zookeeper(zookeeper, name))
            )
        if kafka_names:
            outcomes |= await in_kafka(kafka_names)
        return {name: outcomes[name] for name in names}

    # --- describing

    async def describe(self, groups: Iterable[str], kind: GroupKind | None) -> Outcomes[GroupDescription]:
        """Return state, members and assignments."""
        return await self._by_kind(
            groups, kind, lambda zookeeper, name: zookeeper.describe(name), self._described_by_kafka
        )

    async def named(self, group: str) -> dict[GroupKind, GroupDescription]:
        """Return the groups of this name, of either kind."""
        outcomes: dict[GroupKind, GroupDescription | OttlaError] = {
            GroupKind.KAFKA: (await self._described_by_kafka([group]))[group]
        }
        zookeeper = await self.classic_group(group)
        if zookeeper is not None:
            outcomes[GroupKind.ZOOKEEPER] = await self._access.blocking(lambda: zookeeper.describe(group))
        return all_results({kind: outcome for kind, outcome in outcomes.items() if not _is_unknown(outcome)})

    async def _described_by_kafka(self, groups: list[str]) -> Outcomes[GroupDescription]:
        return await self._access.settle(
            groups, lambda some: each(some, self._describe_once), is_repeatable=True
        )

    async def _describe_once(self, group: str) -> GroupDescription:
        """Describe a group with the first of four calls that knows it."""
        coordinator = await self._access.coordinator_node(group)
        if await self._access.has(DescribeGroupsRequest.API):
            request = DescribeGroupsRequest(groups=[group])
            for description in (await (await self._access.coordinator(group)).call(request)).groups:
                if self._is_known(group, description) and description.group_state != DEAD:
                    return described_group(description, coordinator)
        if await self._access.has(ConsumerGroupDescribeRequest.API):
            consumer_request = ConsumerGroupDescribeRequest(group_ids=[group])
            peer = await self._access.coordinator(group)
            for consumer_group in (await peer.call(consumer_request)).groups:
                if self._is_known(group, consumer_group):
                    return described_assigned_group(consumer_group, coordinator)
        share_group = await self._share_group(group)
        if share_group is not None:
            return described_assigned_group(share_group, coordinator)
        return await self._known_by_offsets(group, coordinator)

    async def _share_group(self, group: str) -> DescribedShareGroup | None:
        """Return the share group of this name; None if there is none."""
        if not await self._access.has(ShareGroupDescribeRequest.API):
            return None
        request = ShareGroupDescribeRequest(group_ids=[group])
        (answer,) = (await (await self._access.coordinator(group)).call(request)).groups
        return answer if self._is_known(group, answer) else None

    async def _is_share(self, group: str) -> bool:
        outcomes = await self._access.settle(
            [group], lambda some: each(some, self._share_group), is_repeatable=True
        )
        return only(outcomes) is not None

    def _is_known(
        self, group: str, response: DescribedGroup | DescribedConsumerGroup | DescribedShareGroup
    ) -> bool:
        """Whether the group exists and is of the requested kind. Raises any other error.

        A broker that has the new protocols switched off has the call, and answers that it is not supported.
        """
        if response.error_code and response.error_code not in _NO_SUCH_GROUP:
            self._forget_if_moved(group, response.error_code)
            raise response_error(response.error_code, response.error_message, f"group {group!r}")
        return not response.error_code

    async def _known_by_offsets(self, group: str, coordinator: BrokerNode) -> GroupDescription:
        """Describe a group without members. Before 0.11 a coordinator keeps only its offsets."""
        if not await self._fetched(group):
            raise KafkaError(Code.GROUP_ID_NOT_FOUND, f"group {group!r}")
        return GroupDescription(group, GroupKind.KAFKA, EMPTY, "", "", coordinator, ())

    def _forget_if_moved(self, group: str, code: int) -> None:
        if action_for(code) is Action.FIND_COORDINATOR:
            self._access.forget_coordinator(group)

    # --- deleting

    async def delete(self, groups: Iterable[str], kind: GroupKind | None) -> Outcomes[None]:
        """Delete groups without members, and their offsets."""
        outcomes = await self._by_kind(
            groups, kind, lambda zookeeper, name: zookeeper.delete(name), self._deleted_by_kafka
        )
        for name, outcome in outcomes.items():
            if outcome is None:
                log.info("group %s deleted", name)
        return outcomes

    async def _deleted_by_kafka(self, groups: list[str]) -> Outcomes[None]:
        if not await self._access.has(DeleteGroupsRequest.API):
            raise Unsupported(
                f"deleting groups: {await self._access.no_such_call(DeleteGroupsRequest.API)} "
                "(it came with 1.1); their "
                "offsets expire by themselves, after the brokers' offsets.retention.minutes"
            )
        return await self._access.settle(
            groups, lambda some: each(some, self._delete_once), is_repeatable=True
        )

    async def _delete_once(self, group: str) -> None:
        answer = await (await self._access.coordinator(group)).call(DeleteGroupsRequest(groups_names=[group]))
        for result in answer.results:
            self._forget_if_moved(group, result.error_code)
            error = group_error(group, result.error_code)
            if error is not None:
                raise error

    # --- offsets

    async def offsets(self, groups: Iterable[str], kind: GroupKind | None) -> Outcomes[Offsets]:
        """Return the committed offsets of groups; of share groups where they begin."""
        return await self._by_kind(
            groups,
            kind,
            lambda zookeeper, name: zookeeper.offsets(name),
            lambda some: self._access.settle(
                some, lambda names: each(names, self._committed_or_start), is_repeatable=True
            ),
        )

    async def positions_in_kafka(self, group: str) -> Positions:
        """Return the offsets that a group committed to its coordinator. Raises KafkaError."""
        outcomes = await self._access.settle(
            [group], lambda some: each(some, self._positions), is_repeatable=True
        )
        return only(outcomes)

    async def _committed_or_start(self, group: str) -> Offsets:
        offsets = await self._fetched(group)
        is_share = not offsets and await self._share_group(group) is not None
        return await self.share_starts(group) if is_share else offsets

    async def share_starts(self, group: str) -> Offsets:
        """Return where a share group begins in its partitions: all records before are done.

        Raises KafkaError.
        """
        return {
            topic_partition: CommittedOffset(offset.start, leader_epoch=offset.leader_epoch)
            for topic_partition, offset in sorted((await self.share_offsets(group)).items())
            if offset.start is not None
        }

    async def share_offsets(self, group: str) -> dict[TopicAndPartition, ShareOffset]:
        """Return what the coordinator reports about a share group's partitions."""
        outcomes = await self._access.settle(
            [group], lambda some: each(some, self._share.fetch), is_repeatable=True
        )
        return only(outcomes)

    async def alter_share_offsets(
        self, group: str, offsets: Mapping[TopicAndPartition, int]
    ) -> PartitionOutcomes[None]:
        """Let a share group without members begin at these offsets; the group need not exist."""
        _check_offsets(group, offsets)
        return await self._share.alter(group, offsets)

    async def delete_share_offsets(self, group: str, topics: Iterable[str]) -> Outcomes[None]:
        """Let a share group forget topics."""
        return await self._share.delete(group, topics)

    async def _fetched(self, group: str) -> Offsets:
        return committed_offsets(await self._positions(group))

    async def _positions(self, group: str) -> Positions:
        try:
            return await self._offsets.positions(group)
        except KafkaError as error:
            self._forget_if_moved(group, error.code)
            raise

    async def alter_offsets(
        self, group: str, offsets: Mapping[TopicAndPartition, int], kind: GroupKind | None
    ) -> PartitionOutcomes[None]:
        """Write offsets of a group without members; the group need not exist."""
        _check_offsets(group, offsets)
        if await self._is_classic(group, kind):
            zookeeper = await self._zookeeper(f"group {group!r}")
            outcomes = await self._access.blocking(lambda: zookeeper.write_offsets(group, offsets))
        elif await self._is_share(group):
            outcomes = await self._share.alter(group, offsets)
        else:
            outcomes = await self._offsets.commit(group, offsets)
        log.info(
            "group %s: offsets of %d partitions written",
            group,
            sum(outcome is None for outcome in outcomes.values()),
        )
        return outcomes

    async def delete_offsets(
        self, group: str, topic_partitions: Iterable[TopicAndPartition], kind: GroupKind | None
    ) -> PartitionOutcomes[None]:
        """Delete offsets."""
        if await self._is_classic(group, kind):
            zookeeper = await self._zookeeper(f"group {group!r}")
            return await self._access.blocking(lambda: zookeeper.delete_offsets(group, topic_partitions))
        return await self._offsets.delete(group, topic_partitions)

    async def _is_classic(self, group: str, kind: GroupKind | None) -> bool:
        return (kind or await self.kind_of(group)) is GroupKind.ZOOKEEPER

    async def classic_group(self, group: str) -> ZooKeeperGroups | None:
        """Return access to the groups in ZooKeeper; None if the group is not one of them."""
        if not self._access.has_zookeeper or not _is_classic_name(group):
            return None
        zookeeper = await self._zookeeper(f"group {group!r}")
        return zookeeper if await self._access.blocking(lambda: zookeeper.exists(group)) else None
