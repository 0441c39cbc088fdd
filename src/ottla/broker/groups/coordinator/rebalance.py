"""How a group gets from one generation to the next: the join phase, the sync phase, and their ends.

A rebalance always ends. The join phase ends when all known members have joined or, by its timer, when the
longest rebalance timeout is over: members that have not joined by then are removed, except static members,
which stay until their session ends. The sync phase ends when the leader's assignment is stored. If its timer
fires first, members that have not sent SyncGroup are removed and the next join phase begins.
"""

from __future__ import annotations

from ottla.broker.coordination.effects import client_error
from ottla.broker.groups.coordinator.decision import CoordinatorStep, TimerKey, TimerKind
from ottla.broker.groups.coordinator.group import (
    CoordinatedGroup,
    CoordinatorMember,
    answer_join,
    answer_sync,
)
from ottla.broker.groups.coordinator.state import GroupEvent, GroupState
from ottla.model.error_codes import Code
from ottla.wire.api.sync_group import SyncGroupRequest, SyncGroupResponse

JOIN_PHASE = TimerKey(TimerKind.JOIN)
SYNC_PHASE = TimerKey(TimerKind.SYNC)

_SETTLED = (GroupState.EMPTY, GroupState.STABLE, GroupState.COMPLETING_REBALANCE)


# --- the join phase -------------------------------------------------------------------------------------


def membership_changed(group: CoordinatedGroup, step: CoordinatorStep) -> None:
    """Begin a join phase after a change of members, or end the present one if all have joined."""
    if group.state in _SETTLED:
        begin_join_phase(group, step)
    elif group.state is GroupState.PREPARING_REBALANCE and group.initial_delay_ms is None:
        end_join_phase_if_all_joined(group, step)


def begin_join_phase(group: CoordinatedGroup, step: CoordinatorStep) -> None:
    """Make all members join again. An empty group first waits for members that start at the same time."""
    if group.state is GroupState.COMPLETING_REBALANCE:
        fail_syncs(group, Code.REBALANCE_IN_PROGRESS, step)
    group.pending_syncs.clear()
    group.clear_deadline(SYNC_PHASE)
    was_empty = group.state is GroupState.EMPTY
    group.move(GroupEvent.MEMBERSHIP_CHANGED, step.now_ms)
    if was_empty:
        delay_ms = step.config.initial_rebalance_delay_ms
        group.initial_delay_ms = delay_ms
        group.initial_left_ms = max(group.rebalance_timeout_ms() - delay_ms, 0)
        group.initial_joined = False
        group.set_deadline(JOIN_PHASE, delay_ms, step)
    elif group.all_joined():
        end_join_phase(group, step)
    else:
        group.set_deadline(JOIN_PHASE, group.rebalance_timeout_ms(), step)


def end_join_phase_if_all_joined(group: CoordinatedGroup, step: CoordinatorStep) -> None:
    """End the join phase before its timer if no member is missing."""
    if group.state is GroupState.PREPARING_REBALANCE and group.all_joined():
        end_join_phase(group, step)


def join_phase_timed_out(group: CoordinatedGroup, step: CoordinatorStep) -> None:
    """End the join phase, whose timer fired.

    The first join phase of a group continues as long as new members join, within the rebalance timeout.
    """
    if group.initial_delay_ms is None or not group.initial_joined or not group.initial_left_ms:
        end_join_phase(group, step)
        return
    group.initial_joined = False
    delay_ms = min(step.config.initial_rebalance_delay_ms, group.initial_left_ms)
    group.initial_left_ms = max(group.initial_left_ms - group.initial_delay_ms, 0)
    group.initial_delay_ms = delay_ms
    group.set_deadline(JOIN_PHASE, delay_ms, step)


def end_join_phase(group: CoordinatedGroup, step: CoordinatorStep) -> None:
    """Start the generation with the members that joined."""
    group.clear_deadline(JOIN_PHASE)
    absent = [member for member in group.members.values() if member.joining is None]
    for member in absent:
        if member.instance_id is None:
            group.remove(member.member_id, step)
    if group.members and not _elect_leader(group):
        group.set_deadline(JOIN_PHASE, group.rebalance_timeout_ms(), step)
        return
    group.initial_delay_ms = None
    group.generation += 1
    if group.members:
        _start_generation(group, step)
    else:
        _become_empty(group, step)


def _elect_leader(group: CoordinatedGroup) -> bool:
    """Keep the leader if it joined, else take the first member that did. Returns whether there is one.

    In a group of static members it may be that none has joined: then the group waits, since no member could
    assign.
    """
    leader = group.members.get(group.leader or "")
    if leader is not None and leader.joining is not None:
        return True
    joined = [member.member_id for member in group.members.values() if member.joining]
    group.leader = joined[0] if joined else group.leader
    return bool(joined)


def _start_generation(group: CoordinatedGroup, step: CoordinatorStep) -> None:
    group.protocol_name = group.chosen_protocol()
    group.move(GroupEvent.GENERATION_STARTED, step.now_ms)
    group.assigning = None
    for member in group.members.values():
        answer_join(member, step, group.joined(member))
        group.start_session(member, step)
        member.is_new = False
        group.pending_syncs.add(member.member_id)
    group.set_deadline(SYNC_PHASE, group.rebalance_timeout_ms(), step)


def _become_empty(group: CoordinatedGroup, step: CoordinatorStep) -> None:
    """Make a group empty whose last member has left.

    The stored record says when offset retention began. If its append fails, the members are back after a
    restart, and expire once more.
    """
    group.protocol_name = None
    group.leader = None
    group.move(GroupEvent.ALL_LEFT, step.now_ms)
    step.append(group.group_id, [group.record({})], _nothing)


def _nothing(_step: CoordinatorStep, _error: Code) -> None:
    """Do nothing: no request waits for this append."""


# --- the sync phase -------------------------------------------------------------------------------------


def fail_syncs(group: CoordinatedGroup, error: Code, step: CoordinatorStep) -> None:
    """Answer all parked syncs with an error: the sync phase has no result."""
    for member in group.members.values():
        member.assignment = b""
        if member.syncing is not None:
            answer_sync(member, step, SyncGroupResponse(error_code=error))
            group.start_session(member, step)


def assign(group: CoordinatedGroup, request: SyncGroupRequest, step: CoordinatorStep) -> None:
    """Store the leader's assignments, then hand them out.

    If the group has begun another generation meanwhile, they are dropped. A second request of the leader
    changes nothing: members must get what is stored.
    """
    generation = group.generation
    if group.assigning == generation:
        return
    group.assigning = generation
    given = {assignment.member_id: assignment.assignment for assignment in request.assignments}
    assignments = {member_id: given.get(member_id, b"") for member_id in group.members}

    def stored(step: CoordinatorStep, error: Code) -> None:
        if group.state is not GroupState.COMPLETING_REBALANCE or group.generation != generation:
            return
        group.assigning = None
        if error:
            fail_syncs(group, client_error(error), step)
            membership_changed(group, step)
        else:
            _hand_out(group, assignments, step)

    step.append(group.group_id, [group.record(assignments)], stored)


def _hand_out(group: CoordinatedGroup, assignments: dict[str, bytes], step: CoordinatorStep) -> None:
    group.move(GroupEvent.ASSIGNED, step.now_ms)
    for member in group.members.values():
        member.assignment = assignments.get(member.member_id, b"")
        if member.syncing is not None:
            answer_sync(member, step, group.synced(member))
            group.start_session(member, step)


def sync_seen(group: CoordinatedGroup, member_id: str) -> None:
    """Note that a member has sent SyncGroup."""
    group.pending_syncs.discard(member_id)
    if not group.pending_syncs:
        group.clear_deadline(SYNC_PHASE)


def sync_phase_timed_out(group: CoordinatedGroup, step: CoordinatorStep) -> None:
    """End the sync phase, whose timer fired: remove members without SyncGroup, and begin a join phase."""
    for member_id in list(group.pending_syncs):
        group.remove(member_id, step)
    begin_join_phase(group, step)


# --- members leave --------------------------------------------------------------------------------------


def session_timed_out(group: CoordinatedGroup, member_id: str, step: CoordinatorStep) -> None:
    """Remove a member, or an id that was given out and not used, whose session is over."""
    if member_id in group.pending_joins:
        group.remove(member_id, step)
        end_join_phase_if_all_joined(group, step)
        return
    member = group.members.get(member_id)
    if member is not None and not member.lives_without_heartbeat():
        remove_member(group, member, step)


def remove_member(group: CoordinatedGroup, member: CoordinatorMember, step: CoordinatorStep) -> None:
    """Remove a member, and let the others rebalance."""
    group.remove(member.member_id, step)
    if group.state is GroupState.PREPARING_REBALANCE:
        end_join_phase_if_all_joined(group, step)
    else:
        membership_changed(group, step)
