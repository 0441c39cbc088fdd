"""Requests of tools about many groups: list, describe, delete; for classic and consumer groups."""

from __future__ import annotations

from ottla.broker.coordination.effects import Caller, Record
from ottla.broker.groups.coordinator import listing
from ottla.broker.groups.coordinator.consumer_groups import describing
from ottla.broker.groups.coordinator.consumer_groups.topics import TopicsView
from ottla.broker.groups.coordinator.decision import Continuation, CoordinatorStep, offset_error
from ottla.broker.groups.coordinator.in_flight import offset_tombstones
from ottla.broker.groups.coordinator.records import group_tombstone
from ottla.broker.groups.coordinator.registry import GroupRegistry
from ottla.broker.groups.coordinator.state import GroupState
from ottla.model.error_codes import Code
from ottla.wire.api.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedConsumerGroup,
)
from ottla.wire.api.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from ottla.wire.api.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from ottla.wire.api.list_groups import ListGroupsRequest, ListGroupsResponse


class ToolRequests:
    """Answers about the groups of a registry."""

    def __init__(self, registry: GroupRegistry, topics: TopicsView) -> None:
        self._registry = registry
        self._topics = topics

    def describe(self, request: DescribeGroupsRequest, caller: Caller, step: CoordinatorStep) -> None:
        """Answer with state and members of classic groups."""
        groups = [self._described(group_id, caller.version) for group_id in request.groups]
        if request.include_authorized_operations:
            listing.add_permissions(groups)
        step.reply(caller, DescribeGroupsResponse(groups=groups))

    def _described(self, group_id: str, version: int) -> DescribedGroup:
        error = self._registry.partitions.group_error(group_id)
        if error:
            return listing.refused(group_id, error)
        group = self._registry.classic_group(group_id)
        if group is not None:
            return listing.described(group)
        is_consumer = self._registry.consumer_group(group_id) is not None
        text = f"Group {group_id} is not a classic group." if is_consumer else f"Group {group_id} not found."
        return listing.unknown(group_id, version, text)

    def describe_consumer(
        self, request: ConsumerGroupDescribeRequest, caller: Caller, step: CoordinatorStep
    ) -> None:
        """Answer with state, epochs and members of consumer groups."""
        groups = [self._described_consumer(group_id, step) for group_id in request.group_ids]
        if request.include_authorized_operations:
            listing.add_permissions(groups)
        step.reply(caller, ConsumerGroupDescribeResponse(groups=groups))

    def _described_consumer(self, group_id: str, step: CoordinatorStep) -> DescribedConsumerGroup:
        error = self._registry.partitions.group_error(group_id)
        if error:
            return describing.not_described(group_id, error)
        group = self._registry.consumer_group(group_id)
        if group is not None:
            return describing.described(group, step.config.consumer_assignors[0], self._topics)
        is_classic = self._registry.classic_group(group_id) is not None
        text = f"Group {group_id} is not a consumer group." if is_classic else f"Group {group_id} not found."
        return describing.not_described(group_id, Code.GROUP_ID_NOT_FOUND, text)

    def list_groups(self, request: ListGroupsRequest, caller: Caller, step: CoordinatorStep) -> None:
        """Answer with the groups that pass the filters."""
        is_loading = self._registry.partitions.is_loading
        error = Code.COORDINATOR_LOAD_IN_PROGRESS if is_loading else Code.NONE
        rows = [
            *map(listing.listed_classic, self._registry.active_groups()),
            *map(listing.listed_consumer, self._registry.active_consumer_groups()),
        ]
        step.reply(caller, ListGroupsResponse(error_code=error, groups=listing.filtered(rows, request)))

    def delete(self, request: DeleteGroupsRequest, caller: Caller, step: CoordinatorStep) -> None:
        """Delete groups that are empty, with one append each; answer when all are decided."""
        names = list(dict.fromkeys(request.groups_names))
        results = {group_id: self._delete_error(group_id) for group_id in names}
        waiting = {group_id for group_id, error in results.items() if not error}

        def finish(step: CoordinatorStep) -> None:
            if not waiting:
                deleted = [listing.deleted(name, error) for name, error in results.items()]
                step.reply(caller, DeleteGroupsResponse(results=deleted))

        for group_id in list(waiting):
            bury = self._registry.burial(group_id)

            def stored(
                step: CoordinatorStep, error: Code, group_id: str = group_id, bury: Continuation = bury
            ) -> None:
                bury(step, error)
                results[group_id] = offset_error(error)
                waiting.discard(group_id)
                finish(step)

            offsets = offset_tombstones(self._registry.store, self._registry.in_flight, group_id)
            records = [*offsets, *self._tombstones(group_id)]
            self._registry.consumer.store(group_id, records, stored, step)
        finish(step)

    def _tombstones(self, group_id: str) -> list[Record]:
        group = self._registry.consumer_group(group_id)
        if group is None:
            return [group_tombstone(group_id)]
        draft = group.draft()
        draft.remove_group()
        return draft.records

    def _delete_error(self, group_id: str) -> Code:
        error = self._registry.partitions.group_error(group_id)
        if error:
            return error
        if self._registry.consumer.turns.is_busy(group_id):
            return Code.NON_EMPTY_GROUP
        consumer = self._registry.consumer_group(group_id)
        if consumer is not None:
            return Code.NON_EMPTY_GROUP if consumer.members else Code.NONE
        group = self._registry.classic_group(group_id)
        if group is None:
            return Code.GROUP_ID_NOT_FOUND
        return Code.NONE if group.state is GroupState.EMPTY else Code.NON_EMPTY_GROUP
