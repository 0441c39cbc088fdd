"""JoinGroup: who is let in, who waits, who is told that nothing has changed.

A first join comes without a member id. A dynamic member is given one and, from version 4 on, has to come
back with it (MEMBER_ID_REQUIRED): a client that retries a lost join would else leave a dead member behind
each time. A static member (group.instance.id) needs no second step, since its instance names it: its new
member id takes the place of the old one, which is fenced from then on. If the group is stable and votes for
the same protocol as before, that happens without a rebalance.
"""

from __future__ import annotations

from ottla.broker.groups.decision import Caller, Turn, group_error
from ottla.broker.groups.group import Group, Member, answer_join, answer_sync, session_key
from ottla.broker.groups.rebalance import begin_join_phase, end_join_phase_if_all_joined, membership_changed
from ottla.broker.groups.state import GroupState
from ottla.model.error_codes import Code
from ottla.wire.api.join_group import JoinGroupRequest, JoinGroupResponse
from ottla.wire.api.sync_group import SyncGroupResponse

_TWO_STEP_SINCE = 4
_SKIP_ASSIGNMENT_SINCE = 9


def refused(error: Code, member_id: str = "") -> JoinGroupResponse:
    """An answer that lets nobody in."""
    return JoinGroupResponse(error_code=error, member_id=member_id)


def request_error(request: JoinGroupRequest, turn: Turn) -> Code:
    """What is wrong with a join whatever the group is like."""
    low, high = turn.config.session_timeout_min_ms, turn.config.session_timeout_max_ms
    return Code.NONE if low <= request.session_timeout_ms <= high else Code.INVALID_SESSION_TIMEOUT


def join(group: Group, request: JoinGroupRequest, caller: Caller, turn: Turn) -> None:
    """Decide a join to an existing or fresh group."""
    member_id = request.member_id
    names = [protocol.name for protocol in request.protocols]
    if not _has_room(group, member_id, turn):
        group.remove(member_id, turn)
        turn.reply(caller, refused(Code.GROUP_MAX_SIZE_REACHED))
        if group.initial_delay_ms is None:
            end_join_phase_if_all_joined(group, turn)
    elif not group.supports(request.protocol_type, names):
        turn.reply(caller, refused(Code.INCONSISTENT_GROUP_PROTOCOL, member_id))
    elif member_id:
        _join_again(group, request, caller, turn)
    elif request.group_instance_id is not None:
        _join_static(group, request, caller, turn)
    elif caller.version >= _TWO_STEP_SINCE:
        given = turn.new_member_id(caller, None)
        group.pending_joins.add(given)
        group.set_deadline(session_key(given), request.session_timeout_ms, turn)
        turn.reply(caller, refused(Code.MEMBER_ID_REQUIRED, given))
    else:
        _add(group, turn.new_member_id(caller, None), request, caller, turn)


def _has_room(group: Group, member_id: str, turn: Turn) -> bool:
    """Whether group.max.size allows one more. During a join phase only those who have joined count, so that
    a group that is too large shrinks by its slowest members."""
    member = group.members.get(member_id)
    if group.state is GroupState.EMPTY:
        return True
    if group.state is GroupState.PREPARING_REBALANCE:
        joined = sum(one.joining is not None for one in group.members.values())
        already_in = member is not None and member.joining is not None
        return already_in or joined < turn.config.member_count_max
    return member is not None or len(group.members) < turn.config.member_count_max


def _join_static(group: Group, request: JoinGroupRequest, caller: Caller, turn: Turn) -> None:
    """A static member starts: for the first time, or in place of its former self."""
    instance_id = request.group_instance_id
    assert instance_id is not None
    former = group.static_member(instance_id)
    if former is None:
        _add(group, turn.new_member_id(caller, instance_id), request, caller, turn)
    elif group.state is not GroupState.STABLE or _would_change_protocol(group, former, request):
        member = _replace(group, former, turn.new_member_id(caller, instance_id), turn)
        member.update(request)
        member.joining = caller
        if group.state is GroupState.COMPLETING_REBALANCE:
            begin_join_phase(group, turn)
        else:
            membership_changed(group, turn)
    elif group.replacing:
        # Two records made from the same members would each undo the other's change.
        group.deferred.append((caller, request))
    else:
        _replace_in_stable_group(group, former, request, caller, turn)


def _would_change_protocol(group: Group, member: Member, request: JoinGroupRequest) -> bool:
    before = member.protocols
    member.protocols = {protocol.name: protocol.metadata for protocol in request.protocols}
    chosen = group.chosen_protocol()
    member.protocols = before
    return chosen != group.protocol_name


def _replace_in_stable_group(
    group: Group, former: Member, request: JoinGroupRequest, caller: Caller, turn: Turn
) -> None:
    """Give a static instance its new member id without a rebalance, once that is stored.

    Until then the former id stays valid. If the group has moved on by then, the join is decided anew.
    """
    new_id = turn.new_member_id(caller, request.group_instance_id)
    assignments = {one.member_id: one.assignment for one in group.members.values()}
    assignments[new_id] = former.assignment
    generation, leader_before = group.generation, group.leader or ""
    group.replacing = True

    def stored(turn: Turn, error: Code) -> None:
        group.replacing = False
        settled = group.state is GroupState.STABLE and group.generation == generation
        unchanged = settled and group.members.get(former.member_id) is former
        if group.state is GroupState.DEAD:
            turn.reply(caller, refused(Code.NOT_COORDINATOR))
        elif error:
            turn.reply(caller, refused(group_error(error)))
        elif not unchanged:
            join(group, request, caller, turn)
        else:
            member = _replace(group, former, new_id, turn)
            member.update(request)
            group.start_session(member, turn)
            turn.reply(caller, _kept_generation(group, member, caller, leader_before))
        deferred, group.deferred = group.deferred, []
        for waiting, its_request in deferred:
            join(group, its_request, waiting, turn)

    # The record is made of the group as it will be; the group itself stays as it is until then.
    future = _with_replacement(group, former, new_id, request)
    turn.append(group.group_id, [future.record(assignments)], stored)


def _with_replacement(group: Group, former: Member, new_id: str, request: JoinGroupRequest) -> Group:
    renamed = Member(
        new_id, former.instance_id, former.client_id, former.client_host, 0, 0, {}, former.assignment
    )
    renamed.update(request)
    members = [renamed if one is former else one for one in group.members.values()]
    return Group(
        group.group_id,
        state=group.state,
        state_since_ms=group.state_since_ms,
        generation=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader=new_id if group.leader == former.member_id else group.leader,
        members={one.member_id: one for one in members},
    )


def _kept_generation(group: Group, member: Member, caller: Caller, leader_before: str) -> JoinGroupResponse:
    """The answer to a static member that came back. A leader must not assign again; before version 9 it
    cannot be told so, and is given the name of its former self as the leader instead."""
    if caller.version >= _SKIP_ASSIGNMENT_SINCE:
        return group.joined(member, skip_assignment=group.leader == member.member_id)
    response = group.joined(member)
    response.leader = leader_before
    response.members = []
    return response


def _replace(group: Group, former: Member, new_id: str, turn: Turn) -> Member:
    """Let `new_id` take the place of a static member; whoever still uses the old id is fenced."""
    fenced = Code.FENCED_INSTANCE_ID
    answer_join(former, turn, refused(fenced, former.member_id))
    answer_sync(former, turn, SyncGroupResponse(error_code=fenced))
    group.clear_deadline(session_key(former.member_id))
    member = Member(
        new_id,
        former.instance_id,
        former.client_id,
        former.client_host,
        former.rebalance_timeout_ms,
        former.session_timeout_ms,
        former.protocols,
        former.assignment,
    )
    members = [member if one is former else one for one in group.members.values()]
    group.members = {one.member_id: one for one in members}
    if group.leader == former.member_id:
        group.leader = new_id
    if former.member_id in group.pending_syncs:
        group.pending_syncs.remove(former.member_id)
        group.pending_syncs.add(new_id)
    group.start_session(member, turn)
    return member


def _join_again(group: Group, request: JoinGroupRequest, caller: Caller, turn: Turn) -> None:
    """A member that has an id: from the first step of its join, or from the last generation."""
    member_id = request.member_id
    # Only dynamic members get ids in advance: with an instance's name, the id is somebody else's.
    if member_id in group.pending_joins and request.group_instance_id is None:
        _add(group, member_id, request, caller, turn)
        return
    error = group.member_error(member_id, request.group_instance_id)
    if error:
        turn.reply(caller, refused(error, member_id))
        return
    member = group.members[member_id]
    if _already_answered(group, member, request):
        response = group.joined(member)
        if group.state is GroupState.STABLE:
            response.members = []
        turn.reply(caller, response)
        return
    member.update(request)
    _park(member, caller, turn)
    membership_changed(group, turn)


def _already_answered(group: Group, member: Member, request: JoinGroupRequest) -> bool:
    """Whether a member only missed the answer to its last join. The leader of a stable group is believed to
    want a rebalance: it has seen partitions come or go."""
    if group.state is GroupState.COMPLETING_REBALANCE:
        return member.matches(request)
    return group.state is GroupState.STABLE and group.leader != member.member_id and member.matches(request)


def _add(group: Group, member_id: str, request: JoinGroupRequest, caller: Caller, turn: Turn) -> None:
    """Let a new member in, and park its join."""
    member = Member(
        member_id, request.group_instance_id, caller.client_id, caller.client_host, 0, 0, {}, is_new=True
    )
    member.update(request)
    member.joining = caller
    if group.initial_delay_ms is not None:
        group.initial_joined = True
    group.add(member, request.protocol_type)
    # Its client does not heartbeat yet; without a limit a dead one would hold up every generation.
    group.set_deadline(session_key(member_id), turn.config.new_member_timeout_ms, turn)
    membership_changed(group, turn)


def _park(member: Member, caller: Caller, turn: Turn) -> None:
    """Keep a join waiting. An earlier one of the same member was given up by its client."""
    answer_join(member, turn, refused(Code.REBALANCE_IN_PROGRESS, member.member_id))
    member.joining = caller
