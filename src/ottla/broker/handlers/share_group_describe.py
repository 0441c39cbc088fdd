"""ShareGroupDescribe, key 77: state, epochs and members of share groups.

Versions: 1. 0 was an early access.
Behaviour: only the broker that coordinates a group describes it.
"""

from __future__ import annotations

from ottla.broker.serving.division import Division
from ottla.broker.serving.handler import Handler, Inquiry
from ottla.broker.serving.share_acknowledging import by_topic
from ottla.broker.serving.share_coordination import coordinator_error
from ottla.broker.share_groups.core.assignor import NAME, TopicIdPartition
from ottla.broker.share_groups.core.group import ShareGroup, ShareGroupMember
from ottla.model.error_codes import Code
from ottla.model.permissions import GROUP_OPERATIONS
from ottla.wire.api.consumer_group_describe import MemberAssignment, MemberTopicPartitions
from ottla.wire.api.share_group_describe import (
    DescribedShareGroup,
    DescribedShareMember,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)


def handle(inquiry: Inquiry, request: ShareGroupDescribeRequest) -> ShareGroupDescribeResponse:
    """Describe each of the groups."""
    groups = [_described(inquiry, group_id) for group_id in request.group_ids]
    if request.include_authorized_operations:
        for group in groups:
            if not group.error_code:
                group.authorized_operations = GROUP_OPERATIONS
    return ShareGroupDescribeResponse(groups=groups)


def _described(inquiry: Inquiry, group_id: str) -> DescribedShareGroup:
    error = coordinator_error(inquiry, group_id)
    group = inquiry.broker.shares.groups.get(group_id)
    if error or group is None:
        return _refused(group_id, error or Code.GROUP_ID_NOT_FOUND)
    return DescribedShareGroup(
        group_id=group_id,
        group_state=group.state,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=NAME,
        members=[_member(inquiry, group, member) for member in group.members.values()],
    )


def _refused(group_id: str, error: Code) -> DescribedShareGroup:
    unknown = f"Group {group_id} not found."
    text = unknown if error is Code.GROUP_ID_NOT_FOUND else error.text
    state = "Dead" if error is Code.GROUP_ID_NOT_FOUND else ""
    return DescribedShareGroup(group_id=group_id, error_code=error, error_message=text, group_state=state)


def _member(inquiry: Inquiry, group: ShareGroup, member: ShareGroupMember) -> DescribedShareMember:
    assigned = inquiry.broker.shares.assigned(group.group_id, member.member_id)
    return DescribedShareMember(
        member_id=member.member_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.topics),
        assignment=MemberAssignment(topic_partitions=_topics(inquiry, assigned)),
    )


def _topics(inquiry: Inquiry, assigned: frozenset[TopicIdPartition]) -> list[MemberTopicPartitions]:
    names = inquiry.broker.store.topic_names
    return [
        MemberTopicPartitions(topic_id=topic_id, topic_name=names.get(topic_id, ""), partitions=indexes)
        for topic_id, indexes in by_topic(sorted(assigned)).items()
    ]


def refuse(request: ShareGroupDescribeRequest, error: Code, _version: int) -> ShareGroupDescribeResponse:
    """One error for every group."""
    return ShareGroupDescribeResponse(groups=[_refused(group_id, error) for group_id in request.group_ids])


HANDLER = Handler(
    handle,
    refuse,
    divisions=(Division(("group_ids",), ("groups",)),),
)
