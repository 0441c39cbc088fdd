"""Joins, syncs, heartbeats, leaving and dying, as a client sees them."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.broker.coordination.effects import Caller
from ottla.broker.groups.coordinator import GroupConfig, GroupCoordinator
from ottla.broker.groups.coordinator.state import TRANSITIONS, GroupState
from ottla.model.error_codes import Code
from ottla.model.errors import ConfigError, LocalProtocolError
from ottla.wire.api.describe_groups import DescribedGroup, DescribeGroupsRequest
from ottla.wire.api.heartbeat import HeartbeatRequest
from ottla.wire.api.leave_group import LeaveGroupRequest, LeavingMember
from ottla.wire.api.metadata import MetadataRequest
from tests.broker.groups.coordinator.driver import (
    KnownTopics,
    Loop,
    commit_request,
    join_request,
    stable_group,
    sync_request,
)


def heartbeat(
    loop: Loop, member_id: str, generation: int, instance: str | None = None, group: str = "g"
) -> int:
    request = HeartbeatRequest(
        group_id=group, member_id=member_id, generation_id=generation, group_instance_id=instance
    )
    return loop.call(request).error_code


def described(loop: Loop, group: str = "g", version: int = 5) -> DescribedGroup:
    return loop.call(DescribeGroupsRequest(groups=[group]), version).groups[0]


def state(loop: Loop, group: str = "g") -> str:
    return described(loop, group).group_state


def leave(loop: Loop, *member_ids: str, group: str = "g") -> list[int]:
    members = [LeavingMember(member_id=one) for one in member_ids]
    response = loop.call(LeaveGroupRequest(group_id=group, members=members))
    assert not response.error_code
    return [one.error_code for one in response.members]


# --- the table ------------------------------------------------------------------------------------------


def test_every_state_but_dead_can_be_left_and_reached() -> None:
    reached = {after for row in TRANSITIONS.values() for after in row.values()}
    assert reached == set(GroupState)
    assert [one for one in GroupState if not TRANSITIONS[one]] == [GroupState.DEAD]


# --- joining --------------------------------------------------------------------------------------------


def test_the_first_generation_waits_for_members_that_start_together() -> None:
    loop = Loop()
    first = loop.send(join_request(), 3)
    loop.advance(2_000)
    second = loop.send(join_request(), 3)
    loop.advance(1_000)
    assert state(loop) == "PreparingRebalance", "the second member extends the delay"
    loop.advance(3_000)
    leader, follower = loop.join_reply(first), loop.join_reply(second)
    assert (leader.generation_id, leader.protocol_name, leader.leader) == (1, "range", leader.member_id)
    assert [one.member_id for one in leader.members] == [leader.member_id, follower.member_id]
    assert follower.members == []
    assert state(loop) == "CompletingRebalance"


def test_the_initial_delay_is_bounded_by_the_rebalance_timeout() -> None:
    loop = Loop()
    first = loop.send(join_request(rebalance_timeout_ms=7_000), 3)
    for _ in range(4):
        loop.advance(2_000)
        loop.send(join_request(rebalance_timeout_ms=7_000), 3)
    assert first in loop.replies


def test_a_dynamic_member_has_to_come_back_with_the_id_it_was_given() -> None:
    loop = Loop()
    refusal = loop.call(join_request(), 4)
    assert refusal.error_code == Code.MEMBER_ID_REQUIRED
    assert refusal.member_id == "c-id1"
    ticket = loop.send(join_request(refusal.member_id), 4)
    loop.advance(3_000)
    assert loop.join_reply(ticket).member_id == refusal.member_id


def test_a_pending_id_is_forgotten_after_the_session_timeout() -> None:
    loop = Loop()
    given = loop.call(join_request(), 9).member_id
    loop.advance(10_000)
    assert loop.call(join_request(given), 9).error_code == Code.UNKNOWN_MEMBER_ID


def test_a_join_phase_waits_for_a_pending_id_and_ends_when_it_leaves() -> None:
    loop = Loop()
    (leader, other), generation = stable_group(loop)
    given = loop.call(join_request(), 9).member_id
    tickets = [loop.send(join_request(one), 9) for one in (leader, other)]
    assert tickets[0] not in loop.replies
    assert leave(loop, given) == [Code.NONE]
    assert loop.join_reply(tickets[0]).generation_id == generation + 1


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"group": ""}, Code.INVALID_GROUP_ID),
        ({"session_timeout_ms": 5_999}, Code.INVALID_SESSION_TIMEOUT),
        ({"session_timeout_ms": 1_800_001}, Code.INVALID_SESSION_TIMEOUT),
        ({"member_id": "stranger"}, Code.UNKNOWN_MEMBER_ID),
        ({"protocol_type": ""}, Code.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": []}, Code.INCONSISTENT_GROUP_PROTOCOL),
    ],
)
def test_joins_that_are_refused(fields: dict[str, object], error: Code) -> None:
    loop = Loop()
    for version in range(10):
        assert loop.call(join_request(**fields), version).error_code == error  # type: ignore[arg-type]
    assert described(loop).group_state == "Dead", "a refused join leaves no group behind"


def test_members_need_a_common_protocol_of_one_type() -> None:
    loop = Loop()
    stable_group(loop, protocols=["range", "sticky"])
    wrong = Code.INCONSISTENT_GROUP_PROTOCOL
    assert loop.call(join_request(protocols=["other"]), 3).error_code == wrong
    assert loop.call(join_request(protocol_type="connect"), 3).error_code == wrong
    assert loop.send(join_request(protocols=["other", "sticky"]), 3) not in loop.replies


def test_the_protocol_with_most_votes_wins_among_those_that_all_know() -> None:
    loop = Loop()
    tickets = [
        loop.send(join_request(protocols=names), 3) for names in (["a", "b", "c"], ["c", "b"], ["c", "b"])
    ]
    loop.advance(20_000)
    assert {loop.join_reply(ticket).protocol_name for ticket in tickets} == {"c"}


def test_version_0_uses_the_session_timeout_for_the_rebalance() -> None:
    loop = Loop()
    ticket = loop.send(join_request(rebalance_timeout_ms=-1), 0)
    loop.advance(3_000)
    member = loop.join_reply(ticket).member_id
    loop.call(sync_request(member, 1, {}), 0)
    loop.send(join_request(rebalance_timeout_ms=-1), 0)
    for _ in range(9):
        loop.advance(1_000)
        heartbeat(loop, member, 1)
    assert state(loop) == "PreparingRebalance"
    loop.advance(1_000)
    assert state(loop) == "CompletingRebalance"


def test_a_group_at_its_maximum_takes_nobody() -> None:
    loop = Loop(GroupConfig(member_count_max=2))
    (leader, other), _ = stable_group(loop)
    assert loop.call(join_request(), 3).error_code == Code.GROUP_MAX_SIZE_REACHED
    rejoin = loop.send(join_request(leader), 3)
    late = loop.send(join_request(), 3)
    assert {rejoin, late}.isdisjoint(loop.replies)
    # The place is taken now: a member that is slower than a newcomer goes.
    assert loop.call(join_request(other), 3).error_code == Code.GROUP_MAX_SIZE_REACHED
    assert len(loop.join_reply(rejoin).members) == 2


def test_a_member_that_missed_the_answer_gets_it_again_without_a_rebalance() -> None:
    loop = Loop()
    (_, other), generation = stable_group(loop)
    again = loop.call(join_request(other), 3)
    assert (again.generation_id, again.members) == (generation, [])
    assert state(loop) == "Stable"


def test_a_changed_subscription_or_the_leaders_wish_begins_a_rebalance() -> None:
    for who, metadata in ((0, b"\0\1\0\0\0\0"), (1, b"\0\1\0\0\0\0")):
        loop = Loop()
        ids, generation = stable_group(loop)
        assert loop.send(join_request(ids[who], metadata=metadata), 3) not in loop.replies
        assert heartbeat(loop, ids[1 - who], generation) == Code.REBALANCE_IN_PROGRESS
    loop = Loop()
    (leader, _), _ = stable_group(loop)
    assert loop.send(join_request(leader), 3) not in loop.replies


def test_a_repeated_join_of_a_waiting_member_releases_the_first() -> None:
    loop = Loop()
    (leader, other), generation = stable_group(loop)
    first = loop.send(join_request(leader), 3)
    second = loop.send(join_request(leader), 3)
    assert loop.join_reply(first).error_code == Code.REBALANCE_IN_PROGRESS
    loop.send(join_request(other), 3)
    assert loop.join_reply(second).generation_id == generation + 1


# --- syncing --------------------------------------------------------------------------------------------


def test_assignments_are_handed_out_when_they_are_stored() -> None:
    loop = Loop()
    tickets = [loop.send(join_request(), 3) for _ in range(2)]
    loop.advance(9_000)
    leader, other = (loop.join_reply(ticket).member_id for ticket in tickets)
    loop.holding = True
    follower = loop.send(sync_request(other, 1))
    lead = loop.send(sync_request(leader, 1, {leader: b"L"}))
    assert {follower, lead}.isdisjoint(loop.replies)
    assert (
        loop.call(commit_request(1, leader, 1)).topics[0].partitions[0].error_code
        == Code.REBALANCE_IN_PROGRESS
    )
    loop.settle()
    assert (loop.sync_reply(lead).assignment, loop.sync_reply(follower).assignment) == (b"L", b"")
    assert state(loop) == "Stable"


def test_what_cannot_be_stored_is_not_handed_out() -> None:
    loop = Loop()
    ticket = loop.send(join_request(), 3)
    loop.advance(3_000)
    member = loop.join_reply(ticket).member_id
    loop.holding = True
    lead = loop.send(sync_request(member, 1, {member: b"L"}))
    loop.settle(Code.KAFKA_STORAGE_ERROR)
    assert loop.sync_reply(lead).error_code == Code.NOT_COORDINATOR
    assert loop.log == []
    assert state(loop) == "PreparingRebalance"
    again = loop.send(join_request(member), 3)
    assert loop.join_reply(again).generation_id == 2


def test_the_leaders_second_sync_does_not_change_what_is_stored() -> None:
    loop = Loop()
    ticket = loop.send(join_request(), 3)
    loop.advance(3_000)
    member = loop.join_reply(ticket).member_id
    loop.holding = True
    first = loop.send(sync_request(member, 1, {member: b"one"}))
    second = loop.send(sync_request(member, 1, {member: b"two"}))
    assert len(loop.pending) == 1
    loop.settle()
    assert loop.sync_reply(first).error_code == Code.REBALANCE_IN_PROGRESS
    assert loop.sync_reply(second).assignment == b"one"


def test_syncs_that_are_refused() -> None:
    loop = Loop()
    (leader, _), generation = stable_group(loop)
    for request, error in (
        (sync_request(leader, generation + 1), Code.ILLEGAL_GENERATION),
        (sync_request("stranger", generation), Code.UNKNOWN_MEMBER_ID),
        (sync_request(leader, generation, group="none"), Code.UNKNOWN_MEMBER_ID),
        (sync_request(leader, generation, group=""), Code.INVALID_GROUP_ID),
        (sync_request(leader, generation, protocol_type="connect"), Code.INCONSISTENT_GROUP_PROTOCOL),
        (sync_request(leader, generation, protocol_name="sticky"), Code.INCONSISTENT_GROUP_PROTOCOL),
    ):
        assert loop.call(request).error_code == error
    assert loop.call(sync_request(leader, generation), 0).assignment == f"for {leader}".encode()
    loop.send(join_request(leader), 3)
    assert loop.call(sync_request(leader, generation)).error_code == Code.REBALANCE_IN_PROGRESS


def test_a_newcomer_sends_waiting_syncs_back_to_join() -> None:
    loop = Loop()
    tickets = [loop.send(join_request(), 3) for _ in range(2)]
    loop.advance(9_000)
    waiting = loop.send(sync_request(loop.join_reply(tickets[1]).member_id, 1))
    loop.send(join_request(), 3)
    assert loop.sync_reply(waiting).error_code == Code.REBALANCE_IN_PROGRESS


def test_members_that_never_sync_are_removed_after_the_rebalance_timeout() -> None:
    loop = Loop()
    tickets = [loop.send(join_request(), 3) for _ in range(2)]
    loop.advance(6_000)
    leader, other = (loop.join_reply(ticket).member_id for ticket in tickets)
    waiting = loop.send(sync_request(other, 1))
    for _ in range(6):
        loop.advance(9_000)
        heartbeat(loop, leader, 1)
    assert waiting not in loop.replies
    loop.advance(6_000)
    assert loop.sync_reply(waiting).error_code == Code.REBALANCE_IN_PROGRESS
    assert heartbeat(loop, leader, 1) == Code.UNKNOWN_MEMBER_ID


# --- living, leaving, dying -----------------------------------------------------------------------------


def test_heartbeats_keep_a_session_and_report_errors() -> None:
    loop = Loop()
    (leader, other), generation = stable_group(loop)
    for _ in range(10):
        loop.advance(9_999)
        assert heartbeat(loop, leader, generation) == Code.NONE
        assert heartbeat(loop, other, generation) == Code.NONE
    assert heartbeat(loop, leader, generation - 1) == Code.ILLEGAL_GENERATION
    assert heartbeat(loop, "stranger", generation) == Code.UNKNOWN_MEMBER_ID
    assert heartbeat(loop, leader, generation, group="none") == Code.UNKNOWN_MEMBER_ID
    assert heartbeat(loop, leader, generation, group="") == Code.INVALID_GROUP_ID


def test_heartbeats_do_not_pile_up_timers() -> None:
    loop = Loop()
    (member,), generation = stable_group(loop, 1)
    request = HeartbeatRequest(group_id="g", member_id=member, generation_id=generation)
    decisions = []
    for ticket in range(100):
        loop.now_ms += 1
        decisions.append(loop.coordinator.decide(request, Caller(-ticket, 4), loop.now_ms))
    assert [timer for decision in decisions for timer in decision.timers] == []
    loop.advance(9_999)
    assert heartbeat(loop, member, generation) == Code.NONE


def test_a_silent_member_dies_and_the_others_rebalance() -> None:
    loop = Loop()
    (leader, other), generation = stable_group(loop)
    loop.advance(5_000)
    heartbeat(loop, other, generation)
    loop.advance(5_000)
    assert heartbeat(loop, other, generation) == Code.REBALANCE_IN_PROGRESS
    assert heartbeat(loop, leader, generation) == Code.UNKNOWN_MEMBER_ID
    ticket = loop.send(join_request(other), 3)
    assert loop.join_reply(ticket).leader == other


def test_who_does_not_rejoin_in_time_is_left_behind() -> None:
    loop = Loop()
    (leader, slow), generation = stable_group(loop)
    ticket = loop.send(join_request(leader), 3)
    for _ in range(6):
        loop.advance(9_999)
        assert heartbeat(loop, slow, generation) == Code.REBALANCE_IN_PROGRESS
    loop.advance(6)
    assert [one.member_id for one in loop.join_reply(ticket).members] == [leader]
    assert heartbeat(loop, slow, generation) == Code.UNKNOWN_MEMBER_ID


def test_a_dead_newcomer_holds_a_group_up_for_five_minutes_at_most() -> None:
    loop = Loop()
    (leader, _), generation = stable_group(loop, rebalance_timeout_ms=1_000_000, session_timeout_ms=1_000_000)
    newcomer = loop.send(join_request(), 3)
    loop.advance(300_000)
    assert loop.join_reply(newcomer).error_code == Code.UNKNOWN_MEMBER_ID
    assert heartbeat(loop, leader, generation) == Code.REBALANCE_IN_PROGRESS


def test_leaving_one_by_one_and_in_batches() -> None:
    loop = Loop()
    ids, generation = stable_group(loop, 4)
    assert loop.call(LeaveGroupRequest(group_id="g", member_id=ids[3]), 0).error_code == Code.NONE
    assert (
        loop.call(LeaveGroupRequest(group_id="g", member_id=ids[3]), 2).error_code == Code.UNKNOWN_MEMBER_ID
    )
    assert heartbeat(loop, ids[0], generation) == Code.REBALANCE_IN_PROGRESS
    assert leave(loop, ids[1], "stranger", ids[2]) == [Code.NONE, Code.UNKNOWN_MEMBER_ID, Code.NONE]
    assert leave(loop, "x", group="none") == [Code.UNKNOWN_MEMBER_ID]
    assert loop.call(LeaveGroupRequest(group_id=""), 0).error_code == Code.INVALID_GROUP_ID
    assert leave(loop, ids[0]) == [Code.NONE]
    assert state(loop) == "Empty"
    assert loop.call(join_request(ids[0]), 9).error_code == Code.UNKNOWN_MEMBER_ID


def test_a_waiting_member_that_leaves_is_answered() -> None:
    loop = Loop()
    (leader, _), _ = stable_group(loop)
    waiting = loop.send(join_request(leader), 3)
    leave(loop, leader)
    assert loop.join_reply(waiting).error_code == Code.UNKNOWN_MEMBER_ID


def test_a_member_removed_while_it_waits_for_its_assignment_is_answered() -> None:
    loop = Loop()
    tickets = [loop.send(join_request(), 3) for _ in range(2)]
    loop.advance(6_000)
    other = loop.join_reply(tickets[1]).member_id
    waiting = loop.send(sync_request(other, 1))
    leave(loop, other)
    assert loop.sync_reply(waiting).error_code == Code.UNKNOWN_MEMBER_ID


# --- loading --------------------------------------------------------------------------------------------


def test_groups_go_on_after_a_restart_with_fresh_sessions() -> None:
    loop = Loop()
    (leader, other), generation = stable_group(loop)
    loop.advance(9_000)
    loop.restart()
    loop.advance(9_000)
    assert heartbeat(loop, leader, generation) == Code.NONE
    assert loop.call(sync_request(other, generation)).assignment == f"for {other}".encode()
    loop.advance(1_000)
    assert heartbeat(loop, leader, generation) == Code.REBALANCE_IN_PROGRESS
    assert heartbeat(loop, other, generation) == Code.UNKNOWN_MEMBER_ID


def test_an_empty_group_keeps_its_generation_over_a_restart() -> None:
    loop = Loop()
    ids, generation = stable_group(loop)
    leave(loop, *ids)
    loop.restart()
    assert state(loop) == "Empty"
    assert described(loop).protocol_type == "consumer"
    _, after = stable_group(loop)
    assert after == generation + 2


def test_a_partition_that_is_loading_asks_clients_to_wait() -> None:
    loop = Loop(load=False)
    assert loop.call(join_request()).error_code == Code.NOT_COORDINATOR
    for partition in range(50):
        loop.coordinator.begin_load(partition)
    loading = Code.COORDINATOR_LOAD_IN_PROGRESS
    assert loop.call(join_request()).error_code == loading
    assert loop.call(commit_request(1)).topics[0].partitions[0].error_code == loading
    assert loop.call(sync_request("m", 1)).error_code == Code.REBALANCE_IN_PROGRESS
    assert heartbeat(loop, "m", 1) == Code.NONE
    assert described(loop).error_code == loading


def test_a_partition_that_moves_away_sends_everybody_to_the_new_coordinator() -> None:
    loop = Loop()
    (member,), generation = stable_group(loop, 1, group="h")
    joining = loop.send(join_request(), 3)
    loop.holding = True
    committing = loop.send(commit_request(5, group="i"))
    appended = loop.pending.popleft()
    for partition in range(50):
        loop.perform(loop.coordinator.unload(partition, loop.now_ms))
    assert loop.join_reply(joining).error_code == Code.NOT_COORDINATOR
    assert committing in loop.replies
    loop.perform(loop.coordinator.on_append_result(appended.append_id, Code.NONE, loop.now_ms))
    assert heartbeat(loop, member, generation, group="h") == Code.NOT_COORDINATOR
    loop.holding = False
    loop.load()
    assert heartbeat(loop, member, generation, group="h") == Code.NONE
    assert state(loop) == "Dead"


# --- callers' mistakes ----------------------------------------------------------------------------------


def test_requests_of_others_are_refused() -> None:
    coordinator = GroupCoordinator(GroupConfig(), lambda: "id", KnownTopics())
    with pytest.raises(LocalProtocolError, match="MetadataRequest is not for the group coordinator"):
        coordinator.decide(MetadataRequest(), Caller(1, 0), 0)


def test_settings_that_cannot_work_are_refused() -> None:
    every: tuple[dict[str, Any], ...] = (
        {"session_timeout_min_ms": 0},
        {"member_count_max": 0},
        {"initial_rebalance_delay_ms": -1},
        {"consumer_session_timeout_ms": 1},
        {"consumer_heartbeat_interval_ms": 60_000},
        {"consumer_heartbeat_interval_max_ms": 60_000, "consumer_heartbeat_interval_ms": 50_000},
        {"consumer_assignors": ()},
    )
    for settings in every:
        with pytest.raises(ConfigError, match="group"):
            GroupConfig(**settings)


def test_a_client_id_that_fills_a_whole_string_still_makes_a_member_id() -> None:
    loop = Loop()
    ticket = loop.send(join_request(), 4, client_id="x" * 0x7FFF)
    assert loop.join_reply(ticket).error_code == Code.MEMBER_ID_REQUIRED
