"""Members of a consumer group that speak the classic protocol, as in a rolling upgrade (KIP-848).

A join is answered at once: no member has to wait for the others. The member's epoch is its generation.
Cooperative members give partitions up between two joins, eager members join without any; the subscription
in a join says which partitions the member still owns. A heartbeat makes a member join again
(REBALANCE_IN_PROGRESS) when its target has changed, or when the partitions that it waited for are free.
"""

from __future__ import annotations

from dataclasses import replace

from ottla.broker.coordination.effects import Caller
from ottla.broker.groups.coordinator.consumer_groups.group import ConsumerGroup, GroupDraft
from ottla.broker.groups.coordinator.consumer_groups.heartbeat import known_static, replace_member, unknown
from ottla.broker.groups.coordinator.consumer_groups.member import ConsumerMember, ReconcilingState
from ottla.broker.groups.coordinator.consumer_groups.records import (
    ClassicMemberValue,
    ClassicProtocolValue,
    TopicIdPartition,
)
from ottla.broker.groups.coordinator.consumer_groups.rules import GroupRules, RequestRefused
from ottla.broker.groups.coordinator.consumer_groups.subscribing import (
    assignment_wait_ms,
    reconcile,
    subscribe,
)
from ottla.broker.groups.coordinator.consumer_groups.topics import TopicsView
from ottla.model.error_codes import Code
from ottla.model.errors import RemoteProtocolError
from ottla.model.topic_partition import TopicAndPartition
from ottla.wire.api.heartbeat import HeartbeatRequest
from ottla.wire.api.join_group import JoinGroupRequest, JoinGroupResponse
from ottla.wire.api.sync_group import SyncGroupRequest, SyncGroupResponse
from ottla.wire.consumer_protocol import (
    CONSUMER,
    Assignment,
    Subscription,
    decode_subscription,
    encode_assignment,
)


def join(
    draft: GroupDraft, request: JoinGroupRequest, caller: Caller, rules: GroupRules
) -> JoinGroupResponse:
    """Decide a join with a member id, and return its answer. Raises RequestRefused."""
    group = draft.group
    subscription = _subscription(request)
    member = _joining_member(draft, request)
    rebalance_ms = request.rebalance_timeout_ms
    protocols = [ClassicProtocolValue(name=item.name, metadata=item.metadata) for item in request.protocols]
    member = replace(
        member,
        instance_id=request.group_instance_id or member.instance_id,
        rack_id=subscription.rack or member.rack_id,
        client_id=caller.client_id,
        client_host=caller.client_host,
        topics=tuple(sorted(set(subscription.topics))),
        regex="",
        rebalance_timeout_ms=request.session_timeout_ms if rebalance_ms < 0 else rebalance_ms,
        assignor=None,
        classic=ClassicMemberValue(session_timeout_ms=request.session_timeout_ms, protocols=protocols),
    )
    subscribe(draft, member, rules)
    owned = frozenset(_with_ids(subscription.owned, rules.topics))
    member = reconcile(draft, member.member_id, owned, rules)
    return JoinGroupResponse(
        generation_id=group.members[member.member_id].epoch,
        protocol_type=CONSUMER,
        protocol_name=protocols[0].name,
        member_id=member.member_id,
    )


def check_join(group: ConsumerGroup, request: JoinGroupRequest, rules: GroupRules) -> None:
    """Raise RequestRefused if a member cannot join the group with its protocols."""
    limit = rules.config.consumer_member_count_max
    if request.member_id not in group.members and len(group.members) >= limit:
        raise RequestRefused(Code.GROUP_MAX_SIZE_REACHED, "The consumer group is full.")
    others = [item for item in group.classic_members() if item.member_id != request.member_id]
    common = {item.name for item in request.protocols}
    for member in others:
        common &= {item.name for item in member.classic.protocols} if member.classic else common
    if request.protocol_type != CONSUMER or not common:
        raise RequestRefused(Code.INCONSISTENT_GROUP_PROTOCOL, "The member's protocols are not supported.")


def _subscription(request: JoinGroupRequest) -> Subscription:
    try:
        return decode_subscription(request.protocols[0].metadata)
    except RemoteProtocolError as error:
        raise RequestRefused(Code.INCONSISTENT_GROUP_PROTOCOL, str(error)) from error


def _joining_member(draft: GroupDraft, request: JoinGroupRequest) -> ConsumerMember:
    group, member_id, instance_id = draft.group, request.member_id, request.group_instance_id
    if instance_id is None:
        return group.members.get(member_id, ConsumerMember(member_id))
    static = group.static_member(instance_id)
    if static is None:
        return ConsumerMember(member_id)
    return static if static.member_id == member_id else replace_member(draft, static, member_id)


def known(
    group: ConsumerGroup, member_id: str, instance_id: str | None
) -> tuple[ConsumerMember, ClassicMemberValue]:
    """Return the classic member that sent a request, and its stored join. Raises RequestRefused."""
    member = group.members.get(member_id)
    if instance_id is not None:
        member = known_static(group.static_member(instance_id), member_id, instance_id)
    if member is None:
        raise unknown(member_id, group.group_id)
    if member.classic is None:
        text = f"Member {member_id} does not use the classic protocol."
        raise RequestRefused(Code.UNKNOWN_MEMBER_ID, text)
    return member, member.classic


def _check_generation(member: ConsumerMember, generation: int) -> None:
    if generation != member.epoch:
        text = f"The request generation id {generation} is not equal to the member epoch {member.epoch}."
        raise RequestRefused(Code.ILLEGAL_GENERATION, text)


def sync(group: ConsumerGroup, request: SyncGroupRequest, rules: GroupRules) -> SyncGroupResponse:
    """Return the assignment of a classic member. Raises RequestRefused."""
    member, classic = known(group, request.member_id, request.group_instance_id)
    _check_generation(member, request.generation_id)
    first = classic.protocols[0]
    if request.protocol_type not in (None, CONSUMER) or request.protocol_name not in (None, first.name):
        raise RequestRefused(
            Code.INCONSISTENT_GROUP_PROTOCOL, "The protocol is not that of the join's answer."
        )
    if group.assignment_epoch > member.epoch and member.state is not ReconcilingState.UNREVOKED_PARTITIONS:
        raise RequestRefused(Code.REBALANCE_IN_PROGRESS, "The member must join again.")
    return SyncGroupResponse(
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignment=assignment_bytes(member, first.metadata, rules.topics),
    )


def assignment_bytes(member: ConsumerMember, metadata: bytes, topics: TopicsView) -> bytes:
    """Return a member's assignment, encoded in the version of its subscription."""
    named = sorted(
        TopicAndPartition(topic.name, number)
        for topic_id, number in member.assigned
        if (topic := topics.by_id(topic_id)) is not None
    )
    version = max(int.from_bytes(metadata[:2], signed=True), 0)
    return encode_assignment(Assignment(tuple(named)), min(version, 3))


def must_rejoin(group: ConsumerGroup, request: HeartbeatRequest, rules: GroupRules) -> bool:
    """Whether the answer to a classic member's heartbeat is that it must join again. Raises RequestRefused.

    It must join again also if the group lacks a target assignment that the join can make.
    """
    member, _ = known(group, request.member_id, request.group_instance_id)
    _check_generation(member, request.generation_id)
    is_target_due = group.epoch > group.assignment_epoch and not assignment_wait_ms(group, rules)
    is_behind = member.epoch < group.assignment_epoch
    if is_target_due or is_behind or member.state is ReconcilingState.UNREVOKED_PARTITIONS:
        return True
    if member.state is ReconcilingState.STABLE:
        return False
    missing = group.target(member.member_id) - member.assigned.keys()
    return missing != group.taken(missing, member.member_id)


def _with_ids(partitions: tuple[TopicAndPartition, ...], topics: TopicsView) -> list[TopicIdPartition]:
    return [
        (topic.topic_id, item.partition)
        for item in partitions
        if (topic := topics.by_name(item.topic)) is not None
    ]
