"""Static members (KIP-345): an instance keeps its place while its process restarts."""

from __future__ import annotations

from ottla.model.error_codes import Code
from ottla.wire.api.heartbeat import HeartbeatRequest
from ottla.wire.api.leave_group import LeaveGroupRequest, LeavingMember
from tests.broker.groups.coordinator.driver import Loop, commit_request, fetch_all, join_request, sync_request


def beat(loop: Loop, member_id: str, generation: int, instance: str | None) -> int:
    return loop.call(
        HeartbeatRequest(
            group_id="g", member_id=member_id, generation_id=generation, group_instance_id=instance
        )
    ).error_code


def static_group(loop: Loop, *instances: str, version: int = 9) -> list[str]:
    """A stable group of static members in generation 1, leader first."""
    tickets = [loop.send(join_request(group_instance_id=one), version) for one in instances]
    loop.advance(3_000 * (len(instances) + 1))
    ids = [loop.join_reply(ticket).member_id for ticket in tickets]
    for member_id in ids[1:]:
        loop.send(sync_request(member_id, 1))
    loop.call(sync_request(ids[0], 1, {one: f"for {one}".encode() for one in ids}))
    return ids


def test_a_static_member_needs_no_second_step() -> None:
    loop = Loop()
    assert static_group(loop, "a", "b") == ["a-id1", "b-id2"]


def test_a_restarted_member_takes_its_place_without_a_rebalance() -> None:
    loop = Loop()
    leader, old = static_group(loop, "a", "b")
    new = loop.call(join_request(group_instance_id="b"), 9)
    assert (new.error_code, new.generation_id, new.leader, new.members) == (Code.NONE, 1, leader, [])
    assert new.member_id != old
    assert beat(loop, old, 1, "b") == Code.FENCED_INSTANCE_ID
    assert beat(loop, old, 1, None) == Code.UNKNOWN_MEMBER_ID
    assert beat(loop, leader, 1, "a") == Code.NONE
    assert (
        loop.call(sync_request(new.member_id, 1, group_instance_id="b")).assignment == f"for {old}".encode()
    )
    fenced = loop.call(commit_request(1, old, 1, group_instance_id="b"))
    assert fenced.topics[0].partitions[0].error_code == Code.FENCED_INSTANCE_ID
    assert loop.call(sync_request(old, 1, group_instance_id="b")).error_code == Code.FENCED_INSTANCE_ID
    assert loop.call(join_request(old, group_instance_id="b"), 9).error_code == Code.FENCED_INSTANCE_ID
    assert loop.call(join_request(old, group_instance_id="c"), 9).error_code == Code.UNKNOWN_MEMBER_ID
    loop.restart()
    assert beat(loop, new.member_id, 1, "b") == Code.NONE


def test_a_restarted_leader_is_told_to_keep_the_assignment() -> None:
    loop = Loop()
    old, other = static_group(loop, "a", "b")
    new = loop.call(join_request(group_instance_id="a"), 9)
    assert new.skip_assignment
    assert new.leader == new.member_id
    assert [one.member_id for one in new.members] == [new.member_id, other]
    assert old != new.member_id


def test_a_restarted_leader_of_an_older_version_is_not_told_that_it_leads() -> None:
    loop = Loop()
    old, _ = static_group(loop, "a", "b")
    new = loop.call(join_request(group_instance_id="a"), 8)
    assert (new.skip_assignment, new.leader, new.members) == (False, old, [])


def test_the_old_id_stays_valid_until_the_new_one_is_stored() -> None:
    loop = Loop()
    _, old = static_group(loop, "a", "b")
    loop.holding = True
    ticket = loop.send(join_request(group_instance_id="b"), 9)
    assert beat(loop, old, 1, "b") == Code.NONE
    loop.settle(Code.NOT_LEADER_OR_FOLLOWER)
    assert loop.join_reply(ticket).error_code == Code.NOT_COORDINATOR
    assert beat(loop, old, 1, "b") == Code.NONE


def test_members_that_restart_together_do_not_undo_each_other() -> None:
    loop = Loop()
    static_group(loop, "a", "b", "c")
    loop.holding = True
    tickets = [loop.send(join_request(group_instance_id=one), 9) for one in ("a", "b", "b", "c")]
    while loop.pending:
        assert len(loop.pending) == 1
        loop.settle()
    a, b_fenced, b, c = (loop.join_reply(ticket).member_id for ticket in tickets)
    loop.holding = False
    loop.restart()
    for instance, member_id in (("a", a), ("b", b), ("c", c)):
        assert beat(loop, member_id, 1, instance) == Code.NONE
    assert beat(loop, b_fenced, 1, "b") == Code.FENCED_INSTANCE_ID


def test_a_rebalance_during_the_replacement_decides_it_anew() -> None:
    loop = Loop()
    leader, old = static_group(loop, "a", "b")
    loop.holding = True
    ticket = loop.send(join_request(group_instance_id="b"), 9)
    rejoined = loop.send(join_request(leader, group_instance_id="a"), 9)
    loop.settle()
    new = loop.join_reply(ticket)
    assert new.generation_id == 2
    assert [one.member_id for one in loop.join_reply(rejoined).members] == [leader, new.member_id]
    assert beat(loop, old, 2, "b") == Code.FENCED_INSTANCE_ID


def test_replacements_that_wait_are_sent_away_when_the_partition_moves() -> None:
    loop = Loop()
    static_group(loop, "a", "b")
    loop.holding = True
    tickets = [loop.send(join_request(group_instance_id=one), 9) for one in ("a", "b")]
    for partition in range(50):
        loop.perform(loop.coordinator.unload(partition, loop.now_ms))
    assert [loop.join_reply(ticket).error_code for ticket in tickets] == [Code.NOT_COORDINATOR] * 2


def test_a_change_of_the_protocol_needs_a_rebalance() -> None:
    loop = Loop()
    ticket = loop.send(join_request(group_instance_id="a", protocols=["range", "sticky"]), 9)
    loop.advance(3_000)
    loop.call(sync_request(loop.join_reply(ticket).member_id, 1, {}))
    again = loop.send(join_request(group_instance_id="a", protocols=["sticky", "range"]), 9)
    assert (loop.join_reply(again).generation_id, loop.join_reply(again).protocol_name) == (2, "sticky")


def test_a_member_replaced_while_it_waits_is_fenced() -> None:
    loop = Loop()
    first = loop.send(join_request(group_instance_id="a"), 9)
    second = loop.send(join_request(group_instance_id="a"), 9)
    assert loop.join_reply(first).error_code == Code.FENCED_INSTANCE_ID
    loop.advance(6_000)
    waiting_id = loop.join_reply(second).member_id
    assert loop.join_reply(second).generation_id == 1
    third = loop.send(join_request(group_instance_id="a"), 9)
    assert loop.join_reply(third).generation_id == 2
    assert beat(loop, waiting_id, 2, "a") == Code.FENCED_INSTANCE_ID


def test_a_static_member_keeps_its_place_in_a_rebalance_until_its_session_ends() -> None:
    loop = Loop()
    leader, away = static_group(loop, "a", "b")
    for _ in range(2):
        ticket = loop.send(join_request(leader, group_instance_id="a"), 9)
    for _ in range(7):
        beat(loop, away, 1, "b")
        loop.advance(9_000)
    assert len(loop.join_reply(ticket).members) == 2
    loop.advance(10_000)
    assert beat(loop, away, 2, "b") == Code.UNKNOWN_MEMBER_ID


def test_a_leader_that_is_away_is_replaced_by_one_that_joined() -> None:
    loop = Loop()
    away, other = static_group(loop, "a", "b")
    ticket = loop.send(join_request(other, group_instance_id="b", metadata=b"new"), 9)
    for _ in range(7):
        beat(loop, away, 1, "a")
        loop.advance(9_000)
    assert loop.join_reply(ticket).leader == other


def test_a_join_phase_without_anyone_goes_on_until_sessions_end() -> None:
    loop = Loop()
    ids = static_group(loop, "a", "b", "c")
    gone = [LeavingMember(member_id="", group_instance_id="c")]
    assert loop.call(LeaveGroupRequest(group_id="g", members=gone)).members[0].error_code == Code.NONE
    for _ in range(14):
        for member_id, instance in zip(ids, "ab", strict=False):
            assert beat(loop, member_id, 1, instance) == Code.REBALANCE_IN_PROGRESS
        loop.advance(9_000)
    ticket = loop.send(join_request(ids[0], group_instance_id="a"), 9)
    loop.advance(60_000)
    assert loop.join_reply(ticket).generation_id == 2


def test_an_administrator_removes_instances_by_name() -> None:
    loop = Loop()
    static_group(loop, "a", "b")
    leaving = [
        LeavingMember(member_id="", group_instance_id="a"),
        LeavingMember(member_id="", group_instance_id="x"),
        LeavingMember(member_id="wrong", group_instance_id="b"),
        LeavingMember(member_id="", group_instance_id=None),
    ]
    response = loop.call(LeaveGroupRequest(group_id="g", members=leaving))
    unknown = Code.UNKNOWN_MEMBER_ID
    assert [one.error_code for one in response.members] == [
        Code.NONE,
        unknown,
        Code.FENCED_INSTANCE_ID,
        unknown,
    ]


def test_commits_of_the_present_instance_are_accepted() -> None:
    loop = Loop()
    (member,) = static_group(loop, "a")
    assert (
        not loop.call(commit_request(7, member, 1, group_instance_id="a")).topics[0].partitions[0].error_code
    )
    assert fetch_all(loop) == {("t", 0): 7}
