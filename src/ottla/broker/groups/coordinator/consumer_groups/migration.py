"""A group changes its kind while it is in use: classic to consumer, and back.

The first member that speaks the consumer protocol makes a classic group a consumer group, and the last one
that leaves makes it classic again. The members that stay keep their ids, their partitions and, as their
epoch, their generation; `group.consumer.migration.policy` says which way is allowed. One append deletes
the old kind and stores the new one, so that a crash leaves exactly one of them.
"""

from __future__ import annotations

from collections import Counter

from ottla.broker.coordination.effects import Record
from ottla.broker.groups.coordinator.consumer_groups.classic_members import assignment_bytes
from ottla.broker.groups.coordinator.consumer_groups.group import ConsumerGroup, GroupDraft
from ottla.broker.groups.coordinator.consumer_groups.member import ConsumerMember, ReconcilingState
from ottla.broker.groups.coordinator.consumer_groups.records import (
    ClassicMemberValue,
    ClassicProtocolValue,
    TopicIdPartition,
)
from ottla.broker.groups.coordinator.consumer_groups.rules import GroupRules, RequestRefused
from ottla.broker.groups.coordinator.consumer_groups.topics import TopicsView
from ottla.broker.groups.coordinator.group import CoordinatedGroup, CoordinatorMember
from ottla.broker.groups.coordinator.records import GroupValue, MemberValue, group_record, group_tombstone
from ottla.broker.groups.coordinator.state import GroupState
from ottla.broker.settings.group_config import MigrationPolicy
from ottla.model.error_codes import Code
from ottla.model.errors import RemoteProtocolError
from ottla.wire.consumer_protocol import CONSUMER, decode_assignment, decode_subscription

_UPGRADES = (MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.UPGRADE)
_DOWNGRADES = (MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.DOWNGRADE)


def upgraded(classic: CoordinatedGroup, rules: GroupRules) -> GroupDraft:
    """Return the consumer group that a classic group becomes. Raises RequestRefused if it cannot become one.

    The first record deletes the classic group.
    """
    draft = GroupDraft(ConsumerGroup(classic.group_id))
    draft.records.append(group_tombstone(classic.group_id))
    if classic.state is GroupState.EMPTY:
        return draft
    refused = RequestRefused(Code.GROUP_ID_NOT_FOUND, f"Group {classic.group_id} is not a consumer group.")
    is_too_large = len(classic.members) > rules.config.consumer_member_count_max
    if rules.config.migration_policy not in _UPGRADES or classic.protocol_type != CONSUMER or is_too_large:
        raise refused
    try:
        members = [_upgraded_member(classic, member, rules.topics) for member in classic.members.values()]
    except RemoteProtocolError as error:
        raise refused from error
    for member in members:
        draft.put_member(member)
    draft.put_epoch(classic.generation, 0)
    targets = {member.member_id: frozenset(member.assigned) for member in members}
    draft.put_targets(targets, classic.generation, 0)
    for member in members:
        draft.put_current(member)
    return draft


def _upgraded_member(
    classic: CoordinatedGroup, member: CoordinatorMember, topics: TopicsView
) -> ConsumerMember:
    """Return a classic member as a member of a consumer group. Raises RemoteProtocolError.

    A member without a generation has no metadata for the group's protocol: its first protocol is used.
    """
    metadata = member.protocols.get(classic.protocol_name or "") or next(iter(member.protocols.values()))
    subscription = decode_subscription(metadata)
    assignment = decode_assignment(member.assignment)
    if assignment.user_data:
        raise RemoteProtocolError("the leader's own assignor has written data that would be lost")
    assigned: dict[TopicIdPartition, int] = {
        (topic.topic_id, item.partition): classic.generation
        for item in assignment.partitions
        if (topic := topics.by_name(item.topic)) is not None
    }
    protocols = [
        ClassicProtocolValue(name=name, metadata=offered) for name, offered in member.protocols.items()
    ]
    return ConsumerMember(
        member.member_id,
        instance_id=member.instance_id,
        rack_id=subscription.rack,
        client_id=member.client_id,
        client_host=member.client_host,
        topics=tuple(sorted(set(subscription.topics))),
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        classic=ClassicMemberValue(session_timeout_ms=member.session_timeout_ms, protocols=protocols),
        epoch=classic.generation,
        previous_epoch=classic.generation,
        state=ReconcilingState.STABLE,
        assigned=assigned,
    )


def may_downgrade(group: ConsumerGroup, without: str, rules: GroupRules) -> bool:
    """Whether a group can become classic when the member `without` has left."""
    others = [member for member in group.members.values() if member.member_id != without]
    all_classic = bool(others) and all(member.classic is not None for member in others)
    is_allowed = rules.config.migration_policy in _DOWNGRADES
    return all_classic and is_allowed and len(others) <= rules.config.member_count_max


def downgraded(group: ConsumerGroup, without: str, rules: GroupRules) -> list[Record]:
    """Return the records that make a group classic, with all members except `without`.

    The classic group has no leader. So a coordinator that loads it knows that the members have to join again:
    no member has the partitions of the member that left.
    """
    draft = group.draft()
    draft.remove_group()
    members = [member for member in group.members.values() if member.member_id != without]
    protocol = _common_protocol(members)
    stored = GroupValue(
        protocol_type=CONSUMER,
        generation=group.epoch,
        protocol=protocol,
        leader=None,
        current_state_timestamp=rules.now_ms,
        members=[_downgraded_member(member, protocol, rules.topics) for member in members],
    )
    return [*draft.records, group_record(group.group_id, stored)]


def _common_protocol(members: list[ConsumerMember]) -> str:
    """Return the protocol that most classic members prefer, among those that all of them support."""
    offers = [[item.name for item in member.classic.protocols] for member in members if member.classic]
    common = set.intersection(*map(set, offers))
    return Counter(next(name for name in names if name in common) for names in offers).most_common(1)[0][0]


def _downgraded_member(member: ConsumerMember, protocol: str, topics: TopicsView) -> MemberValue:
    assert member.classic is not None
    metadata = next(item.metadata for item in member.classic.protocols if item.name == protocol)
    return MemberValue(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout=member.rebalance_timeout_ms,
        session_timeout=member.classic.session_timeout_ms,
        subscription=metadata,
        assignment=assignment_bytes(member, metadata, topics),
    )
