"""JoinGroup: which members join at once, which wait, and which get the present generation again.

A first join comes without a member id. A dynamic member gets one and, from version 4 on, has to join again
with it (MEMBER_ID_REQUIRED): otherwise a client that retries a lost join would leave a dead member behind
each time. A static member (group.instance.id) needs no second step, since its instance names it: its new
member id replaces the old one, which is fenced from then on. If the group is stable and votes for the same
protocol as before, that happens without a rebalance.
"""

from __future__ import annotations

from ottla.broker.coordination.effects import Caller, client_error
from ottla.broker.groups.coordinator.deadlines import session_key
from ottla.broker.groups.coordinator.decision import CoordinatorStep
from ottla.broker.groups.coordinator.group import (
    CoordinatedGroup,
    CoordinatorMember,
    answer_join,
    answer_sync,
)
from ottla.broker.groups.coordinator.rebalance import (
    begin_join_phase,
    end_join_phase_if_all_joined,
    membership_changed,
)
from ottla.broker.groups.coordinator.state import GroupState
from ottla.model.error_codes import Code
from ottla.wire.api.join_group import JoinGroupRequest, JoinGroupResponse
from ottla.wire.api.sync_group import SyncGroupResponse

_TWO_STEP_SINCE = 4
_SKIP_ASSIGNMENT_SINCE = 9


def refused(error: Code, member_id: str = "") -> JoinGroupResponse:
    """Return the answer to a join that is refused."""
    return JoinGroupResponse(error_code=error, member_id=member_id)


def request_error(request: JoinGroupRequest, step: CoordinatorStep) -> Code:
    """Return the error of a join that is wrong in any state of the group, or NONE."""
    low, high = step.config.session_timeout_min_ms, step.config.session_timeout_max_ms
    return Code.NONE if low <= request.session_timeout_ms <= high else Code.INVALID_SESSION_TIMEOUT


def join(group: CoordinatedGroup, request: JoinGroupRequest, caller: Caller, step: CoordinatorStep) -> None:
    """Decide a join to an existing or new group."""
    member_id = request.member_id
    names = [protocol.name for protocol in request.protocols]
    if not _has_room(group, member_id, step):
        group.remove(member_id, step)
        step.reply(caller, refused(Code.GROUP_MAX_SIZE_REACHED))
        if group.initial_delay_ms is None:
            end_join_phase_if_all_joined(group, step)
    elif not group.supports(request.protocol_type, names):
        step.reply(caller, refused(Code.INCONSISTENT_GROUP_PROTOCOL, member_id))
    elif member_id:
        _join_again(group, request, caller, step)
    elif request.group_instance_id is not None:
        _join_static(group, request, caller, step)
    elif caller.version >= _TWO_STEP_SINCE:
        given = step.new_member_id(caller, None)
        group.pending_joins.add(given)
        group.set_deadline(session_key(given), request.session_timeout_ms, step)
        step.reply(caller, refused(Code.MEMBER_ID_REQUIRED, given))
    else:
        _add(group, step.new_member_id(caller, None), request, caller, step)


def _has_room(group: CoordinatedGroup, member_id: str, step: CoordinatorStep) -> bool:
    """Whether group.max.size allows one more member.

    During a join phase only members that have joined count, so that a group that is too large loses its
    slowest members.
    """
    member = group.members.get(member_id)
    if group.state is GroupState.EMPTY:
        return True
    if group.state is GroupState.PREPARING_REBALANCE:
        joined = sum(other.joining is not None for other in group.members.values())
        already_in = member is not None and member.joining is not None
        return already_in or joined < step.config.member_count_max
    return member is not None or len(group.members) < step.config.member_count_max


def _join_static(
    group: CoordinatedGroup, request: JoinGroupRequest, caller: Caller, step: CoordinatorStep
) -> None:
    """Decide the join of a static member that starts, for the first time or again."""
    instance_id = request.group_instance_id
    assert instance_id is not None
    former = group.static_member(instance_id)
    if former is None:
        _add(group, step.new_member_id(caller, instance_id), request, caller, step)
    elif group.state is not GroupState.STABLE or _would_change_protocol(group, former, request):
        member = _replace(group, former, step.new_member_id(caller, instance_id), step)
        member.update(request)
        member.joining = caller
        if group.state is GroupState.COMPLETING_REBALANCE:
            begin_join_phase(group, step)
        else:
            membership_changed(group, step)
    elif group.replacing:
        # Two records made from the same members would each undo the other's change.
        group.deferred.append((caller, request))
    else:
        _replace_in_stable_group(group, former, request, caller, step)


def _would_change_protocol(
    group: CoordinatedGroup, member: CoordinatorMember, request: JoinGroupRequest
) -> bool:
    before = member.protocols
    member.protocols = {protocol.name: protocol.metadata for protocol in request.protocols}
    chosen = group.chosen_protocol()
    member.protocols = before
    return chosen != group.protocol_name


def _replace_in_stable_group(
    group: CoordinatedGroup,
    former: CoordinatorMember,
    request: JoinGroupRequest,
    caller: Caller,
    step: CoordinatorStep,
) -> None:
    """Give a static instance its new member id without a rebalance, once that is stored.

    Until then the former id stays valid. If the group has changed by then, the join is decided again.
    """
    new_id = step.new_member_id(caller, request.group_instance_id)
    assignments = {member.member_id: member.assignment for member in group.members.values()}
    assignments[new_id] = former.assignment
    generation, leader_before = group.generation, group.leader or ""
    group.replacing = True

    def stored(step: CoordinatorStep, error: Code) -> None:
        group.replacing = False
        settled = group.state is GroupState.STABLE and group.generation == generation
        unchanged = settled and group.members.get(former.member_id) is former
        if group.state is GroupState.DEAD:
            step.reply(caller, refused(Code.NOT_COORDINATOR))
        elif error:
            step.reply(caller, refused(client_error(error)))
        elif not unchanged:
            join(group, request, caller, step)
        else:
            member = _replace(group, former, new_id, step)
            member.update(request)
            group.start_session(member, step)
            step.reply(caller, _kept_generation(group, member, caller, leader_before))
        deferred, group.deferred = group.deferred, []
        for waiting, deferred_request in deferred:
            join(group, deferred_request, waiting, step)

    # The record has the group as it will be; the group itself changes when the record is stored.
    future = _with_replacement(group, former, new_id, request)
    step.append(group.group_id, [future.record(assignments)], stored)


def _with_replacement(
    group: CoordinatedGroup, former: CoordinatorMember, new_id: str, request: JoinGroupRequest
) -> CoordinatedGroup:
    renamed = CoordinatorMember(
        new_id, former.instance_id, former.client_id, former.client_host, 0, 0, {}, former.assignment
    )
    renamed.update(request)
    members = [renamed if member is former else member for member in group.members.values()]
    return CoordinatedGroup(
        group.group_id,
        state=group.state,
        state_since_ms=group.state_since_ms,
        generation=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader=new_id if group.leader == former.member_id else group.leader,
        members={member.member_id: member for member in members},
    )


def _kept_generation(
    group: CoordinatedGroup, member: CoordinatorMember, caller: Caller, leader_before: str
) -> JoinGroupResponse:
    """Return the answer to a static member that came back.

    A leader must not assign again. Before version 9 the answer cannot say so, and names the leader's former
    member id as the leader instead.
    """
    if caller.version >= _SKIP_ASSIGNMENT_SINCE:
        return group.joined(member, skip_assignment=group.leader == member.member_id)
    response = group.joined(member)
    response.leader = leader_before
    response.members = []
    return response


def _replace(
    group: CoordinatedGroup, former: CoordinatorMember, new_id: str, step: CoordinatorStep
) -> CoordinatorMember:
    """Give a static member the id `new_id` and return the member; the old id is fenced from now on."""
    fenced = Code.FENCED_INSTANCE_ID
    answer_join(former, step, refused(fenced, former.member_id))
    answer_sync(former, step, SyncGroupResponse(error_code=fenced))
    group.clear_deadline(session_key(former.member_id))
    member = CoordinatorMember(
        new_id,
        former.instance_id,
        former.client_id,
        former.client_host,
        former.rebalance_timeout_ms,
        former.session_timeout_ms,
        former.protocols,
        former.assignment,
    )
    members = [member if other is former else other for other in group.members.values()]
    group.members = {other.member_id: other for other in members}
    if group.leader == former.member_id:
        group.leader = new_id
    if former.member_id in group.pending_syncs:
        group.pending_syncs.remove(former.member_id)
        group.pending_syncs.add(new_id)
    group.start_session(member, step)
    return member


def _join_again(
    group: CoordinatedGroup, request: JoinGroupRequest, caller: Caller, step: CoordinatorStep
) -> None:
    """Decide the join of a member with an id: the second step of its first join, or the next generation."""
    member_id = request.member_id
    # Only dynamic members get ids in advance: a request with an instance uses the id of another member.
    if member_id in group.pending_joins and request.group_instance_id is None:
        _add(group, member_id, request, caller, step)
        return
    error = group.member_error(member_id, request.group_instance_id)
    if error:
        step.reply(caller, refused(error, member_id))
        return
    member = group.members[member_id]
    if _already_answered(group, member, request):
        response = group.joined(member)
        if group.state is GroupState.STABLE:
            response.members = []
        step.reply(caller, response)
        return
    member.update(request)
    _park(member, caller, step)
    membership_changed(group, step)


def _already_answered(group: CoordinatedGroup, member: CoordinatorMember, request: JoinGroupRequest) -> bool:
    """Whether a member only missed the answer to its last join.

    A join of the leader of a stable group asks for a rebalance: partitions were added or removed.
    """
    if group.state is GroupState.COMPLETING_REBALANCE:
        return member.matches(request)
    return group.state is GroupState.STABLE and group.leader != member.member_id and member.matches(request)


def _add(
    group: CoordinatedGroup, member_id: str, request: JoinGroupRequest, caller: Caller, step: CoordinatorStep
) -> None:
    """Add a new member, and park its join."""
    member = CoordinatorMember(
        member_id, request.group_instance_id, caller.client_id, caller.client_host, 0, 0, {}, is_new=True
    )
    member.update(request)
    member.joining = caller
    if group.initial_delay_ms is not None:
        group.initial_joined = True
    group.add(member, request.protocol_type)
    # The client sends no heartbeats yet: without a deadline a dead client would delay every generation.
    group.set_deadline(session_key(member_id), step.config.new_member_timeout_ms, step)
    membership_changed(group, step)


def _park(member: CoordinatorMember, caller: Caller, step: CoordinatorStep) -> None:
    """Park a join. An earlier join of the same member, which its client has given up, is answered."""
    answer_join(member, step, refused(Code.REBALANCE_IN_PROGRESS, member.member_id))
    member.joining = caller
