from __future__ import annotations

from types import MappingProxyType

from ottla.model.cluster_view import (
    EMPTY,
    NO_LEADER,
    BrokerNode,
    ClusterView,
    LeaderHint,
    PartitionLeader,
    PartitionView,
    TopicView,
)
from ottla.model.error_codes import Code

ONE, TWO, THREE = (BrokerNode(number, f"kafka-{number}", 9092) for number in (1, 2, 3))
ID, OTHER_ID = b"a" * 16, b"b" * 16


def view(*topics: TopicView, brokers: tuple[BrokerNode, ...] = (ONE, TWO), **more: object) -> ClusterView:
    return ClusterView(
        brokers=MappingProxyType({node.broker_id: node for node in brokers}),
        topics=MappingProxyType({topic.name: topic for topic in topics}),
        **more,  # type: ignore[arg-type]
    )


def topic(*leaders: tuple[int, int], topic_id: bytes = ID, error: int = 0) -> TopicView:
    partitions = (PartitionView(index, leader, epoch) for index, (leader, epoch) in enumerate(leaders))
    return TopicView("t", topic_id, tuple(partitions), error)


def test_a_leader_is_a_broker_and_an_epoch() -> None:
    known = view(topic((1, 5), (NO_LEADER, 3), (9, 1)))
    assert known.leader_of("t", 0) == PartitionLeader(ONE, 5)
    assert known.leader_of("t", 1) is None, "nobody leads"
    assert known.leader_of("t", 2) is None, "a broker that is not in the view"
    assert known.leader_of("t", 3) is None
    assert known.leader_of("u", 0) is None
    assert EMPTY.leader_of("t", 0) is None


def test_epochs_never_go_back() -> None:
    after = view(topic((1, 5), (1, 5))).updated(view(topic((2, 4), (2, 6))))
    assert after.leader_of("t", 0) == PartitionLeader(ONE, 5)
    assert after.leader_of("t", 1) == PartitionLeader(TWO, 6)


def test_without_epochs_the_last_answer_is_right() -> None:
    after = view(topic((1, -1))).updated(view(topic((2, -1))))
    assert after.leader_of("t", 0) == PartitionLeader(TWO, -1)


def test_another_topic_of_the_same_name_begins_anew() -> None:
    after = view(topic((1, 5), (1, 5))).updated(view(topic((2, 0), topic_id=OTHER_ID)))
    assert after.leader_of("t", 0) == PartitionLeader(TWO, 0)
    assert len(after.topics["t"].partitions) == 1


def test_partitions_that_an_answer_from_before_does_not_have_stay() -> None:
    after = view(topic((1, 5), (1, 5))).updated(view(topic((2, 6))))
    assert after.leader_of("t", 1) == PartitionLeader(ONE, 5)


def test_an_error_keeps_what_was_known_and_its_epochs() -> None:
    failed = view(topic((1, 5))).updated(view(topic(error=Code.UNKNOWN_TOPIC_OR_PARTITION)))
    assert failed.topics["t"].error == Code.UNKNOWN_TOPIC_OR_PARTITION
    assert failed.topics["t"].topic_id == ID
    back = failed.updated(view(topic((2, 4))))
    assert back.topics["t"].error == Code.NONE
    assert back.leader_of("t", 0) == PartitionLeader(ONE, 5)


def test_brokers_are_those_of_the_newest_answer_and_other_topics_stay() -> None:
    known = view(topic((1, 1)), cluster_id="c")
    after = known.updated(view(TopicView("u"), brokers=(TWO,), fetched_at_ms=7.0))
    assert set(after.brokers) == {2}
    assert set(after.topics) == {"t", "u"}
    assert after.cluster_id == "c"
    assert after.fetched_at_ms == 7.0


def test_a_whole_view_takes_topics_away() -> None:
    after = view(topic((1, 1))).updated(view(TopicView("u"), is_whole=True))
    assert set(after.topics) == {"u"}


def test_another_cluster_takes_the_place_of_this_one() -> None:
    after = view(topic((1, 9)), cluster_id="c").updated(view(TopicView("u"), cluster_id="d"))
    assert set(after.topics) == {"u"}


def test_hints_tell_newer_leaders_only() -> None:
    known = view(topic((1, 5), (1, 5)))
    after = known.hinted([LeaderHint("t", 0, 3, 6), LeaderHint("t", 1, 3, 5)], [THREE])
    assert after.leader_of("t", 0) == PartitionLeader(THREE, 6)
    assert after.leader_of("t", 1) == PartitionLeader(ONE, 5)
    assert known.hinted([LeaderHint("t", 0, 3, 4), LeaderHint("u", 0, 3, 9)], [THREE]) is known
    assert known.hinted([LeaderHint("t", 0, 3, 6)]) is known, "nobody knows where broker 3 is"


def test_partitions_are_found_by_number_also_where_some_are_missing() -> None:
    odd = TopicView("t", partitions=(PartitionView(1, 1), PartitionView(4, 2)))
    assert odd.partition(4) == PartitionView(4, 2)
    assert odd.partition(0) is None
