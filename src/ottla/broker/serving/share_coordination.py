"""What requests about share groups have in common: the right broker, and the right kind of group."""

from __future__ import annotations

from ottla.broker.coordination.led_partitions import partition_for
from ottla.broker.serving.handler import Inquiry
from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError
from ottla.model.topic_partition import OFFSETS_TOPIC
from ottla.wire.api.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse

GROUP_TYPE = "share"


def coordinator_error(inquiry: Inquiry, group_id: str) -> Code:
    """Return why this broker cannot answer for a group; NONE if it can."""
    if not group_id:
        return Code.INVALID_GROUP_ID
    partitions = inquiry.broker.store.partitions.get(OFFSETS_TOPIC, [])
    if not partitions:
        return Code.NOT_COORDINATOR
    leader = partitions[partition_for(group_id, len(partitions))].leader
    return Code.NONE if leader == inquiry.broker.broker_id else Code.NOT_COORDINATOR


def check_coordinator(inquiry: Inquiry, group_id: str) -> None:
    """Raise KafkaError if this broker does not coordinate a group."""
    error = coordinator_error(inquiry, group_id)
    if error:
        raise KafkaError(error, f"group {group_id!r}")


def check_kind(inquiry: Inquiry, group_id: str) -> None:
    """Raise KafkaError if there is a group of that name which is not a share group."""
    if group_id in inquiry.broker.shares.groups:
        return
    known: list[str] = []

    def listed(response: ListGroupsResponse) -> None:
        known.extend(group.group_id for group in response.groups)

    inquiry.ask_groups(ListGroupsRequest(), listed)
    if group_id in known:
        raise KafkaError(Code.GROUP_ID_NOT_FOUND, f"group {group_id!r} is not a share group")


def check_empty(inquiry: Inquiry, group_id: str, *, may_be_new: bool = False) -> None:
    """Raise KafkaError if a share group cannot be changed from outside: it has members, or does not exist."""
    check_coordinator(inquiry, group_id)
    check_kind(inquiry, group_id)
    group = inquiry.broker.shares.groups.get(group_id)
    if group is None and may_be_new:
        return
    if group is None:
        raise KafkaError(Code.GROUP_ID_NOT_FOUND, f"there is no share group {group_id!r}")
    if group.members:
        raise KafkaError(Code.NON_EMPTY_GROUP, f"share group {group_id!r} has {len(group.members)} members")


def listed_groups(inquiry: Inquiry, request: ListGroupsRequest) -> list[ListedGroup]:
    """Return the share groups that this broker coordinates and that pass the filters of a request."""
    states = {state.lower() for state in request.states_filter}
    types = {kind.lower() for kind in request.types_filter}
    if types and GROUP_TYPE not in types:
        return []
    return [
        ListedGroup(
            group_id=group.group_id, protocol_type=GROUP_TYPE, group_state=group.state, group_type=GROUP_TYPE
        )
        for group in inquiry.broker.shares.groups.values()
        if not coordinator_error(inquiry, group.group_id) and (not states or group.state.lower() in states)
    ]
