"""Descriptions of groups from coordinators' answers: classic groups, and those of KIP-848."""

from __future__ import annotations

import logging

from ottla.admin.group_values import GroupDescription, GroupKind, GroupMember
from ottla.model.cluster_view import BrokerNode
from ottla.model.errors import RemoteProtocolError
from ottla.model.topic_partition import TopicAndPartition
from ottla.wire.api.consumer_group_describe import (
    DescribedConsumer,
    DescribedConsumerGroup,
    MemberAssignment,
)
from ottla.wire.api.describe_groups import DescribedGroup, DescribedGroupMember
from ottla.wire.api.share_group_describe import DescribedShareGroup, DescribedShareMember
from ottla.wire.consumer_protocol import CONSUMER, decode_assignment, subscribed_topics

log = logging.getLogger(__name__)

CLASSIC_TYPE, SHARE_TYPE = "classic", "share"
_MEMBER_TYPES = {0: CLASSIC_TYPE, 1: CONSUMER}


def described_group(group: DescribedGroup, coordinator: BrokerNode) -> GroupDescription:
    """Describe a group from a DescribeGroups response, where members' topics and assignments are encoded
    bytes.
    """
    return GroupDescription(
        group_id=group.group_id,
        kind=GroupKind.KAFKA,
        state=group.group_state,
        protocol_type=group.protocol_type,
        assignor=group.protocol_data,
        coordinator=coordinator,
        members=tuple(_member(member, group.protocol_type) for member in group.members),
        group_type=CLASSIC_TYPE,
    )


def _member(member: DescribedGroupMember, protocol_type: str) -> GroupMember:
    subscription: tuple[str, ...] = ()
    assignment: tuple[TopicAndPartition, ...] = ()
    if protocol_type == CONSUMER:
        try:
            if member.member_metadata:  # empty while the group has not chosen an assignor
                subscription = tuple(sorted(subscribed_topics(member.member_metadata)))
            assignment = tuple(sorted(decode_assignment(member.member_assignment).partitions))
        except RemoteProtocolError as error:
            log.warning("member %s has a format of its own: %s", member.member_id, error)
    return GroupMember(
        member_id=member.member_id,
        client_id=member.client_id,
        host=member.client_host.removeprefix("/"),
        instance_id=member.group_instance_id,
        subscription=subscription,
        assignment=assignment,
    )


def described_assigned_group(
    group: DescribedConsumerGroup | DescribedShareGroup, coordinator: BrokerNode
) -> GroupDescription:
    """Describe a group whose coordinator assigns partitions: a consumer group (KIP-848) or a share group."""
    is_share = isinstance(group, DescribedShareGroup)
    return GroupDescription(
        group_id=group.group_id,
        kind=GroupKind.KAFKA,
        state=group.group_state,
        protocol_type=SHARE_TYPE if is_share else CONSUMER,
        assignor=group.assignor_name,
        coordinator=coordinator,
        members=tuple(_assigned_member(member) for member in group.members),
        group_type=SHARE_TYPE if is_share else CONSUMER,
        epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
    )


def _assigned_member(member: DescribedConsumer | DescribedShareMember) -> GroupMember:
    of_consumer = member if isinstance(member, DescribedConsumer) else DescribedConsumer()
    pattern = (of_consumer.subscribed_topic_regex,) if of_consumer.subscribed_topic_regex else ()
    return GroupMember(
        member_id=member.member_id,
        client_id=member.client_id,
        host=member.client_host.removeprefix("/"),
        instance_id=of_consumer.instance_id,
        epoch=member.member_epoch,
        subscription=(*sorted(member.subscribed_topic_names), *pattern),
        assignment=_places(member.assignment),
        target=_places(of_consumer.target_assignment) if of_consumer is member else None,
        group_type=_MEMBER_TYPES.get(of_consumer.member_type, "") if of_consumer is member else SHARE_TYPE,
    )


def _places(assignment: MemberAssignment) -> tuple[TopicAndPartition, ...]:
    places = (
        TopicAndPartition(topic.topic_name, number)
        for topic in assignment.topic_partitions
        for number in topic.partitions
    )
    return tuple(sorted(places))
