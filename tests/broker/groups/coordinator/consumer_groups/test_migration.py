"""A group in use changes its kind, both ways; members of both protocols share one group."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ottla.broker.settings.group_config import MigrationPolicy
from ottla.model.error_codes import Code
from ottla.wire.api.join_group import JoinGroupProtocol
from ottla.wire.api.leave_group import LeaveGroupRequest, LeavingMember
from ottla.wire.api.list_groups import ListGroupsRequest
from tests.broker.groups.coordinator.consumer_groups.classic_members import (
    ClassicMember,
    stable_classic_group,
)
from tests.broker.groups.coordinator.consumer_groups.members import AT_ONCE, Member, described, settle
from tests.broker.groups.coordinator.driver import Loop


def kinds(loop: Loop) -> list[str]:
    return [row.group_type for row in loop.call(ListGroupsRequest()).groups]


def leave(member: ClassicMember) -> int:
    leaving = LeavingMember(member_id=member.member_id, group_instance_id=member.instance_id)
    return member.loop.call(LeaveGroupRequest(group_id="g", members=[leaving])).members[0].error_code


def test_a_rolling_upgrade_keeps_what_it_can() -> None:
    loop = Loop(AT_ONCE)
    classic = stable_classic_group(loop)
    generation = classic[0].generation
    new = Member(loop, "new", ["t"])
    response = new.join()
    assert (response.error_code, response.member_epoch) == (Code.NONE, generation + 1)
    assert kinds(loop) == ["consumer"]
    assert [member.member_type for member in described(loop).members] == [0, 0, 1]
    before = [set(member.numbers) for member in classic]
    for _ in range(3):
        for member in classic:
            member.follow()
        new.beat()
    assert sorted(new.numbers + classic[0].numbers + classic[1].numbers) == [0, 1, 2, 3]
    assert all(set(member.numbers) <= had for member, had in zip(classic, before, strict=True))
    assert described(loop).group_state == "Stable"
    loop.restart()
    assert [leave(member) for member in classic] == [Code.NONE, Code.NONE]
    settle(new)
    assert new.numbers == [0, 1, 2, 3]
    assert {member.member_type for member in described(loop).members} == {1}


def test_the_last_consumer_member_that_goes_makes_the_group_classic_again() -> None:
    loop = Loop(AT_ONCE)
    classic = stable_classic_group(loop)
    new = Member(loop, "new", ["t"])
    new.join()
    for _ in range(3):
        for member in classic:
            member.follow()
        new.beat()
    assert new.leave().error_code == Code.NONE
    assert kinds(loop) == ["classic"]
    assert described(loop).error_message == "Group g is not a consumer group."
    behind = (Code.ILLEGAL_GENERATION, Code.REBALANCE_IN_PROGRESS)
    assert all(member.beat() in behind for member in classic)
    tickets = [member.join() for member in classic]
    for member, ticket in zip(classic, tickets, strict=True):
        assert member.joined(ticket).error_code == Code.NONE
    loop.restart()
    assert kinds(loop) == ["classic"]


def test_a_session_that_ends_downgrades_too() -> None:
    loop = Loop(AT_ONCE)
    classic = stable_classic_group(loop)
    Member(loop, "new", ["t"]).join()
    for _ in range(4):
        loop.advance(9_000)
        for member in classic:
            member.follow()
    assert kinds(loop) == ["consumer"]
    loop.advance(9_000)
    assert kinds(loop) == ["classic"]


def test_a_member_that_waits_in_a_classic_rebalance_is_told_to_join_again() -> None:
    loop = Loop(AT_ONCE)
    classic = stable_classic_group(loop)
    ticket = ClassicMember(loop).join()
    assert ticket not in loop.replies
    assert Member(loop, "new", ["t"]).join().error_code == Code.NONE
    assert loop.join_reply(ticket).error_code == Code.REBALANCE_IN_PROGRESS
    for member in classic:
        member.follow()
    assert kinds(loop) == ["consumer"]


def test_a_static_member_is_upgraded_and_downgraded_in_place() -> None:
    loop = Loop(AT_ONCE)
    classic = stable_classic_group(loop, "one", "two")
    new = Member(loop, "new", ["t"], instance_id="one")
    assert new.join().error_code == Code.NONE
    assert kinds(loop) == ["consumer"]
    assert new.numbers == [0, 1]
    assert classic[0].beat() == Code.FENCED_INSTANCE_ID
    old = ClassicMember(loop, "one")
    ticket = old.join()
    assert kinds(loop) == ["classic"]
    classic[1].generation = -1
    second = classic[1].join()
    loop.advance(10_000)
    assert {old.joined(ticket).error_code, classic[1].joined(second).error_code} == {Code.NONE}


@pytest.mark.parametrize("policy", [MigrationPolicy.DISABLED, MigrationPolicy.DOWNGRADE])
def test_an_upgrade_that_is_not_allowed_is_refused(policy: MigrationPolicy) -> None:
    loop = Loop(replace(AT_ONCE, migration_policy=policy))
    stable_classic_group(loop)
    assert Member(loop, "new", ["t"]).join().error_code == Code.GROUP_ID_NOT_FOUND
    assert kinds(loop) == ["classic"]


def test_without_downgrades_classic_members_stay_in_the_consumer_group() -> None:
    loop = Loop(replace(AT_ONCE, migration_policy=MigrationPolicy.UPGRADE))
    classic = stable_classic_group(loop)
    new = Member(loop, "new", ["t"])
    new.join()
    new.leave()
    for _ in range(2):
        for member in classic:
            member.follow()
    assert kinds(loop) == ["consumer"]
    assert sorted(classic[0].numbers + classic[1].numbers) == [0, 1, 2, 3]


def test_an_empty_group_changes_its_kind_by_the_next_member() -> None:
    loop = Loop(replace(AT_ONCE, migration_policy=MigrationPolicy.DISABLED))
    classic = stable_classic_group(loop)
    for member in classic:
        leave(member)
    new = Member(loop, "new", ["t"])
    assert new.join().error_code == Code.NONE
    assert kinds(loop) == ["consumer"]
    new.leave()
    again = ClassicMember(loop)
    ticket = again.join()
    loop.advance(10_000)
    assert again.joined(ticket).error_code == Code.NONE
    assert kinds(loop) == ["classic"]


def test_classic_members_are_checked_in_a_consumer_group() -> None:
    loop = Loop(AT_ONCE)
    classic = stable_classic_group(loop)
    new = Member(loop, "new", ["t"])
    new.join()
    member = classic[0]
    other = ClassicMember(loop)
    other.member_id, other.generation = "new", new.epoch
    assert other.beat() == Code.UNKNOWN_MEMBER_ID  # it does not speak the classic protocol
    member.generation += 7
    assert member.beat() == Code.ILLEGAL_GENERATION
    assert member.synced(member.sync()) == Code.ILLEGAL_GENERATION
    strange = member.request()
    strange.protocols = [JoinGroupProtocol(name="unknown", metadata=strange.protocols[0].metadata)]
    assert loop.call(strange).error_code == Code.INCONSISTENT_GROUP_PROTOCOL
    loop.advance(20_001)  # nobody has sent a heartbeat: sessions of 10 s
    assert [item.member_id for item in described(loop).members] == ["new"]
