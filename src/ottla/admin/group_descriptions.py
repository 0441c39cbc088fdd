"""What coordinators tell of groups, as values: of groups that assign among themselves, and of KIP-848's."""

from __future__ import annotations

import logging

from ottla.admin.group_values import GroupDescription, GroupKind, GroupMember
from ottla.admin.member_protocol import CONSUMER, decode_assignment, decode_subscription
from ottla.model.cluster_view import BrokerNode
from ottla.model.errors import RemoteProtocolError
from ottla.model.topic_partition import TopicAndPartition
from ottla.wire.api.consumer_group_describe import DescribedConsumer, DescribedConsumerGroup
from ottla.wire.api.describe_groups import DescribedGroup, DescribedGroupMember

log = logging.getLogger(__name__)


def described_group(told: DescribedGroup, coordinator: BrokerNode) -> GroupDescription:
    """Of an answer to DescribeGroups, in which members are bytes of their own making."""
    return GroupDescription(
        group_id=told.group_id,
        kind=GroupKind.KAFKA,
        state=told.group_state,
        protocol_type=told.protocol_type,
        assignor=told.protocol_data,
        coordinator=coordinator,
        members=tuple(_member(one, told.protocol_type) for one in told.members),
    )


def _member(told: DescribedGroupMember, protocol_type: str) -> GroupMember:
    subscription: tuple[str, ...] = ()
    assignment: tuple[TopicAndPartition, ...] = ()
    if protocol_type == CONSUMER:
        try:
            subscription = decode_subscription(told.member_metadata)
            assignment = decode_assignment(told.member_assignment)
        except RemoteProtocolError as error:
            log.warning("member %s has a format of its own: %s", told.member_id, error)
    return GroupMember(
        member_id=told.member_id,
        client_id=told.client_id,
        host=told.client_host.removeprefix("/"),
        instance_id=told.group_instance_id,
        subscription=subscription,
        assignment=assignment,
    )


def described_consumer_group(told: DescribedConsumerGroup, coordinator: BrokerNode) -> GroupDescription:
    """Of an answer to ConsumerGroupDescribe, in which the coordinator assigns and knows everything."""
    return GroupDescription(
        group_id=told.group_id,
        kind=GroupKind.KAFKA,
        state=told.group_state,
        protocol_type=CONSUMER,
        assignor=told.assignor_name,
        coordinator=coordinator,
        members=tuple(_consumer(one) for one in told.members),
    )


def _consumer(told: DescribedConsumer) -> GroupMember:
    pattern = (told.subscribed_topic_regex,) if told.subscribed_topic_regex else ()
    return GroupMember(
        member_id=told.member_id,
        client_id=told.client_id,
        host=told.client_host.removeprefix("/"),
        instance_id=told.instance_id,
        subscription=(*sorted(told.subscribed_topic_names), *pattern),
        assignment=tuple(
            sorted(
                TopicAndPartition(topic.topic_name, number)
                for topic in told.assignment.topic_partitions
                for number in topic.partitions
            )
        ),
    )
