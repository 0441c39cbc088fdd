"""ConsumerGroupHeartbeat: a member joins, stays and reports its partitions, or leaves.

The epoch in the request says which: 0 joins, -1 leaves, -2 is a static member that will be back. Any other
epoch must be the present one of the member; a member with an older or newer epoch is fenced
(FENCED_MEMBER_EPOCH): it gives up all its partitions and joins again. Only the previous epoch is still
accepted, since the answer with the new epoch may be lost. A member gets a new epoch only when it has nothing
to give up, so it still owns what it had in the previous epoch and need not list it. Kafka fences a member
that does not list it.

A member gets its next assignment only after it has confirmed the last one by reporting what it owns.
Otherwise it may get a partition and lose it again while its application is busy: librdkafka sees no change
then and reports nothing, and the group would wait for it until the rebalance timeout, as it does with Kafka.
Until the confirmation every answer repeats the assignment: librdkafka drops an answer that takes longer than
a heartbeat interval, and does not report that it missed one. In Kafka the group waits for such a member until
the rebalance timeout, which is five minutes.

Each answer says when the next heartbeat is due. It is due sooner for a member that waits for partitions of
others or for the topics of its expression, and for all members when the group may get its next target
assignment: members often join together. Kafka's members wait for a whole interval. Each member has its own
time slot, so that a large group does not send all its heartbeats at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import replace
from zlib import crc32

from ottla.broker.coordination.effects import Caller
from ottla.broker.groups.coordinator.consumer_groups.assignors import ASSIGNORS
from ottla.broker.groups.coordinator.consumer_groups.group import ConsumerGroup, GroupDraft
from ottla.broker.groups.coordinator.consumer_groups.member import (
    JOINING_EPOCH,
    LEAVING_EPOCH,
    STATIC_LEAVING_EPOCH,
    ConsumerMember,
    ReconcilingState,
)
from ottla.broker.groups.coordinator.consumer_groups.records import (
    TARGET_MEMBER,
    TopicIdPartition,
    target_value,
)
from ottla.broker.groups.coordinator.consumer_groups.rules import GroupRules, RequestRefused
from ottla.broker.groups.coordinator.consumer_groups.subscribing import (
    assignment_wait_ms,
    reconcile,
    subscribe,
)
from ottla.model.error_codes import Code
from ottla.wire.api.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    HeartbeatAssignment,
    HeartbeatTopicPartitions,
)

WAITING_BEATS, WAITING_MS_MIN = 5, 100
"""A waiting member sends this many heartbeats in an interval, with at least this many ms between two."""
APART_MS = 1
"""The time between the heartbeats of two members, if all of them fit into half an interval."""
EARLY_MS_MAX = 20
"""How much before its time slot a heartbeat may come and stay there."""
PATIENCE_MS = 30_000
"""How long a member may leave an assignment unconfirmed before it gets the next one all the same."""
_OWN_ID_SINCE = 1
_NO_TIMEOUT = -1


def check(request: ConsumerGroupHeartbeatRequest, version: int) -> None:
    """Raise RequestRefused if a request is wrong in itself, whatever the state of the group."""
    for name, text in (
        ("GroupId", request.group_id),
        ("InstanceId", request.instance_id),
        ("RackId", request.rack_id),
    ):
        if text is not None and not text.strip():
            raise RequestRefused(Code.INVALID_REQUEST, f"{name} can't be empty.")
    if (version >= _OWN_ID_SINCE or request.member_epoch != JOINING_EPOCH) and not request.member_id.strip():
        raise RequestRefused(Code.INVALID_REQUEST, "MemberId can't be empty.")
    if request.member_epoch == JOINING_EPOCH:
        _check_join(request)
    elif request.member_epoch == STATIC_LEAVING_EPOCH and request.instance_id is None:
        raise RequestRefused(Code.INVALID_REQUEST, "InstanceId can't be null.")
    elif request.member_epoch < STATIC_LEAVING_EPOCH:
        raise RequestRefused(Code.INVALID_REQUEST, f"MemberEpoch is invalid: {request.member_epoch}.")
    if request.server_assignor is not None and request.server_assignor not in ASSIGNORS:
        known = ", ".join(ASSIGNORS)
        text = f"ServerAssignor {request.server_assignor} is not supported. Supported assignors: {known}."
        raise RequestRefused(Code.UNSUPPORTED_ASSIGNOR, text)


def _check_join(request: ConsumerGroupHeartbeatRequest) -> None:
    if request.rebalance_timeout_ms == _NO_TIMEOUT:
        raise RequestRefused(Code.INVALID_REQUEST, "RebalanceTimeoutMs must be provided in first request.")
    if request.topic_partitions is None or request.topic_partitions:
        raise RequestRefused(Code.INVALID_REQUEST, "TopicPartitions must be empty when (re-)joining.")
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        text = "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
        raise RequestRefused(Code.INVALID_REQUEST, text)


def heartbeat(
    draft: GroupDraft, request: ConsumerGroupHeartbeatRequest, caller: Caller, rules: GroupRules
) -> ConsumerGroupHeartbeatResponse:
    """Decide a heartbeat of a member that stays, and return its answer. Raises RequestRefused."""
    owned = _owned(request.topic_partitions)
    member = _member(draft, request, owned, rules)
    had = member.assigned.keys()
    has_missed_answer = owned is None and request.member_epoch != member.epoch
    subscribe(draft, _updated(member, request, caller), rules)
    member = draft.group.members[member.member_id]
    if owned is not None or (not has_missed_answer and _has_waited(draft.group, member, rules)):
        draft.group.unconfirmed.pop(member.member_id, None)
        member = reconcile(draft, member.member_id, owned, rules)
    if member.assigned.keys() != had or (owned is not None and owned != member.assigned.keys()):
        draft.group.unconfirmed[member.member_id] = rules.now_ms
    response = ConsumerGroupHeartbeatResponse(
        member_id=member.member_id,
        member_epoch=member.epoch,
        heartbeat_interval_ms=_interval_ms(draft.group, member, rules),
    )
    is_unconfirmed = member.member_id in draft.group.unconfirmed
    if _is_full(request) or has_missed_answer or is_unconfirmed:
        response.assignment = HeartbeatAssignment(
            topic_partitions=[
                HeartbeatTopicPartitions(topic_id=row.topic_id, partitions=row.partitions)
                for row in target_value(member.assigned).topic_partitions
            ]
        )
    return response


def _has_waited(group: ConsumerGroup, member: ConsumerMember, rules: GroupRules) -> bool:
    """Whether a member that has not confirmed its assignment may get another one."""
    given_ms = group.unconfirmed.get(member.member_id)
    return given_ms is None or rules.now_ms - given_ms >= PATIENCE_MS


def _interval_ms(group: ConsumerGroup, member: ConsumerMember, rules: GroupRules) -> int:
    """Return the time until the next heartbeat of a member."""
    interval_ms = rules.heartbeat_interval_ms
    stretch_ms = _stretch_ms(len(group.members), interval_ms)
    slot_ms = crc32(member.member_id.encode()) % stretch_ms
    called_ms = assignment_wait_ms(group, rules)
    wait_ms = called_ms + slot_ms if called_ms else interval_ms - _late_ms(rules.now_ms, slot_ms, stretch_ms)
    has_to_resolve = bool(member.regex) and member.regex not in group.resolved
    if has_to_resolve or member.state is ReconcilingState.UNRELEASED_PARTITIONS:
        wait_ms = min(wait_ms, interval_ms // WAITING_BEATS)
    return min(interval_ms, max(wait_ms, WAITING_MS_MIN))


def _late_ms(now_ms: int, slot_ms: int, stretch_ms: int) -> int:
    """Return how long after its time slot a heartbeat comes; 0 for one that is a little early.

    Clients count an interval from when they send, and not all heartbeats take the same time. To call one that
    is early for the slot before would be half an interval too soon.
    """
    late_ms = (now_ms - slot_ms) % stretch_ms
    is_early = stretch_ms - late_ms <= min(EARLY_MS_MAX, stretch_ms // 8)
    return 0 if is_early else late_ms


def _stretch_ms(members: int, interval_ms: int) -> int:
    """Return the part of the interval in which the time slots of all members lie."""
    wanted_ms = max(min((members - 1) * APART_MS, interval_ms // 2), 1)
    return interval_ms // (interval_ms // wanted_ms)


def _is_full(request: ConsumerGroupHeartbeatRequest) -> bool:
    """Whether a request has all fields, as when a member joins and after every error."""
    if request.member_epoch == JOINING_EPOCH:
        return True
    names, pattern = request.subscribed_topic_names, request.subscribed_topic_regex
    is_subscribing = names is not None or pattern is not None
    has_timeout = request.rebalance_timeout_ms != _NO_TIMEOUT
    return is_subscribing and has_timeout and request.topic_partitions is not None


def _owned(rows: Iterable[HeartbeatTopicPartitions] | None) -> frozenset[TopicIdPartition] | None:
    if rows is None:
        return None
    return frozenset((row.topic_id, number) for row in rows for number in row.partitions)


def _updated(
    member: ConsumerMember, request: ConsumerGroupHeartbeatRequest, caller: Caller
) -> ConsumerMember:
    """Return the member with the fields that a request sets; the others stay as they are."""
    names, pattern = request.subscribed_topic_names, request.subscribed_topic_regex
    is_timed = request.rebalance_timeout_ms != _NO_TIMEOUT
    return replace(
        member,
        instance_id=request.instance_id or member.instance_id,
        rack_id=request.rack_id or member.rack_id,
        client_id=caller.client_id,
        client_host=caller.client_host,
        topics=member.topics if names is None else tuple(sorted(set(names))),
        regex=member.regex if pattern is None else pattern,
        rebalance_timeout_ms=request.rebalance_timeout_ms if is_timed else member.rebalance_timeout_ms,
        assignor=request.server_assignor or member.assignor,
        classic=None,
    )


def _member(
    draft: GroupDraft,
    request: ConsumerGroupHeartbeatRequest,
    owned: Set[TopicIdPartition] | None,
    rules: GroupRules,
) -> ConsumerMember:
    """Return the member that sent a request: a known one, or a new one. Raises RequestRefused."""
    group, member_id, joins = draft.group, request.member_id, request.member_epoch == JOINING_EPOCH
    static = group.static_member(request.instance_id)
    if joins and request.instance_id is not None and static is not None:
        return _returned(draft, static, member_id)
    member = group.members.get(member_id)
    if member is None and joins:
        count = rules.config.consumer_member_count_max
        if len(group.members) >= count:
            text = f"The consumer group has reached its maximum capacity of {count} members."
            raise RequestRefused(Code.GROUP_MAX_SIZE_REACHED, text)
        return ConsumerMember(member_id)
    if request.instance_id is not None:
        member = known_static(static, member_id, request.instance_id)
    if member is None:
        raise unknown(member_id, group.group_id)
    _check_epoch(member, request.member_epoch, owned)
    return member


def known_static(static: ConsumerMember | None, member_id: str, instance_id: str) -> ConsumerMember:
    """Return the member of an instance if `member_id` is its own. Raises RequestRefused."""
    if static is None:
        raise RequestRefused(Code.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if static.member_id != member_id:
        text = f"Static member {member_id} with instance id {instance_id} was fenced by member"
        raise RequestRefused(Code.FENCED_INSTANCE_ID, f"{text} {static.member_id}.")
    return static


def unknown(member_id: str, group_id: str) -> RequestRefused:
    """Return the error for a member that is not in the group."""
    return RequestRefused(Code.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group_id}.")


def _returned(draft: GroupDraft, static: ConsumerMember, member_id: str) -> ConsumerMember:
    """Return the new member of a static instance that comes back, with the assignment of the former member.

    Raises RequestRefused if the former member has not left, unless it is a classic one, which never says so.
    """
    if static.member_id == member_id:
        return static
    if static.classic is None and static.epoch != STATIC_LEAVING_EPOCH:
        text = (
            f"Static member {member_id} with instance id {static.instance_id} cannot join the group because"
        )
        raise RequestRefused(
            Code.UNRELEASED_INSTANCE_ID, f"{text} the instance id is owned by member {static.member_id}."
        )
    return replace_member(draft, static, member_id)


def replace_member(draft: GroupDraft, former: ConsumerMember, member_id: str) -> ConsumerMember:
    """Give the state of a static member to its new member id, and return the new member."""
    target = draft.group.target(former.member_id)
    member = replace(former, member_id=member_id, epoch=JOINING_EPOCH, previous_epoch=JOINING_EPOCH)
    draft.remove_member(former.member_id)
    draft.put_member(member)
    draft.write(TARGET_MEMBER, member_id, target_value(target))
    draft.put_current(member)
    return draft.group.members[member_id]


def _check_epoch(member: ConsumerMember, epoch: int, owned: Set[TopicIdPartition] | None) -> None:
    """Raise RequestRefused unless the epoch is 0 (a join), the member's present one, or its previous one."""
    if epoch in (JOINING_EPOCH, member.epoch):
        return
    is_repeat = epoch == member.previous_epoch and (owned is None or owned <= member.assigned.keys())
    if epoch > member.epoch or not is_repeat:
        text = f"The consumer group member has a {'greater' if epoch > member.epoch else 'smaller'} member"
        raise RequestRefused(
            Code.FENCED_MEMBER_EPOCH,
            f"{text} epoch ({epoch}) than the one known by the group coordinator ({member.epoch})."
            " The member must abandon all its partitions and rejoin.",
        )


def leaving_member(group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest) -> ConsumerMember:
    """Return the member that a request with a negative epoch is about. Raises RequestRefused."""
    if request.instance_id is not None:
        static = group.static_member(request.instance_id)
        return known_static(static, request.member_id, request.instance_id)
    member = group.members.get(request.member_id)
    if member is None:
        raise unknown(request.member_id, group.group_id)
    return member


def pause(draft: GroupDraft, member: ConsumerMember) -> None:
    """Note that a static member will be back: it keeps its partitions until its session ends."""
    draft.put_current(replace(member, epoch=STATIC_LEAVING_EPOCH, revoking={}))


def left(request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
    """Return the answer to a member that leaves."""
    is_static = request.member_epoch == STATIC_LEAVING_EPOCH
    epoch = STATIC_LEAVING_EPOCH if is_static else LEAVING_EPOCH
    return ConsumerGroupHeartbeatResponse(member_id=request.member_id, member_epoch=epoch)
