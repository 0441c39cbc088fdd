"""How a group gets from one generation to the next: the join phase, the sync phase, and their ends.

A rebalance always ends. The join phase ends when all known members have joined or, by its timer, when the
slowest member's rebalance timeout is over: who has not joined by then is removed, except static members,
who are given until their session ends. The sync phase ends when the leader's assignment is stored; by its
timer, members that have not asked are removed and the next join phase begins.
"""

from __future__ import annotations

from ottla.broker.groups.decision import TimerKey, TimerKind, Turn, group_error
from ottla.broker.groups.group import Group, Member, answer_join, answer_sync
from ottla.broker.groups.state import GroupEvent, GroupState
from ottla.model.error_codes import Code
from ottla.wire.api.sync_group import SyncGroupRequest, SyncGroupResponse

JOIN_PHASE = TimerKey(TimerKind.JOIN)
SYNC_PHASE = TimerKey(TimerKind.SYNC)

_SETTLED = (GroupState.EMPTY, GroupState.STABLE, GroupState.COMPLETING_REBALANCE)


# --- the join phase -------------------------------------------------------------------------------------


def membership_changed(group: Group, turn: Turn) -> None:
    """Somebody came, went or changed: begin a join phase, or see whether the present one is over."""
    if group.state in _SETTLED:
        begin_join_phase(group, turn)
    elif group.state is GroupState.PREPARING_REBALANCE and group.initial_delay_ms is None:
        end_join_phase_if_all_joined(group, turn)


def begin_join_phase(group: Group, turn: Turn) -> None:
    """Everybody has to join again. An empty group first waits for members that start at the same time."""
    if group.state is GroupState.COMPLETING_REBALANCE:
        fail_syncs(group, Code.REBALANCE_IN_PROGRESS, turn)
    group.pending_syncs.clear()
    group.clear_deadline(SYNC_PHASE)
    was_empty = group.state is GroupState.EMPTY
    group.move(GroupEvent.MEMBERSHIP_CHANGED, turn.now_ms)
    if was_empty:
        delay_ms = turn.config.initial_rebalance_delay_ms
        group.initial_delay_ms = delay_ms
        group.initial_left_ms = max(group.rebalance_timeout_ms() - delay_ms, 0)
        group.initial_joined = False
        group.set_deadline(JOIN_PHASE, delay_ms, turn)
    elif group.all_joined():
        end_join_phase(group, turn)
    else:
        group.set_deadline(JOIN_PHASE, group.rebalance_timeout_ms(), turn)


def end_join_phase_if_all_joined(group: Group, turn: Turn) -> None:
    """Do not wait for the timer when there is nobody to wait for."""
    if group.state is GroupState.PREPARING_REBALANCE and group.all_joined():
        end_join_phase(group, turn)


def join_phase_timed_out(group: Group, turn: Turn) -> None:
    """The timer of the join phase. The first one of a group goes on as long as new members keep coming,
    within the rebalance timeout."""
    if group.initial_delay_ms is None or not group.initial_joined or not group.initial_left_ms:
        end_join_phase(group, turn)
        return
    group.initial_joined = False
    delay_ms = min(turn.config.initial_rebalance_delay_ms, group.initial_left_ms)
    group.initial_left_ms = max(group.initial_left_ms - group.initial_delay_ms, 0)
    group.initial_delay_ms = delay_ms
    group.set_deadline(JOIN_PHASE, delay_ms, turn)


def end_join_phase(group: Group, turn: Turn) -> None:
    """Start the generation with those who joined."""
    group.clear_deadline(JOIN_PHASE)
    absent = [one for one in group.members.values() if one.joining is None]
    for member in absent:
        if member.instance_id is None:
            group.remove(member.member_id, turn)
    if group.members and not _elect_leader(group):
        group.set_deadline(JOIN_PHASE, group.rebalance_timeout_ms(), turn)
        return
    group.initial_delay_ms = None
    group.generation += 1
    if group.members:
        _start_generation(group, turn)
    else:
        _become_empty(group, turn)


def _elect_leader(group: Group) -> bool:
    """Keep the leader if it joined, else take the first that did. A group of static members can be without
    anyone who did; it then has to wait, since nobody could assign."""
    leader = group.members.get(group.leader or "")
    if leader is not None and leader.joining is not None:
        return True
    group.leader = next((one.member_id for one in group.members.values() if one.joining), group.leader)
    return group.members[group.leader or ""].joining is not None


def _start_generation(group: Group, turn: Turn) -> None:
    group.protocol_name = group.chosen_protocol()
    group.move(GroupEvent.GENERATION_STARTED, turn.now_ms)
    group.assigning = None
    for member in group.members.values():
        answer_join(member, turn, group.joined(member))
        group.start_session(member, turn)
        member.is_new = False
        group.pending_syncs.add(member.member_id)
    group.set_deadline(SYNC_PHASE, group.rebalance_timeout_ms(), turn)


def _become_empty(group: Group, turn: Turn) -> None:
    """The last member has gone. The record starts the clock of offset retention for a reload; without it
    (if the append fails) the members are found again after a restart and expire once more."""
    group.protocol_name = None
    group.leader = None
    group.move(GroupEvent.ALL_LEFT, turn.now_ms)
    turn.append(group.group_id, [group.record({})], _nothing)


def _nothing(_turn: Turn, _error: Code) -> None:
    """Nobody waits for this append."""


# --- the sync phase -------------------------------------------------------------------------------------


def fail_syncs(group: Group, error: Code, turn: Turn) -> None:
    """The sync phase has no result."""
    for member in group.members.values():
        member.assignment = b""
        if member.syncing is not None:
            answer_sync(member, turn, SyncGroupResponse(error_code=error))
            group.start_session(member, turn)


def assign(group: Group, request: SyncGroupRequest, turn: Turn) -> None:
    """The leader has handed in the assignments: store them, then hand them out.

    While they are being stored the group can go on to another generation; the result then means nothing
    to anybody. A second request of the leader changes nothing: what is stored must be what is handed out.
    """
    generation = group.generation
    if group.assigning == generation:
        return
    group.assigning = generation
    given = {one.member_id: one.assignment for one in request.assignments}
    assignments = {member_id: given.get(member_id, b"") for member_id in group.members}

    def stored(turn: Turn, error: Code) -> None:
        if group.state is not GroupState.COMPLETING_REBALANCE or group.generation != generation:
            return
        group.assigning = None
        if error:
            fail_syncs(group, group_error(error), turn)
            membership_changed(group, turn)
        else:
            _hand_out(group, assignments, turn)

    turn.append(group.group_id, [group.record(assignments)], stored)


def _hand_out(group: Group, assignments: dict[str, bytes], turn: Turn) -> None:
    group.move(GroupEvent.ASSIGNED, turn.now_ms)
    for member in group.members.values():
        member.assignment = assignments.get(member.member_id, b"")
        if member.syncing is not None:
            answer_sync(member, turn, group.synced(member))
            group.start_session(member, turn)


def sync_seen(group: Group, member_id: str) -> None:
    """A member has asked for its assignment."""
    group.pending_syncs.discard(member_id)
    if not group.pending_syncs:
        group.clear_deadline(SYNC_PHASE)


def sync_phase_timed_out(group: Group, turn: Turn) -> None:
    """The timer of the sync phase: go on without those who have not asked."""
    for member_id in list(group.pending_syncs):
        group.remove(member_id, turn)
    begin_join_phase(group, turn)


# --- members that go ------------------------------------------------------------------------------------


def session_timed_out(group: Group, member_id: str, turn: Turn) -> None:
    """The timer of one member, or of an id that was given out and not used."""
    if member_id in group.pending_joins:
        group.remove(member_id, turn)
        end_join_phase_if_all_joined(group, turn)
        return
    member = group.members.get(member_id)
    if member is not None and not member.lives_without_heartbeat():
        remove_member(group, member, turn)


def remove_member(group: Group, member: Member, turn: Turn) -> None:
    """A member is gone: the others have to divide its share."""
    group.remove(member.member_id, turn)
    if group.state is GroupState.PREPARING_REBALANCE:
        end_join_phase_if_all_joined(group, turn)
    else:
        membership_changed(group, turn)
