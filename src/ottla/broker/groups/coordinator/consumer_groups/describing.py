"""ConsumerGroupDescribe: state, epochs and members of consumer groups."""

from __future__ import annotations

from collections.abc import Iterable

from ottla.broker.groups.coordinator.consumer_groups.group import ConsumerGroup
from ottla.broker.groups.coordinator.consumer_groups.member import ConsumerMember
from ottla.broker.groups.coordinator.consumer_groups.records import TopicIdPartition, target_value
from ottla.broker.groups.coordinator.consumer_groups.topics import TopicsView
from ottla.model.error_codes import Code
from ottla.wire.api.consumer_group_describe import (
    DescribedConsumer,
    DescribedConsumerGroup,
    MemberAssignment,
    MemberTopicPartitions,
)

_CLASSIC, _CONSUMER = 0, 1


def described(group: ConsumerGroup, default_assignor: str, topics: TopicsView) -> DescribedConsumerGroup:
    """Return the description of a group for tools."""
    return DescribedConsumerGroup(
        group_id=group.group_id,
        group_state=group.state,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.assignor(default_assignor),
        members=[_member(group, member, topics) for member in group.members.values()],
    )


def not_described(group_id: str, code: Code, text: str | None = None) -> DescribedConsumerGroup:
    """Return the answer about a group that is not described because of an error."""
    return DescribedConsumerGroup(
        group_id=group_id, error_code=code, error_message=text or code.text, group_state="Dead"
    )


def _member(group: ConsumerGroup, member: ConsumerMember, topics: TopicsView) -> DescribedConsumer:
    return DescribedConsumer(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.topics),
        subscribed_topic_regex=member.regex or None,
        # What it has to give up is its own until it has done so.
        assignment=_partitions([*member.assigned, *member.revoking], topics),
        target_assignment=_partitions(group.target(member.member_id), topics),
        member_type=_CONSUMER if member.classic is None else _CLASSIC,
    )


def _partitions(partitions: Iterable[TopicIdPartition], topics: TopicsView) -> MemberAssignment:
    """Return partitions with the names of their topics; those of deleted topics are left out."""
    rows = target_value(partitions).topic_partitions
    return MemberAssignment(
        topic_partitions=[
            MemberTopicPartitions(topic_id=row.topic_id, topic_name=topic.name, partitions=row.partitions)
            for row in rows
            if (topic := topics.by_id(row.topic_id)) is not None
        ]
    )
