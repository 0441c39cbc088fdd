"""One member, step by step, against answers that a coordinator gives."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.consumer.coordinated.assignors import ASSIGNORS
from ottla.consumer.coordinated.member import GroupConsumerMember
from ottla.consumer.coordinated.member_config import MemberConfig
from ottla.consumer.coordinated.member_state import TRANSITIONS, AssignmentChange, MemberState
from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError, RemoteProtocolError
from ottla.model.topic_partition import TopicAndPartition
from ottla.wire.api.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.api.join_group import JoinGroupMember, JoinGroupRequest, JoinGroupResponse
from ottla.wire.api.leave_group import LeaveGroupRequest
from ottla.wire.api.sync_group import SyncGroupResponse
from ottla.wire.consumer_protocol import Assignment, decode_subscription, encode_assignment

A0, A1, A2 = (TopicAndPartition("a", number) for number in range(3))


def member(*strategy: str, **settings: Any) -> GroupConsumerMember:
    assignors = tuple(ASSIGNORS[name] for name in strategy or ("range",))
    return GroupConsumerMember(
        MemberConfig("g", assignors, **settings), ["a"], lambda failures: 100.0 * failures
    )


def asked(one: GroupConsumerMember, now_ms: float, version: int = 5) -> Any:
    request = one.next_request(now_ms)
    assert request is not None
    return request.build(version)


def take(
    one: GroupConsumerMember, *places: TopicAndPartition, generation: int = 1, now_ms: float = 0
) -> AssignmentChange:
    """Through a rebalance, up to what is demanded of the application."""
    one.polled(now_ms)
    assert isinstance(asked(one, now_ms), JoinGroupRequest)
    joined = JoinGroupResponse(generation_id=generation, member_id="m", leader="x", protocol_name="range")
    one.answered(joined, now_ms)
    asked(one, now_ms)
    one.answered(SyncGroupResponse(assignment=encode_assignment(Assignment(places))), now_ms)
    assert one.change is not None
    return one.change


def beat(one: GroupConsumerMember, code: int, now_ms: float) -> None:
    assert isinstance(asked(one, now_ms), HeartbeatRequest)
    one.answered(HeartbeatResponse(error_code=code), now_ms)


def test_nothing_is_asked_before_the_application_polls() -> None:
    one = member()
    assert one.next_request(0) is None
    assert one.next_at_ms() is None
    one.polled(0)
    assert isinstance(asked(one, 0), JoinGroupRequest)
    assert one.next_request(0) is None  # one request at a time


def test_heartbeats_go_on_while_the_application_takes_and_gives_back() -> None:
    one = member()
    assert take(one, A0, A1).assigned == {A0, A1}
    beat(one, 0, 3_000)
    assert one.next_request(5_999) is None
    assert one.next_at_ms() == 6_000
    one.change_done()
    assert (one.state, one.owned) == (MemberState.STABLE, {A0, A1})
    beat(one, Code.REBALANCE_IN_PROGRESS, 6_000)
    assert one.change == AssignmentChange(
        frozenset({A0, A1}), frozenset(), is_lost=False, membership=one.membership
    )
    beat(one, Code.REBALANCE_IN_PROGRESS, 9_000)  # nothing new
    one.change_done()
    request = asked(one, 9_000)
    assert request.member_id == "m"
    told = decode_subscription(request.protocols[0].metadata)
    assert (told.owned, told.generation) == ((), 1)


def test_a_young_member_hears_soon_of_those_that_start_with_it() -> None:
    one = member()
    take(one, A0)
    one.change_done()
    for now_ms in (100, 200, 400, 800, 1_600, 3_200, 6_200, 9_200):
        assert one.next_at_ms() == now_ms
        assert one.next_request(now_ms - 1) is None
        beat(one, 0, now_ms)
    beat(one, Code.REBALANCE_IN_PROGRESS, 12_200)
    one.change_done()
    take(one, A0, generation=2, now_ms=12_300)
    assert one.next_at_ms() == 15_300  # it is not young any more


def test_a_leader_that_waits_for_partition_counts_rebalances_once() -> None:
    """Its driver asks for requests meanwhile. The last generation, if any, is older than a session."""
    one, now_ms = member("cooperative-sticky"), 100_000
    one.polled(now_ms)
    metadata = asked(one, now_ms).protocols[0].metadata
    members = [JoinGroupMember(member_id="m", metadata=metadata)]
    joined = JoinGroupResponse(
        generation_id=1, member_id="m", leader="m", protocol_name="cooperative-sticky", members=members
    )
    one.answered(joined, now_ms)
    assert one.next_request(now_ms) is None
    one.set_partition_counts(frozenset({"a"}), {"a": 1})
    asked(one, now_ms)
    one.answered(SyncGroupResponse(assignment=encode_assignment(Assignment((A0,)))), now_ms)
    one.change_done()
    assert (one.state, one.owned) == (MemberState.STABLE, {A0})


def test_a_cooperative_member_keeps_what_it_has_and_gives_up_what_it_must() -> None:
    one = member("cooperative-sticky")
    take(one, A0, A1)
    one.change_done()
    beat(one, Code.REBALANCE_IN_PROGRESS, 3_000)
    assert one.change is None
    change = take(one, A1, A2, generation=2, now_ms=3_000)
    assert (change.revoked, change.assigned) == ({A0}, {A2})
    one.change_done()
    told = decode_subscription(asked(one, 3_000).protocols[0].metadata)  # again, so that A0 finds an owner
    assert (set(told.owned), told.generation) == ({A1, A2}, 2)


@pytest.mark.parametrize(("code", "left"), [(Code.UNKNOWN_MEMBER_ID, ""), (Code.ILLEGAL_GENERATION, "m")])
def test_who_is_out_of_the_group_loses_its_partitions(code: Code, left: str) -> None:
    one = member()
    take(one, A0)
    one.change_done()
    beat(one, code, 3_000)
    assert one.change is not None
    assert (one.change.revoked, one.change.is_lost) == ({A0}, True)
    assert one.next_request(60_000) is None  # no heartbeat in the name of nobody
    one.change_done()
    assert asked(one, 60_000).member_id == left
    assert "is out of the group" in one.notices[0].text


@pytest.mark.parametrize("code", [Code.MEMBER_ID_REQUIRED, Code.UNKNOWN_SERVER_ERROR])
def test_an_odd_answer_to_a_heartbeat_does_not_change_the_members_id(code: Code) -> None:
    one = member()
    take(one, A0)
    one.change_done()
    beat(one, code, 3_000)
    assert (one.membership.member_id, one.state, one.change) == ("m", MemberState.STABLE, None)
    beat(one, Code.NONE, 6_000)


def test_refused_heartbeats_end_the_membership_when_the_session_is_over() -> None:
    one = member(session_timeout_ms=10_000)
    take(one, A0)
    one.change_done()
    for now_ms in (3_000, 6_000, 9_000):
        beat(one, Code.GROUP_AUTHORIZATION_FAILED, now_ms)
        assert (one.state, one.failure) == (MemberState.STABLE, None)
    beat(one, Code.GROUP_AUTHORIZATION_FAILED, 12_000)
    assert one.state is MemberState.FAILED
    assert isinstance(one.failure, KafkaError)


def test_a_heartbeat_that_another_process_has_fenced_ends_the_membership_at_once() -> None:
    one = member()
    take(one, A0)
    one.change_done()
    beat(one, Code.FENCED_INSTANCE_ID, 3_000)
    assert one.state is MemberState.FAILED


@pytest.mark.parametrize("given", ["", "m"])
def test_a_coordinator_that_asks_for_an_id_and_gives_no_new_one_is_asked_after_a_pause(given: str) -> None:
    one = member()
    one.polled(0)
    for now_ms, member_id in ((0, "m"), (0, given)):
        asked(one, now_ms)
        refusal = JoinGroupResponse(error_code=Code.MEMBER_ID_REQUIRED, member_id=member_id)
        one.answered(refusal, now_ms)
    assert one.next_request(0) is None
    assert asked(one, 60_000).member_id == "m"


def test_a_demand_that_is_not_begun_is_out_of_date_when_the_member_is_out() -> None:
    one = member()
    take(one, A0)
    one.change_done()
    beat(one, Code.REBALANCE_IN_PROGRESS, 3_000)
    beat(one, Code.UNKNOWN_MEMBER_ID, 6_000)
    change = one.due_change()
    assert change is not None
    assert (change.revoked, change.is_lost) == ({A0}, True)
    assert one.due_change() == change
    other = member()
    take(other, A0)
    beat(other, Code.UNKNOWN_MEMBER_ID, 3_000)
    assert other.due_change() is None
    assert (other.state, other.owned) == (MemberState.JOINING, frozenset())


def test_who_is_out_while_it_takes_partitions_gives_them_back_at_once() -> None:
    one = member()
    take(one, A0)
    beat(one, Code.UNKNOWN_MEMBER_ID, 3_000)
    one.change_done()
    assert one.change is not None
    assert (one.change.revoked, one.change.is_lost) == ({A0}, True)
    one.change_done()
    assert (one.state, one.owned) == (MemberState.JOINING, frozenset())


def test_an_application_that_does_not_poll_leaves_with_numbers_and_comes_back() -> None:
    one = member(max_poll_interval_ms=10_000, session_timeout_ms=60_000)
    take(one, A0)
    one.change_done()
    beat(one, 0, 3_000)
    assert one.next_at_ms() == 6_000
    beat(one, 0, 9_000)
    assert one.next_at_ms() == 10_000
    assert isinstance(asked(one, 10_500), LeaveGroupRequest)
    assert "10500 ms since the last poll, and max.poll.interval.ms is 10000" in one.notices[-1].text
    assert one.change is not None
    assert one.change.is_lost
    one.unanswered(10_500)
    one.change_done()
    assert one.next_request(20_000) is None  # not before the application is back
    one.polled(20_000)
    assert asked(one, 20_000).member_id == ""


def test_static_members_do_not_leave() -> None:
    one = member(instance_id="i", max_poll_interval_ms=10_000, session_timeout_ms=60_000)
    take(one, A0)
    one.change_done()
    assert one.next_request(10_000) is None
    assert one.change is not None
    again = member(instance_id="i")
    take(again, A0)
    assert again.leave() is None
    dynamic = member()
    take(dynamic, A0)
    leave = dynamic.leave()
    assert leave is not None
    assert leave.build(2).member_id == "m"  # type: ignore[attr-defined]
    assert [who.member_id for who in leave.build(3).members] == ["m"]  # type: ignore[attr-defined]
    assert dynamic.next_request(60_000) is None


def test_what_cannot_be_repeated_ends_the_membership_with_a_remedy() -> None:
    one = member(instance_id="i")
    take(one, A0)
    one.change_done()
    beat(one, Code.FENCED_INSTANCE_ID, 3_000)
    assert isinstance(one.failure, KafkaError)
    assert "group 'g' (another process uses the same group.instance.id" in str(one.failure)
    assert one.next_request(60_000) is None


def test_a_membership_that_ends_while_the_application_is_at_it_stays_ended() -> None:
    one = member(instance_id="i")
    take(one, A0)
    beat(one, Code.FENCED_INSTANCE_ID, 3_000)
    one.change_done()
    assert (one.state, one.owned) == (MemberState.FAILED, {A0})
    one.leave()
    assert one.state is MemberState.LEFT


def test_the_answer_to_a_sync_from_before_a_retry_is_ignored() -> None:
    one = member()
    one.polled(0)
    asked(one, 0)
    one.answered(JoinGroupResponse(generation_id=1, member_id="m", leader="x", protocol_name="range"), 0)
    asked(one, 0)
    one.fail(KafkaError(Code.TOPIC_AUTHORIZATION_FAILED))
    one.retry()
    one.answered(SyncGroupResponse(assignment=encode_assignment(Assignment((A0,)))), 0)
    assert (one.state, one.change) == (MemberState.JOINING, None)
    assert take(one, A0, generation=2).assigned == {A0}


def test_a_coordinator_that_is_elsewhere_or_loading_is_asked_again_later() -> None:
    one = member()
    one.polled(0)
    for number, code in enumerate([Code.COORDINATOR_LOAD_IN_PROGRESS, Code.NOT_COORDINATOR], 1):
        asked(one, 1000 * number)
        one.answered(JoinGroupResponse(error_code=code), 1000 * number)
        assert one.next_at_ms() == 1000 * number + 100 * number
        assert one.next_request(1000 * number) is None
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
    change = take(one, A0, TopicAndPartition("b", 0))
    assert change.assigned == {TopicAndPartition("b", 0)}
    one.change_done()
    assert one.state is MemberState.REVOKING


def test_every_state_can_be_left_for_good() -> None:
    ends = {MemberState.LEFT, MemberState.FAILED}
    for state in MemberState:
        targets = set(TRANSITIONS[state].values())
        assert state is MemberState.LEFT or targets & ends
