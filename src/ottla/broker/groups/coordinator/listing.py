"""DescribeGroups, ListGroups and DeleteGroups: the answers about groups."""

from __future__ import annotations

from collections.abc import Iterable

from ottla.broker.groups.coordinator.consumer_groups.group import ConsumerGroup
from ottla.broker.groups.coordinator.group import CoordinatedGroup, CoordinatorMember
from ottla.broker.groups.coordinator.state import GroupState
from ottla.model.error_codes import Code
from ottla.model.permissions import GROUP_OPERATIONS
from ottla.wire.api.consumer_group_describe import DescribedConsumerGroup
from ottla.wire.api.delete_groups import DeletedGroup
from ottla.wire.api.describe_groups import DescribedGroup, DescribedGroupMember
from ottla.wire.api.list_groups import ListedGroup, ListGroupsRequest
from ottla.wire.consumer_protocol import CONSUMER as PROTOCOL_TYPE

CLASSIC, CONSUMER = "classic", "consumer"
"""The types of groups, as ListGroups names them."""
_UNKNOWN_GROUP_SINCE = 6


def described(group: CoordinatedGroup) -> DescribedGroup:
    """Return a group's state and members; subscriptions and assignments only if the group is stable."""
    stable = group.state is GroupState.STABLE
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type,
        protocol_data=(group.protocol_name or "") if stable else "",
        members=[
            _described_member(member, group.protocol_name if stable else None)
            for member in group.members.values()
        ],
    )


def _described_member(member: CoordinatorMember, protocol_name: str | None) -> DescribedGroupMember:
    settled = protocol_name is not None
    return DescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=member.protocols.get(protocol_name or "", b"") if settled else b"",
        member_assignment=member.assignment if settled else b"",
    )


def unknown(group_id: str, version: int, text: str) -> DescribedGroup:
    """Return the answer about a group that does not exist: an error since version 6, a dead group before."""
    if version < _UNKNOWN_GROUP_SINCE:
        return DescribedGroup(group_id=group_id, group_state=GroupState.DEAD.value)
    return DescribedGroup(
        error_code=Code.GROUP_ID_NOT_FOUND,
        error_message=text,
        group_id=group_id,
        group_state=GroupState.DEAD.value,
    )


def refused(group_id: str, error: Code) -> DescribedGroup:
    """Return the answer about a group that cannot be described here and now."""
    return DescribedGroup(error_code=error, group_id=group_id)


def add_permissions(groups: Iterable[DescribedGroup] | Iterable[DescribedConsumerGroup]) -> None:
    """Allow the client every operation on each group; the authorizer, if there is one, restricts that."""
    for group in groups:
        if not group.error_code:
            group.authorized_operations = GROUP_OPERATIONS


def deleted(group_id: str, error: Code) -> DeletedGroup:
    """Return the answer about a group that was deleted, or was not because of an error."""
    return DeletedGroup(group_id=group_id, error_code=error, error_message=error.text if error else None)


def listed_classic(group: CoordinatedGroup) -> ListedGroup:
    """Return the row of a classic group."""
    return ListedGroup(
        group_id=group.group_id,
        protocol_type=group.protocol_type,
        group_state=group.state.value,
        group_type=CLASSIC,
    )


def listed_consumer(group: ConsumerGroup) -> ListedGroup:
    """Return the row of a consumer group."""
    return ListedGroup(
        group_id=group.group_id,
        protocol_type=PROTOCOL_TYPE,
        group_state=group.state,
        group_type=CONSUMER,
    )


def filtered(rows: Iterable[ListedGroup], request: ListGroupsRequest) -> list[ListedGroup]:
    """Return the groups that pass the filters. All groups pass an empty filter; case does not matter."""
    states = {state.lower() for state in request.states_filter}
    types = {kind.lower() for kind in request.types_filter}
    return [
        row
        for row in rows
        if (not states or row.group_state.lower() in states) and (not types or row.group_type in types)
    ]
