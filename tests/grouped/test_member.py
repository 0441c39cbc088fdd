"""One member, step by step, against answers that a coordinator gives."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.fetching import TopicAndPartition
from ottla.grouped.assignors import ASSIGNORS
from ottla.grouped.config import MemberConfig
from ottla.grouped.consumer_protocol import Assignment, decode_subscription, encode_assignment
from ottla.grouped.demands import Demand
from ottla.grouped.member import Member
from ottla.grouped.member_state import MOVES, State
from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError, RemoteProtocolError
from ottla.wire.api.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.api.join_group import JoinGroupRequest, JoinGroupResponse
from ottla.wire.api.leave_group import LeaveGroupRequest
from ottla.wire.api.sync_group import SyncGroupResponse

A0, A1, A2 = (TopicAndPartition("a", number) for number in range(3))


def member(*strategy: str, **settings: Any) -> Member:
    assignors = tuple(ASSIGNORS[name] for name in strategy or ("range",))
    return Member(MemberConfig("g", assignors, **settings), ["a"], lambda failures: 100.0 * failures)


def asked(one: Member, now_ms: float, version: int = 5) -> Any:
    ask = one.next(now_ms)
    assert ask is not None
    return ask.request(version)


def take(one: Member, *places: TopicAndPartition, generation: int = 1, now_ms: float = 0) -> Demand:
    """Through a rebalance, up to what is demanded of the application."""
    one.polled(now_ms)
    assert isinstance(asked(one, now_ms), JoinGroupRequest)
    joined = JoinGroupResponse(generation_id=generation, member_id="m", leader="x", protocol_name="range")
    one.answered(joined, now_ms)
    asked(one, now_ms)
    one.answered(SyncGroupResponse(assignment=encode_assignment(Assignment(places))), now_ms)
    assert one.demand is not None
    return one.demand


def beat(one: Member, code: int, now_ms: float) -> None:
    assert isinstance(asked(one, now_ms), HeartbeatRequest)
    one.answered(HeartbeatResponse(error_code=code), now_ms)


def test_nothing_is_asked_before_the_application_polls() -> None:
    one = member()
    assert one.next(0) is None
    assert one.next_at_ms() is None
    one.polled(0)
    assert isinstance(asked(one, 0), JoinGroupRequest)
    assert one.next(0) is None  # one request at a time


def test_heartbeats_go_on_while_the_application_takes_and_gives_back() -> None:
    one = member()
    assert take(one, A0, A1).take == {A0, A1}
    assert one.next(2_999) is None
    assert one.next_at_ms() == 3_000
    beat(one, 0, 3_000)
    one.done()
    assert (one.state, one.held) == (State.STABLE, {A0, A1})
    beat(one, Code.REBALANCE_IN_PROGRESS, 6_000)
    assert one.demand == Demand(frozenset({A0, A1}), frozenset(), is_lost=False, membership=one.membership)
    beat(one, Code.REBALANCE_IN_PROGRESS, 9_000)  # nothing new
    one.done()
    request = asked(one, 9_000)
    assert request.member_id == "m"
    told = decode_subscription(request.protocols[0].metadata)
    assert (told.owned, told.generation) == ((), 1)


def test_a_cooperative_member_keeps_what_it_has_and_gives_up_what_it_must() -> None:
    one = member("cooperative-sticky")
    take(one, A0, A1)
    one.done()
    beat(one, Code.REBALANCE_IN_PROGRESS, 3_000)
    assert one.demand is None
    demand = take(one, A1, A2, generation=2, now_ms=3_000)
    assert (demand.give_back, demand.take) == ({A0}, {A2})
    one.done()
    told = decode_subscription(asked(one, 3_000).protocols[0].metadata)  # again, so that A0 finds an owner
    assert (set(told.owned), told.generation) == ({A1, A2}, 2)


@pytest.mark.parametrize(("code", "left"), [(Code.UNKNOWN_MEMBER_ID, ""), (Code.ILLEGAL_GENERATION, "m")])
def test_who_is_out_of_the_group_loses_its_partitions(code: Code, left: str) -> None:
    one = member()
    take(one, A0)
    one.done()
    beat(one, code, 3_000)
    assert one.demand is not None
    assert (one.demand.give_back, one.demand.is_lost) == ({A0}, True)
    assert one.next(60_000) is None  # no heartbeat in the name of nobody
    one.done()
    assert asked(one, 60_000).member_id == left
    assert "is out of the group" in one.notices[0].text


def test_a_demand_that_is_not_begun_is_out_of_date_when_the_member_is_out() -> None:
    one = member()
    take(one, A0)
    one.done()
    beat(one, Code.REBALANCE_IN_PROGRESS, 3_000)
    beat(one, Code.UNKNOWN_MEMBER_ID, 6_000)
    demand = one.take_demand()
    assert demand is not None
    assert (demand.give_back, demand.is_lost) == ({A0}, True)
    assert one.take_demand() == demand
    other = member()
    take(other, A0)
    beat(other, Code.UNKNOWN_MEMBER_ID, 3_000)
    assert other.take_demand() is None
    assert (other.state, other.held) == (State.JOINING, frozenset())


def test_who_is_out_while_it_takes_partitions_gives_them_back_at_once() -> None:
    one = member()
    take(one, A0)
    beat(one, Code.UNKNOWN_MEMBER_ID, 3_000)
    one.done()
    assert one.demand is not None
    assert (one.demand.give_back, one.demand.is_lost) == ({A0}, True)
    one.done()
    assert (one.state, one.held) == (State.JOINING, frozenset())


def test_an_application_that_does_not_poll_leaves_with_numbers_and_comes_back() -> None:
    one = member(max_poll_interval_ms=10_000, session_timeout_ms=60_000)
    take(one, A0)
    one.done()
    assert one.next_at_ms() == 3_000
    beat(one, 0, 9_000)
    assert one.next_at_ms() == 10_000
    assert isinstance(asked(one, 10_500), LeaveGroupRequest)
    assert "10500 ms since the last poll, and max.poll.interval.ms is 10000" in one.notices[-1].text
    assert one.demand is not None
    assert one.demand.is_lost
    one.unanswered(10_500)
    one.done()
    assert one.next(20_000) is None  # not before the application is back
    one.polled(20_000)
    assert asked(one, 20_000).member_id == ""


def test_static_members_do_not_leave() -> None:
    one = member(instance_id="i", max_poll_interval_ms=10_000, session_timeout_ms=60_000)
    take(one, A0)
    one.done()
    assert one.next(10_000) is None
    assert one.demand is not None
    again = member(instance_id="i")
    take(again, A0)
    assert again.depart() is None
    dynamic = member()
    take(dynamic, A0)
    leave = dynamic.depart()
    assert leave is not None
    assert leave.request(2).member_id == "m"
    assert [who.member_id for who in leave.request(3).members] == ["m"]
    assert dynamic.next(60_000) is None


def test_what_cannot_be_repeated_ends_the_membership_with_a_remedy() -> None:
    one = member(instance_id="i")
    take(one, A0)
    one.done()
    beat(one, Code.FENCED_INSTANCE_ID, 3_000)
    assert isinstance(one.failure, KafkaError)
    assert "group 'g' (another process uses the same group.instance.id" in str(one.failure)
    assert one.next(60_000) is None


def test_a_membership_that_ends_while_the_application_is_at_it_stays_ended() -> None:
    one = member(instance_id="i")
    take(one, A0)
    beat(one, Code.FENCED_INSTANCE_ID, 3_000)
    one.done()
    assert (one.state, one.held) == (State.FAILED, {A0})
    one.depart()
    assert one.state is State.LEFT


def test_a_coordinator_that_is_elsewhere_or_loading_is_asked_again_later() -> None:
    one = member()
    one.polled(0)
    for number, code in enumerate([Code.COORDINATOR_LOAD_IN_PROGRESS, Code.NOT_COORDINATOR], 1):
        asked(one, 1000 * number)
        one.answered(JoinGroupResponse(error_code=code), 1000 * number)
        assert one.next_at_ms() == 1000 * number + 100 * number
        assert one.next(1000 * number) is None
    assert one.is_coordinator_doubtful


def test_nonsense_from_the_coordinator_is_an_error() -> None:
    one = member()
    one.polled(0)
    asked(one, 0)
    one.answered(JoinGroupResponse(generation_id=1, member_id="m", leader="m", protocol_name="strange"), 0)
    assert isinstance(one.failure, RemoteProtocolError)
    other = member()
    other.polled(0)
    asked(other, 0)
    other.answered(JoinGroupResponse(generation_id=1, member_id="m", leader="x"), 0)
    asked(other, 0)
    other.answered(SyncGroupResponse(assignment=b"\0"), 0)
    assert isinstance(other.failure, RemoteProtocolError)


def test_partitions_that_are_not_wanted_any_more_are_not_taken() -> None:
    one = member()
    one.subscribe(["b"])
    demand = take(one, A0, TopicAndPartition("b", 0))
    assert demand.take == {TopicAndPartition("b", 0)}
    one.done()
    assert one.state is State.REVOKING


def test_every_state_can_be_left_for_good() -> None:
    ends = {State.LEFT, State.FAILED}
    for state in State:
        targets = {target for (origin, _), target in MOVES.items() if origin is state}
        assert state is State.LEFT or targets & ends
