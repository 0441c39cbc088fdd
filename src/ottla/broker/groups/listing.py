"""DescribeGroups and ListGroups: what tools are told of groups."""

from __future__ import annotations

from collections.abc import Iterable

from ottla.broker.groups.group import Group, Member
from ottla.broker.groups.state import GroupState
from ottla.model.error_codes import Code
from ottla.wire.api.describe_groups import DescribedGroup, DescribedGroupMember
from ottla.wire.api.list_groups import ListedGroup, ListGroupsRequest

GROUP_TYPE = "classic"
_UNKNOWN_GROUP_SINCE = 6


def described(group: Group) -> DescribedGroup:
    """A group's state and members; their subscriptions and assignments only when they are settled."""
    stable = group.state is GroupState.STABLE
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type,
        protocol_data=(group.protocol_name or "") if stable else "",
        members=[
            _described_member(one, group.protocol_name if stable else None) for one in group.members.values()
        ],
    )


def _described_member(member: Member, protocol_name: str | None) -> DescribedGroupMember:
    settled = protocol_name is not None
    return DescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=member.protocols.get(protocol_name or "", b"") if settled else b"",
        member_assignment=member.assignment if settled else b"",
    )


def unknown(group_id: str, version: int) -> DescribedGroup:
    """A group that does not exist: an error since version 6, a dead group before."""
    if version < _UNKNOWN_GROUP_SINCE:
        return DescribedGroup(group_id=group_id, group_state=GroupState.DEAD.value)
    return DescribedGroup(
        error_code=Code.GROUP_ID_NOT_FOUND,
        error_message=f"Group {group_id} not found.",
        group_id=group_id,
        group_state=GroupState.DEAD.value,
    )


def refused(group_id: str, error: Code) -> DescribedGroup:
    """A group that cannot be described here and now."""
    return DescribedGroup(error_code=error, group_id=group_id)


def listed(groups: Iterable[Group], request: ListGroupsRequest) -> list[ListedGroup]:
    """The groups that pass the filters; an empty filter lets all pass, and case does not matter."""
    states = {state.lower() for state in request.states_filter}
    types = {kind.lower() for kind in request.types_filter}
    if types and GROUP_TYPE not in types:
        return []
    return [
        ListedGroup(
            group_id=group.group_id,
            protocol_type=group.protocol_type,
            group_state=group.state.value,
            group_type=GROUP_TYPE,
        )
        for group in groups
        if not states or group.state.value.lower() in states
    ]
