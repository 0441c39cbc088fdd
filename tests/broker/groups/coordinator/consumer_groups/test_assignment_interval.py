"""Members that join together share a target assignment (group.consumer.assignment.interval.ms, KIP-1263)."""

from __future__ import annotations

import pytest

from ottla.broker.groups.coordinator import GroupConfig
from ottla.model.error_codes import Code
from tests.broker.groups.coordinator.consumer_groups.classic_members import stable_classic_group
from tests.broker.groups.coordinator.consumer_groups.members import Member, described, settle
from tests.broker.groups.coordinator.driver import Loop

INTERVAL_MS = GroupConfig().consumer_assignment_interval_ms
MEMBERS = 8


@pytest.fixture
def loop() -> Loop:
    loop = Loop()
    loop.topics.put("t", MEMBERS)
    return loop


def epochs(loop: Loop) -> tuple[int, int]:
    group = described(loop)
    return group.group_epoch, group.assignment_epoch


def test_members_that_join_together_share_one_target(loop: Loop) -> None:
    members = [Member(loop, f"m{number}", ["t"]) for number in range(MEMBERS)]
    for member in members:
        assert member.join().error_code == Code.NONE
        assert member.epoch == 1  # that of the target that there is
    assert epochs(loop) == (MEMBERS, 1)
    assert [member.numbers for member in members] == [list(range(MEMBERS)), *([] for _ in members[1:])]
    loop.advance(INTERVAL_MS)
    settle(*members)
    assert epochs(loop) == (MEMBERS, MEMBERS)
    assert sorted(number for member in members for number in member.numbers) == list(range(MEMBERS))
    assert {len(member.numbers) for member in members} == {1}


def test_members_are_called_for_when_the_next_target_may_be_made(loop: Loop) -> None:
    first, second = Member(loop, "a", ["t"]), Member(loop, "b", ["t"])
    assert first.join().heartbeat_interval_ms == INTERVAL_MS
    loop.advance(INTERVAL_MS - 300)
    assert second.join().heartbeat_interval_ms == 300
    loop.advance(290)
    assert first.beat().heartbeat_interval_ms == 100  # at least
    loop.advance(10)
    assert first.beat().assignment is not None
    loop.advance(INTERVAL_MS)
    settle(first, second)
    assert first.beat().heartbeat_interval_ms == GroupConfig().consumer_heartbeat_interval_ms


def test_a_group_may_have_an_interval_of_its_own(loop: Loop) -> None:
    loop.overrides["g"] = {"consumer.assignment.interval.ms": 0}
    for name in ("a", "b"):
        Member(loop, name, ["t"]).join()
    assert epochs(loop) == (2, 2)


def test_a_clock_that_was_set_back_delays_no_target(loop: Loop) -> None:
    Member(loop, "a", ["t"]).join()
    loop.now_ms -= 3_600_000
    Member(loop, "b", ["t"]).join()
    assert epochs(loop) == (2, 2)


def test_the_interval_counts_through_a_restart(loop: Loop) -> None:
    first, second = Member(loop, "a", ["t"]), Member(loop, "b", ["t"])
    first.join()
    loop.restart()
    second.join()
    assert epochs(loop) == (2, 1)
    loop.advance(INTERVAL_MS)
    settle(first, second)
    assert len(second.numbers) == MEMBERS // 2


def test_what_a_member_does_not_want_any_more_it_gives_up_before_the_next_target(loop: Loop) -> None:
    loop.topics.put("u", 2)
    member = Member(loop, "a", ["t", "u"])
    member.join()
    member.beat(subscribed_topic_names=["u"])
    assert epochs(loop) == (2, 1)
    assert {topic_id[:1] for topic_id, _ in member.told} == {b"u"}


def test_a_classic_member_joins_again_when_there_is_a_target_for_it(loop: Loop) -> None:
    old, other = stable_classic_group(loop)
    new = Member(loop, "a", ["t"])
    new.join()  # an upgraded group has no target of its own: the first one is made at once
    old.follow()
    other.follow()
    settle(new)
    late = Member(loop, "b", ["t"])
    late.join()
    assert old.beat() == Code.NONE  # the target is not made yet
    loop.advance(INTERVAL_MS)
    assert old.beat() == Code.REBALANCE_IN_PROGRESS  # its join makes it
    old.follow()
    assert epochs(loop)[0] == epochs(loop)[1]
