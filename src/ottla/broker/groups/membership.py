"""SyncGroup, Heartbeat and LeaveGroup: what members say once they are in."""

from __future__ import annotations

from ottla.broker.groups import joining
from ottla.broker.groups.decision import Caller, Turn
from ottla.broker.groups.group import Group, answer_join, answer_sync
from ottla.broker.groups.rebalance import assign, membership_changed, sync_seen
from ottla.broker.groups.state import GroupEvent, GroupState
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


def sync(group: Group, request: SyncGroupRequest, caller: Caller, turn: Turn) -> None:
    """A member asks for its assignment; the leader brings everybody's."""
    error = _sync_error(group, request)
    if error:
        turn.reply(caller, SyncGroupResponse(error_code=error))
        return
    member = group.members[request.member_id]
    sync_seen(group, member.member_id)
    if group.state is GroupState.STABLE:
        turn.reply(caller, group.synced(member))
        return
    # An earlier request of the same member was given up by its client.
    answer_sync(member, turn, SyncGroupResponse(error_code=Code.REBALANCE_IN_PROGRESS))
    member.syncing = caller
    if group.leader == member.member_id:
        assign(group, request, turn)


def _sync_error(group: Group, request: SyncGroupRequest) -> Code:
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


def _differs(said: str | None, known: str | None) -> bool:
    """Versions before 5 say nothing, which is no contradiction."""
    return said is not None and known is not None and said != known


def heartbeat(group: Group, request: HeartbeatRequest, caller: Caller, turn: Turn) -> None:
    """A member lives, and learns whether it has to join again. In the sync phase it need not know yet."""
    error = group.member_error(request.member_id, request.group_instance_id)
    if not error and request.generation_id != group.generation:
        error = Code.ILLEGAL_GENERATION
    if not error:
        group.start_session(group.members[request.member_id], turn)
        if group.state is GroupState.PREPARING_REBALANCE:
            error = Code.REBALANCE_IN_PROGRESS
    turn.reply(caller, HeartbeatResponse(error_code=error))


def leave(group: Group | None, request: LeaveGroupRequest, caller: Caller, turn: Turn) -> None:
    """Members go; the rest rebalances once for all of them. Every member of a missing group is unknown."""
    batched = caller.version >= _BATCHED_LEAVE_SINCE
    leaving = request.members if batched else [LeavingMember(member_id=request.member_id)]
    count_before = len(group.members) if group else 0
    results = [
        LeavingMemberResponse(
            member_id=one.member_id,
            group_instance_id=one.group_instance_id,
            error_code=Code.UNKNOWN_MEMBER_ID if group is None else _leave_one(group, one, turn),
        )
        for one in leaving
    ]
    # A pending id that goes changes nothing, unless a join phase was waiting for it.
    if group and (len(group.members) < count_before or group.state is GroupState.PREPARING_REBALANCE):
        membership_changed(group, turn)
    if batched:
        turn.reply(caller, LeaveGroupResponse(members=results))
    else:
        turn.reply(caller, LeaveGroupResponse(error_code=results[0].error_code))


def _leave_one(group: Group, leaving: LeavingMember, turn: Turn) -> Code:
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
    group.remove(member_id, turn)
    return Code.NONE


def dismiss(group: Group, turn: Turn) -> None:
    """Send everybody who waits in a group to its new coordinator."""
    for member in group.members.values():
        answer_join(member, turn, joining.refused(Code.NOT_COORDINATOR, member.member_id))
        answer_sync(member, turn, SyncGroupResponse(error_code=Code.NOT_COORDINATOR))
    for caller, _ in group.deferred:
        turn.reply(caller, joining.refused(Code.NOT_COORDINATOR))
    group.deferred.clear()
    group.move(GroupEvent.REMOVED, turn.now_ms)
