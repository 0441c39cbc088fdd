"""SyncGroup, Heartbeat and LeaveGroup: the requests of members after their join."""

from __future__ import annotations

from ottla.broker.coordination.effects import Caller
from ottla.broker.groups.coordinator import joining
from ottla.broker.groups.coordinator.decision import CoordinatorStep
from ottla.broker.groups.coordinator.group import CoordinatedGroup, answer_join, answer_sync
from ottla.broker.groups.coordinator.rebalance import assign, membership_changed, sync_seen
from ottla.broker.groups.coordinator.state import GroupEvent, GroupState
from ottla.model.error_codes import Code
from ottla.wire.api.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.api.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    LeavingMember,
    LeavingMemberResponse,
)
from ottla.wire.api.sync_group import SyncGroupRequest, SyncGroupResponse

_BATCHED_LEAVE_SINCE = 3


def sync(group: CoordinatedGroup, request: SyncGroupRequest, caller: Caller, step: CoordinatorStep) -> None:
    """Decide a request of a member for its assignment; the leader's request has all assignments."""
    error = _sync_error(group, request)
    if error:
        step.reply(caller, SyncGroupResponse(error_code=error))
        return
    member = group.members[request.member_id]
    sync_seen(group, member.member_id)
    if group.state is GroupState.STABLE:
        step.reply(caller, group.synced(member))
        return
    # An earlier request of the same member was given up by its client.
    answer_sync(member, step, SyncGroupResponse(error_code=Code.REBALANCE_IN_PROGRESS))
    member.syncing = caller
    if group.leader == member.member_id:
        assign(group, request, step)


def _sync_error(group: CoordinatedGroup, request: SyncGroupRequest) -> Code:
    error = group.member_error(request.member_id, request.group_instance_id)
    if error:
        return error
    if request.generation_id != group.generation:
        return Code.ILLEGAL_GENERATION
    if _differs(request.protocol_type, group.protocol_type):
        return Code.INCONSISTENT_GROUP_PROTOCOL
    if _differs(request.protocol_name, group.protocol_name):
        return Code.INCONSISTENT_GROUP_PROTOCOL
    preparing = group.state is GroupState.PREPARING_REBALANCE
    return Code.REBALANCE_IN_PROGRESS if preparing else Code.NONE


def _differs(sent: str | None, known: str | None) -> bool:
    """Whether two names differ. A name that is not sent, as before version 5, does not differ."""
    return sent is not None and known is not None and sent != known


def heartbeat(
    group: CoordinatedGroup, request: HeartbeatRequest, caller: Caller, step: CoordinatorStep
) -> None:
    """Prolong a member's session, and answer whether it has to join again. In the sync phase it need not."""
    error = group.member_error(request.member_id, request.group_instance_id)
    if not error and request.generation_id != group.generation:
        error = Code.ILLEGAL_GENERATION
    if not error:
        group.start_session(group.members[request.member_id], step)
        if group.state is GroupState.PREPARING_REBALANCE:
            error = Code.REBALANCE_IN_PROGRESS
    step.reply(caller, HeartbeatResponse(error_code=error))


def leave(
    group: CoordinatedGroup | None, request: LeaveGroupRequest, caller: Caller, step: CoordinatorStep
) -> None:
    """Remove members; the others rebalance once for all of them. Members of a missing group are unknown."""
    batched = caller.version >= _BATCHED_LEAVE_SINCE
    leaving = request.members if batched else [LeavingMember(member_id=request.member_id)]
    count_before = len(group.members) if group else 0
    results = [
        LeavingMemberResponse(
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            error_code=Code.UNKNOWN_MEMBER_ID if group is None else _remove_leaving(group, member, step),
        )
        for member in leaving
    ]
    # The removal of a pending id changes nothing, unless a join phase was waiting for it.
    if group and (len(group.members) < count_before or group.state is GroupState.PREPARING_REBALANCE):
        membership_changed(group, step)
    if batched:
        step.reply(caller, LeaveGroupResponse(members=results))
    else:
        step.reply(caller, LeaveGroupResponse(error_code=results[0].error_code))


def _remove_leaving(group: CoordinatedGroup, leaving: LeavingMember, step: CoordinatorStep) -> Code:
    member_id = leaving.member_id
    if not member_id and leaving.group_instance_id is not None:
        # An administrator removes an instance without knowing its present member id.
        member = group.static_member(leaving.group_instance_id)
        if member is None:
            return Code.UNKNOWN_MEMBER_ID
        member_id = member.member_id
    elif member_id not in group.pending_joins:
        error = group.member_error(member_id, leaving.group_instance_id)
        if error:
            return error
    group.remove(member_id, step)
    return Code.NONE


def dismiss(group: CoordinatedGroup, error: Code, step: CoordinatorStep) -> None:
    """Answer all parked requests of a group with an error, because the group ends here."""
    for member in group.members.values():
        answer_join(member, step, joining.refused(error, member.member_id))
        answer_sync(member, step, SyncGroupResponse(error_code=error))
    for caller, _ in group.deferred:
        step.reply(caller, joining.refused(error))
    group.deferred.clear()
    group.move(GroupEvent.REMOVED, step.now_ms)
