"""Consumer groups at their coordinator: joining, gradual rebalances, fencing, static members, expressions."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ottla.broker.groups.coordinator import GroupConfig
from ottla.broker.groups.coordinator.consumer_groups import heartbeat
from ottla.model.error_codes import Code
from ottla.wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, HeartbeatTopicPartitions
from tests.broker.groups.coordinator.consumer_groups.members import (
    AT_ONCE,
    REBALANCE_TIMEOUT_MS,
    Member,
    described,
    rows,
    settle,
)
from tests.broker.groups.coordinator.driver import Loop

SESSION_MS = GroupConfig().consumer_session_timeout_ms


@pytest.fixture
def loop() -> Loop:
    loop = Loop(AT_ONCE)
    loop.topics.put("t", 4)
    return loop


def test_the_first_member_gets_everything_at_once(loop: Loop) -> None:
    member = Member(loop, "a", ["t"])
    response = member.join()
    assert (response.error_code, response.member_id, response.member_epoch) == (Code.NONE, "a", 1)
    assert response.heartbeat_interval_ms == 5000
    assert member.numbers == [0, 1, 2, 3]
    assert member.beat().assignment is None  # nothing new
    assert described(loop).group_state == "Stable"


def test_a_second_member_gets_its_part_when_the_first_has_given_it_up(loop: Loop) -> None:
    first, second = Member(loop, "a", ["t"]), Member(loop, "b", ["t"])
    first.join()
    assert second.join().member_epoch == 2
    assert second.numbers == []
    assert first.beat().member_epoch == 1  # stays in its epoch until it has given partitions up
    assert first.numbers == [0, 1]
    assert described(loop).group_state == "Reconciling"
    assert given(loop, "a") == [0, 1, 2, 3], "as in Kafka 4.4 (KAFKA-20431)"
    assert first.beat(keep=True).member_epoch == 1
    second.beat()
    assert second.numbers == []
    assert first.beat().member_epoch == 2
    second.beat()
    assert (first.numbers, second.numbers) == ([0, 1], [2, 3])
    assert described(loop).group_state == "Stable"
    assert given(loop, "a") == [0, 1]


def test_a_member_that_waits_for_partitions_is_called_sooner(loop: Loop) -> None:
    first, second = Member(loop, "a", ["t"]), Member(loop, "b", ["t"])
    first.join()
    assert second.join().heartbeat_interval_ms == 1000
    settle(first, second)
    assert second.beat().heartbeat_interval_ms == 5000


def test_members_that_were_called_together_go_apart_and_stay_so(loop: Loop) -> None:
    members = [Member(loop, f"m{number}", ["t"]) for number in range(41)]
    for member in members:
        member.join()
    settle(*members)
    due_ms = {member.member_id: loop.now_ms + member.beat().heartbeat_interval_ms for member in members}
    assert len(set(due_ms.values())) > 20
    assert max(due_ms.values()) - min(due_ms.values()) <= 40
    for member in sorted(members, key=lambda member: due_ms[member.member_id]):
        loop.advance(due_ms[member.member_id] - loop.now_ms)
        assert member.beat().heartbeat_interval_ms == 5000


def test_a_heartbeat_that_is_a_little_early_is_not_called_half_an_interval_sooner(
    loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Java's members count from when they send: a heartbeat that is faster than the last one is early."""
    monkeypatch.setattr(heartbeat, "APART_MS", 100)  # as with thousands of members
    members = [Member(loop, f"m{number}", ["t"]) for number in range(41)]
    for member in members:
        member.join()
    settle(*members)
    one = members[0]
    loop.advance(one.beat().heartbeat_interval_ms)
    assert one.beat().heartbeat_interval_ms == 5000
    loop.advance(5000 - 1)
    assert one.beat().heartbeat_interval_ms == 5000
    loop.advance(5000 + 2)
    assert one.beat().heartbeat_interval_ms == 4999
    loop.advance(2700)
    assert one.beat().heartbeat_interval_ms == 4799  # so late that it goes back to its slot


def test_a_member_that_leaves_gives_its_part_to_the_others(loop: Loop) -> None:
    first, second = Member(loop, "a", ["t"]), Member(loop, "b", ["t"])
    first.join(), second.join()
    settle(first, second)
    response = first.leave()
    assert (response.error_code, response.member_epoch) == (Code.NONE, -1)
    settle(second)
    assert second.numbers == [0, 1, 2, 3]
    assert first.beat().error_code == Code.UNKNOWN_MEMBER_ID


def test_a_member_without_heartbeats_is_removed(loop: Loop) -> None:
    first, second = Member(loop, "a", ["t"]), Member(loop, "b", ["t"])
    first.join(), second.join()
    settle(first, second)
    loop.advance(SESSION_MS - 1)
    second.beat()
    loop.advance(1)
    settle(second)
    assert second.numbers == [0, 1, 2, 3]
    assert first.beat().error_code == Code.UNKNOWN_MEMBER_ID


def test_a_group_may_have_times_of_its_own(loop: Loop) -> None:
    loop.overrides["g"] = {"consumer.session.timeout.ms": 50_000, "consumer.heartbeat.interval.ms": 7_000}
    member = Member(loop, "a", ["t"])
    assert member.join().heartbeat_interval_ms == 7_000
    loop.advance(49_999)
    assert member.beat().error_code == Code.NONE
    loop.advance(50_000)
    assert member.beat().error_code == Code.UNKNOWN_MEMBER_ID


def test_a_member_that_gives_nothing_up_in_time_is_removed(loop: Loop) -> None:
    first, second = Member(loop, "a", ["t"]), Member(loop, "b", ["t"])
    first.join(), first.beat(), second.join()
    first.beat(keep=True)
    loop.advance(REBALANCE_TIMEOUT_MS - 1)
    assert first.beat(keep=True).error_code == Code.NONE
    second.beat()
    assert second.numbers == []
    loop.advance(1)
    assert first.beat(keep=True).error_code == Code.UNKNOWN_MEMBER_ID
    settle(second)
    assert second.numbers == [0, 1, 2, 3]


def test_epochs_fence(loop: Loop) -> None:
    first, second = Member(loop, "a", ["t"]), Member(loop, "b", ["t"])
    first.join(), second.join()
    settle(first, second)
    assert first.ask(member_epoch=9).error_code == Code.FENCED_MEMBER_EPOCH
    foreign = [HeartbeatTopicPartitions(topic_id=bytes(16), partitions=[0])]
    fenced = first.ask(member_epoch=1, topic_partitions=foreign)
    assert fenced.error_code == Code.FENCED_MEMBER_EPOCH, "it has what is not its own"
    assert first.ask(member_epoch=1, topic_partitions=[]).member_epoch == 2  # the answer was lost
    assert first.join().member_epoch == 2  # a member may always join again
    assert first.numbers == [0, 1]


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"group_id": " "}, Code.INVALID_REQUEST),
        ({"member_id": ""}, Code.INVALID_REQUEST),
        ({"instance_id": ""}, Code.INVALID_REQUEST),
        ({"rack_id": ""}, Code.INVALID_REQUEST),
        ({"member_epoch": -3}, Code.INVALID_REQUEST),
        ({"member_epoch": -2}, Code.INVALID_REQUEST),
        ({"rebalance_timeout_ms": -1}, Code.INVALID_REQUEST),
        ({"subscribed_topic_names": None}, Code.INVALID_REQUEST),
        ({"topic_partitions": None}, Code.INVALID_REQUEST),
        ({"server_assignor": "best"}, Code.UNSUPPORTED_ASSIGNOR),
        ({"subscribed_topic_regex": "("}, Code.INVALID_REGULAR_EXPRESSION),
        ({"subscribed_topic_regex": "a)(b"}, Code.INVALID_REGULAR_EXPRESSION),
        ({"subscribed_topic_regex": "(a)\\1"}, Code.INVALID_REGULAR_EXPRESSION),
        ({"subscribed_topic_regex": "a" * 5000}, Code.INVALID_REGULAR_EXPRESSION),
        ({"member_epoch": 1}, Code.GROUP_ID_NOT_FOUND),
        ({"member_epoch": -1}, Code.GROUP_ID_NOT_FOUND),
    ],
)
def test_wrong_requests_are_refused(loop: Loop, fields: dict[str, object], error: Code) -> None:
    response = Member(loop, "a", ["t"]).join(**fields)
    assert (response.error_code, bool(response.error_message)) == (error, True)
    assert loop.log == []


def test_before_version_1_the_broker_names_the_member(loop: Loop) -> None:
    member = Member(loop, "", ["t"])
    ask = member.loop.call
    member.loop.call = lambda request: ask(request, 0)  # type: ignore[method-assign, assignment]
    assert member.join().member_id == "id1"


def test_a_group_has_at_most_so_many_members() -> None:
    loop = Loop(replace(AT_ONCE, consumer_member_count_max=1))
    assert Member(loop, "a", ["t"]).join().error_code == Code.NONE
    assert Member(loop, "b", ["t"]).join().error_code == Code.GROUP_MAX_SIZE_REACHED


def test_a_static_member_comes_back_to_a_full_group() -> None:
    """As in Kafka 4.4 (KAFKA-20601): it takes its own former seat."""
    loop = Loop(replace(AT_ONCE, consumer_member_count_max=1))
    loop.topics.put("t", 1)
    first = Member(loop, "a", ["t"], instance_id="i")
    first.join()
    first.leave(-2)
    assert Member(loop, "b", ["t"], instance_id="i").join().error_code == Code.NONE
    assert Member(loop, "c", ["t"], instance_id="j").join().error_code == Code.GROUP_MAX_SIZE_REACHED


def test_an_empty_group_waits_for_no_assignment(loop: Loop) -> None:
    """As in Kafka 4.4 (KAFKA-20442), however the last member went."""
    left, silent = Member(loop, "a", ["t"]), Member(loop, "b", ["t"])
    left.join()
    left.leave()
    assert (described(loop).group_epoch, described(loop).assignment_epoch) == (2, 2)
    silent.join()
    loop.advance(SESSION_MS)
    assert described(loop).group_state == "Empty"
    assert (described(loop).group_epoch, described(loop).assignment_epoch) == (4, 4)


def test_topics_that_come_grow_and_go(loop: Loop) -> None:
    member = Member(loop, "a", ["t", "later"])
    member.join()
    later = loop.topics.put("later", 1)
    settle(member)
    assert (later, 0) in member.told
    loop.topics.put("t", 6)
    settle(member)
    assert len(member.told) == 7
    loop.topics.remove("t")
    settle(member)
    assert member.told == {(later, 0)}


def test_replicas_in_other_racks_begin_a_new_epoch(loop: Loop) -> None:
    """As in Kafka since 4.1 (KIP-1101), whose assignors do not look at racks either."""
    member = Member(loop, "a", ["t"])
    loop.topics.place("t", [["x", "y"], ["x"], ["y"], []])
    assert member.join().member_epoch == 1
    had = set(member.told)
    loop.topics.place("t", [["y", "x"], ["x"], ["y"], []])  # another leader, the same racks
    assert member.beat().member_epoch == 1
    loop.topics.place("t", [["y", "x"], ["z"], ["y"], []])
    settle(member)
    assert (member.epoch, member.told) == (2, had)
    loop.topics.place("t", [])
    settle(member)
    assert member.epoch == 3


def test_a_changed_subscription_changes_the_assignment(loop: Loop) -> None:
    other = loop.topics.put("other", 2)
    member = Member(loop, "a", ["t"])
    member.join()
    member.beat(subscribed_topic_names=["other"])
    settle(member)
    assert member.told == {(other, 0), (other, 1)}


def test_topics_by_a_regular_expression(loop: Loop) -> None:
    orders = loop.topics.put("orders.eu", 1)
    member = Member(loop, "a", None, subscribed_topic_regex="orders\\..*")
    member.join()
    assert member.told == {(orders, 0)}
    more = loop.topics.put("orders.us", 1)
    loop.topics.put("my.orders.us", 1)
    settle(member)
    assert member.told == {(orders, 0), (more, 0)}
    loop.restart()
    settle(member)
    assert member.told == {(orders, 0), (more, 0)}
    member.beat(subscribed_topic_regex="", subscribed_topic_names=["t"])
    settle(member)
    assert member.numbers == [0, 1, 2, 3]
    assert described(loop).members[0].subscribed_topic_regex is None


def test_a_member_confirms_an_assignment_before_it_gets_the_next(loop: Loop) -> None:
    """librdkafka says nothing of a partition that comes and goes while its application is busy."""
    first, second = Member(loop, "a", ["t"]), Member(loop, "b", ["t"])
    first.join()
    second.join()
    for _ in range(3):
        first.take(first.ask())
        second.beat()
    assert (first.numbers, second.numbers) == ([0, 1, 2, 3], [])
    first.beat(keep=True)
    assert len(first.numbers) == 2, "it has said what it owns"
    settle(first, second)
    assert sorted(first.numbers + second.numbers) == [0, 1, 2, 3]


def test_a_member_that_confirms_nothing_gets_the_next_assignment_after_a_while(loop: Loop) -> None:
    first, second = Member(loop, "a", ["t"]), Member(loop, "b", ["t"])
    first.join()
    second.join()
    counts = []
    for _ in range(3):
        loop.advance(10_000)
        second.beat()
        first.take(first.ask())
        counts.append(len(first.numbers))
    assert counts == [4, 4, 2]


@pytest.mark.parametrize("tells", [False, True], ids=["plain", "tells"])
def test_a_member_that_missed_the_order_to_give_up_gets_it_again(loop: Loop, tells: bool) -> None:
    """librdkafka drops an answer that is late, and sends its next heartbeat as if there had been none."""
    first, second = Member(loop, "a", ["t"]), Member(loop, "b", ["t"])
    first.join(), first.beat(), second.join()
    owned = {"topic_partitions": rows(first.owned)} if tells else {}
    first.ask(**owned)  # the answer is lost
    first.take(first.ask(**owned))
    assert first.numbers == [0, 1]
    settle(first, second)
    assert second.numbers == [2, 3]


def test_a_member_that_missed_its_new_epoch_is_told_again_and_keeps_what_it_has(loop: Loop) -> None:
    first, second = Member(loop, "a", ["t"]), Member(loop, "b", ["t"])
    first.join(), second.join()
    settle(first, second)
    second.leave()
    first.ask()  # the answer, with a new epoch and more partitions, is lost
    assert first.epoch == 2
    again = first.take(first.ask())
    assert (again.error_code, again.member_epoch, first.numbers) == (Code.NONE, 3, [0, 1, 2, 3])
    settle(first)


def test_a_member_that_missed_its_new_epoch_is_not_moved_on_before_it_knows(loop: Loop) -> None:
    first, second = Member(loop, "a", ["t"]), Member(loop, "b", ["t"])
    first.join(), second.join()
    settle(first, second)
    for number in range(3):
        Member(loop, f"c{number}", ["other"]).join()  # the group has a new epoch, and nothing moves
        assert first.ask().error_code == Code.NONE, "no answer reaches it, and it is not fenced"
    assert first.beat().error_code == Code.NONE


def test_topics_by_name_come_before_those_of_a_new_expression(loop: Loop) -> None:
    """As Kafka answers, and as librdkafka's test 0045 expects; the member is called soon for the rest."""
    orders, payments = loop.topics.put("orders.eu", 1), loop.topics.put("payments", 1)
    member = Member(loop, "a", ["payments"], subscribed_topic_regex="orders\\..*")
    soon_ms = member.join().heartbeat_interval_ms
    assert member.told == {(payments, 0)}
    usual_ms = member.beat().heartbeat_interval_ms
    assert member.told == {(payments, 0), (orders, 0)}
    assert soon_ms < usual_ms
    other = Member(loop, "b", ["payments"], subscribed_topic_regex="orders\\..*")
    other.join()
    settle(member, other)
    assert member.told | other.told == {(payments, 0), (orders, 0)}, "the expression is not new"


def test_a_static_member_comes_back_to_its_partitions(loop: Loop) -> None:
    first, second = Member(loop, "a", ["t"], instance_id="i"), Member(loop, "b", ["t"])
    first.join(), second.join()
    settle(first, second)
    had, epoch = first.numbers, described(loop).group_epoch
    returned = Member(loop, "c", ["t"], instance_id="i")
    assert returned.join().error_code == Code.UNRELEASED_INSTANCE_ID
    assert first.leave(-2).member_epoch == -2
    second.beat()
    assert returned.join().error_code == Code.NONE
    assert (returned.numbers, described(loop).group_epoch) == (had, epoch)
    assert first.beat().error_code == Code.FENCED_INSTANCE_ID
    returned.fields["instance_id"] = "j"
    assert returned.beat().error_code == Code.UNKNOWN_MEMBER_ID


def test_a_static_member_that_stays_away_loses_its_partitions(loop: Loop) -> None:
    first, second = Member(loop, "a", ["t"], instance_id="i"), Member(loop, "b", ["t"])
    first.join(), second.join()
    settle(first, second)
    first.leave(-2)
    loop.advance(SESSION_MS - 1)
    second.beat()
    assert len(second.numbers) == 2
    loop.advance(1)
    settle(second)
    assert second.numbers == [0, 1, 2, 3]


def test_the_range_assignor_where_most_members_ask_for_it(loop: Loop) -> None:
    loop.topics.put("u", 4)
    members = [Member(loop, name, ["t", "u"], server_assignor="range") for name in "ab"]
    for member in members:
        member.join()
    settle(*members)
    assert [member.numbers for member in members] == [[0, 0, 1, 1], [2, 2, 3, 3]]
    assert described(loop).assignor_name == "range"


def test_another_assignor_that_most_ask_for_makes_another_assignment(loop: Loop) -> None:
    """As in Kafka 4.4 (KAFKA-20434), when static members come back with another wish."""
    loop.topics.put("u", 4)
    members = [Member(loop, name, ["t", "u"], instance_id=name, server_assignor="uniform") for name in "ab"]
    for member in members:
        member.join()
    settle(*members)
    epoch = described(loop).group_epoch
    returned = [Member(loop, f"{one.member_id}2", one.topics, **one.fields) for one in members]
    for former, member in zip(members, returned, strict=True):
        former.leave(-2)
        member.fields["server_assignor"] = "range"
        member.join()
    settle(*returned)
    assert (described(loop).assignor_name, described(loop).group_epoch) == ("range", epoch + 1)
    assert [member.numbers for member in returned] == [[0, 0, 1, 1], [2, 2, 3, 3]]


def test_everything_survives_a_restart(loop: Loop) -> None:
    members = [Member(loop, name, ["t"], rack_id="r1") for name in "abc"]
    for member in members:
        member.join()
    settle(*members)
    before = described(loop)
    loop.restart()
    assert described(loop) == before
    settle(*members)
    assert described(loop) == before
    loop.advance(SESSION_MS)
    loop.restart()
    assert described(loop).members == []


def test_a_rebalance_that_a_restart_interrupts_goes_on(loop: Loop) -> None:
    first, second = Member(loop, "a", ["t"]), Member(loop, "b", ["t"])
    first.join(), first.beat(), second.join()
    first.beat(keep=True)
    loop.restart()
    settle(first, second)
    assert (first.numbers, second.numbers) == ([0, 1], [2, 3])


def test_requests_wait_while_records_are_on_their_way(loop: Loop) -> None:
    loop.holding = True
    first, second = Member(loop, "a", ["t"]), Member(loop, "b", ["t"])
    tickets = [
        loop.send(_joining(first)),
        loop.send(_joining(second)),
        loop.send(_joining(Member(loop, "c", ["t"]))),
    ]
    assert len(loop.pending) == 1
    loop.settle(Code.NOT_LEADER_OR_FOLLOWER)
    assert loop.replies[tickets[0]].error_code == Code.NOT_COORDINATOR  # type: ignore[attr-defined]
    while loop.pending:
        loop.settle()
    assert [loop.replies[ticket].member_epoch for ticket in tickets[1:]] == [1, 2]  # type: ignore[attr-defined]
    assert [member.member_id for member in described(loop).members] == ["b", "c"]


def given(loop: Loop, member_id: str) -> list[int]:
    """The partitions that a description of the group gives a member."""
    (member,) = (member for member in described(loop).members if member.member_id == member_id)
    return [number for topic in member.assignment.topic_partitions for number in topic.partitions]


def _joining(member: Member) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id=member.member_id,
        rebalance_timeout_ms=1000,
        subscribed_topic_names=member.topics,
        topic_partitions=[],
    )
