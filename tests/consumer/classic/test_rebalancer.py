"""When a member does what, by a clock that is told."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from ottla.consumer.classic.rebalancer import (
    HEALTH_TABLE,
    FailurePolicy,
    HealthEvent,
    MemberAction,
    Rebalancer,
    RebalanceTimes,
)
from ottla.consumer.reading.health import Health
from ottla.model.errors import OttlaError
from ottla.model.topic_partition import TopicAndPartition
from ottla.zookeeper.session import SessionState

TIMES = RebalanceTimes()
PLACE = TopicAndPartition("orders", 3)
FAILURE = OttlaError("no luck")


@pytest.fixture
def member() -> Rebalancer:
    return Rebalancer(TIMES, random.Random(1))


@pytest.fixture
def stable(member: Rebalancer) -> Rebalancer:
    """Balanced at 0."""
    member.session_changed(SessionState.CONNECTED, 0)
    member.registered(0)
    member.balanced(0)
    member.confirmed(0)
    return member


def test_without_a_session_nothing_is_done(member: Rebalancer) -> None:
    assert member.next_action(1e9) is None
    assert member.health is Health.JOINING


def test_a_member_registers_and_then_rebalances(member: Rebalancer) -> None:
    member.session_changed(SessionState.CONNECTED, 0)
    assert member.next_action(0) is MemberAction.REGISTER
    member.registered(5)
    assert member.next_action(5) is MemberAction.REBALANCE
    member.balanced(9)
    assert member.health is Health.STABLE
    assert member.next_action(9) is MemberAction.CONFIRM


def test_many_events_are_one_rebalance_after_a_short_pause(stable: Rebalancer) -> None:
    for now_ms in (100, 110, 120, 130):
        stable.group_changed(now_ms)
    assert stable.next_action(120) is None
    assert stable.next_action(150) is MemberAction.REBALANCE
    assert 125 <= stable.next_due_ms() <= 150
    assert stable.health is Health.REBALANCING
    stable.balanced(160)
    assert stable.next_action(160) is None


def test_a_failed_attempt_comes_again_after_the_backoff_or_with_the_next_event(stable: Rebalancer) -> None:
    stable.group_changed(0)
    stable.failed(MemberAction.REBALANCE, FAILURE, 100)
    assert stable.next_action(1500) is None
    assert stable.next_action(2100) is MemberAction.REBALANCE
    stable.group_changed(200)
    assert stable.next_action(250) is MemberAction.REBALANCE


def test_a_member_that_fails_again_and_again_says_so_and_goes_on(stable: Rebalancer) -> None:
    now_ms = 0.0
    for _ in range(4):
        stable.failed(MemberAction.REBALANCE, FAILURE, now_ms)
        now_ms = stable.next_due_ms() if stable.next_due_ms() > now_ms else now_ms + 2000
        stable.confirmed(now_ms)
    stable.failed(MemberAction.REBALANCE, FAILURE, now_ms)
    assert stable.health is Health.DEGRADED
    assert "no luck" in stable.reason
    for _ in range(10):
        stable.failed(MemberAction.REBALANCE, FAILURE, now_ms)
    assert stable.next_action(now_ms + 8 * 2000) is not None
    stable.balanced(now_ms)
    assert stable.health is Health.STABLE


def test_events_do_not_use_the_retries_up_before_a_dead_members_session_can_expire(
    stable: Rebalancer,
) -> None:
    for now_ms in range(0, 1000, 100):
        stable.failed(MemberAction.REBALANCE, FAILURE, now_ms)
    assert stable.health is not Health.DEGRADED


def test_by_policy_it_ends_instead() -> None:
    times = RebalanceTimes(max_retries=1, failure_policy=FailurePolicy.RAISE)
    member = Rebalancer(times, random.Random(1))
    member.session_changed(SessionState.CONNECTED, 0)
    member.registered(0)
    member.failed(MemberAction.REBALANCE, FAILURE, 10)
    assert member.health is Health.FAILED
    assert member.next_action(1e9) is None


@pytest.mark.parametrize("action", [MemberAction.INSPECT, MemberAction.CONFIRM, MemberAction.RENEW])
def test_what_is_not_about_the_group_may_fail_and_comes_again_later(
    stable: Rebalancer, action: MemberAction
) -> None:
    for now_ms in range(0, 20_000, 2000):
        stable.failed(action, FAILURE, now_ms)
        assert stable.next_action(now_ms + 1000) is not action
        assert stable.health is Health.STABLE
        assert stable.next_due_ms() <= now_ms + 2000


def test_an_action_that_lost_its_session_does_not_come_again_at_once(stable: Rebalancer) -> None:
    stable.interrupted(MemberAction.CONFIRM, 2000)
    assert stable.next_action(2000) is None
    assert stable.health is Health.REBALANCING


def test_suspended_it_waits_and_comes_back_with_a_look(stable: Rebalancer) -> None:
    stable.session_changed(SessionState.SUSPENDED, 100)
    assert stable.health is Health.SUSPENDED
    assert stable.next_action(1e9) is None
    stable.session_changed(SessionState.CONNECTED, 200)
    assert stable.next_action(200) is MemberAction.CONFIRM
    assert stable.next_action(250) is MemberAction.REBALANCE


def test_a_lost_session_means_registering_anew(stable: Rebalancer) -> None:
    stable.session_changed(SessionState.LOST, 100)
    assert stable.health is Health.LOST
    stable.session_changed(SessionState.CONNECTED, 200)
    assert stable.next_action(200) is MemberAction.REGISTER


def test_a_registration_that_somebody_deleted_is_made_again(stable: Rebalancer) -> None:
    stable.unregistered()
    assert stable.next_action(10) is MemberAction.REGISTER
    stable.registered(20)
    assert stable.next_action(20) is MemberAction.REBALANCE


def test_a_partition_that_nobody_reads_is_something_to_be_done_about(stable: Rebalancer) -> None:
    stable.inspected({PLACE}, 5000)
    assert stable.health is Health.STABLE
    stable.inspected({PLACE}, 9000)
    assert stable.next_action(9000) is MemberAction.CONFIRM
    stable.inspected({PLACE}, 15_000)
    assert stable.health is Health.DEGRADED
    assert "orders-3" in stable.reason
    assert stable.next_action(15_000) is MemberAction.REBALANCE
    stable.balanced(15_010)
    assert stable.health is Health.DEGRADED, "a rebalance alone proves nothing"
    assert stable.next_action(15_010) is MemberAction.RENEW
    stable.renewed()
    stable.inspected((), 20_000)
    assert stable.health is Health.STABLE


def test_the_group_is_roused_less_and_less_often(stable: Rebalancer) -> None:
    roused = []
    for now_ms in range(0, 200_000, 1000):
        stable.inspected({PLACE}, now_ms)
        if stable.next_action(now_ms) is MemberAction.REBALANCE:
            stable.balanced(now_ms)
            stable.renewed()
            roused.append(now_ms)
    gaps = [later - earlier for earlier, later in pairwise(roused)]
    assert roused[0] == 10_000
    assert gaps == sorted(gaps)
    assert max(gaps) <= 80_000


def test_an_id_that_another_session_keeps_ends_a_new_member(member: Rebalancer) -> None:
    member.session_changed(SessionState.CONNECTED, 0)
    for now_ms in (0, 2000, 4000):
        member.id_refused(FAILURE, now_ms, now_ms)
        assert member.health is Health.JOINING
        assert member.next_action(now_ms + 2000) is MemberAction.REGISTER
    member.id_refused(FAILURE, 6000, 6000)
    assert (member.health, member.reason) == (Health.FAILED, "no luck")


def test_a_refusal_that_is_read_late_does_not_count(member: Rebalancer) -> None:
    member.session_changed(SessionState.CONNECTED, 0)
    member.id_refused(FAILURE, 0, 0)
    member.id_refused(FAILURE, 2000, 9000)  # the process stood still; the other session may have ended
    assert member.health is Health.JOINING
    assert member.next_action(9000) is MemberAction.REGISTER
    member.id_refused(FAILURE, 9000, 9010)
    assert member.health is Health.FAILED


def test_the_former_session_of_a_member_may_hold_its_id_for_a_while(stable: Rebalancer) -> None:
    stable.session_changed(SessionState.LOST, 0)
    stable.session_changed(SessionState.CONNECTED, 10)
    for now_ms in range(10, 9000, 2000):
        stable.id_refused(FAILURE, now_ms, now_ms)
    assert stable.health is Health.DEGRADED
    stable.registered(9000)
    stable.balanced(9010)
    assert stable.health is Health.STABLE


def test_every_live_state_can_end_and_no_end_is_left() -> None:
    ends = {Health.FAILED, Health.CLOSED}
    assert {state for state, _ in HEALTH_TABLE} == set(Health) - ends - {Health.SUSPENDED}
    for state, event in HEALTH_TABLE:
        assert HEALTH_TABLE[state, event] is not state, (state, event)
    assert all((state, HealthEvent.CLOSED) in HEALTH_TABLE for state, _ in HEALTH_TABLE)


def test_closed_is_closed(stable: Rebalancer) -> None:
    stable.close()
    stable.group_changed(0)
    assert stable.next_action(1e9) is None
    assert stable.health is Health.CLOSED
