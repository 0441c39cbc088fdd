"""Offsets of logs, and the deletion of records, on the embedded broker."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from ottla import OffsetSpec, Producer
from ottla.admin import MAX_TIMESTAMP, Admin, LogOffset, NewTopic, TopicAndPartition
from ottla.broker.embedded import EmbeddedBroker
from ottla.model.error_codes import Code
from ottla.model.errors import AdminErrors, ConfigError, KafkaError

NOON_MS = 1_600_000_000_000


@pytest.fixture
def filled(brokers: EmbeddedBroker, topic: str) -> str:
    """Ten records a partition, one a second from noon on."""
    with Producer(bootstrap_servers=brokers.bootstrap) as producer:
        for number in range(30):
            stamp = NOON_MS + 1000 * (number // 3)
            producer.send(topic, b"x", partition=number % 3, timestamp_ms=stamp)
    return topic


def at_ms(time_ms: int) -> datetime:
    return datetime.fromtimestamp(time_ms / 1000, UTC)


def offsets(found: dict[TopicAndPartition, LogOffset]) -> list[int | None]:
    return [found[place].offset for place in sorted(found)]


def test_beginnings_ends_and_times(admin: Admin, filled: str) -> None:
    assert offsets(admin.list_offsets(filled)) == [10, 10, 10]
    assert offsets(admin.list_offsets(filled, "earliest")) == [0, 0, 0]
    assert offsets(admin.list_offsets([filled], at_ms(NOON_MS + 3500))) == [4, 4, 4]
    assert offsets(admin.list_offsets(filled, at_ms(NOON_MS + 3_600_000))) == [None] * 3
    moment = datetime.fromtimestamp(NOON_MS / 1000 + 2, UTC)
    one = admin.list_offsets(TopicAndPartition(filled, 1), moment)
    assert (one.offset, one.timestamp_ms, one.leader_epoch) == (2, NOON_MS + 2000, 0)
    assert offsets(admin.list_offsets(filled, MAX_TIMESTAMP)) == [9, 9, 9]
    assert offsets(admin.list_offsets(filled, committed_only=True)) == [10, 10, 10]


def test_each_partition_may_have_a_moment_of_its_own(admin: Admin, filled: str) -> None:
    places = [TopicAndPartition(filled, number) for number in range(3)]
    moments = dict(zip(places, ["earliest", "latest", at_ms(NOON_MS + 5000)], strict=True))
    assert offsets(admin.list_offsets(moments)) == [0, 10, 5]


def test_a_hundred_partitions_take_one_request_a_broker(
    admin: Admin, brokers: EmbeddedBroker, name: str
) -> None:
    admin.create_topics(NewTopic(name, partitions=100, replication_factor=1))
    asked: list[int] = []
    brokers.drop("ListOffsets", times=-1, when=lambda _: bool(asked.append(1)))  # never strikes
    assert len(admin.list_offsets(name)) == 100
    assert len(asked) == 3


def test_of_many_each_has_its_own_outcome(admin: Admin, filled: str) -> None:
    beyond = TopicAndPartition(filled, 77)
    with pytest.raises(
        AdminErrors, match=r"2 of 5 failed.*has 3 partitions, and none with number 77"
    ) as caught:
        admin.list_offsets([filled, "missing", beyond])
    assert set(caught.value.errors) == {"missing", beyond}
    assert offsets(dict(caught.value.results)) == [10, 10, 10]
    with pytest.raises(KafkaError, match="UNKNOWN_TOPIC_OR_PARTITION"):
        admin.list_offsets(beyond)
    with pytest.raises(ConfigError, match="at=-9: give a number"):
        admin.list_offsets(filled, -9)
    with pytest.raises(ConfigError, match="at=7: this is an offset; give 'earliest'"):
        admin.list_offsets(filled, 7)
    with pytest.raises(ConfigError, match="at='noon': neither 'earliest' nor"):
        admin.list_offsets(filled, "noon")


def test_a_leader_that_has_moved_is_looked_up(admin: Admin, brokers: EmbeddedBroker, filled: str) -> None:
    rule = brokers.fail("ListOffsets", Code.NOT_LEADER_OR_FOLLOWER, times=2)
    assert offsets(admin.list_offsets(filled)) == [10, 10, 10]
    assert rule.struck == 2
    leader = admin.describe_topics(filled).partitions[0].leader
    assert leader is not None
    brokers.stop_broker(leader)
    assert offsets(admin.list_offsets(filled)) == [10, 10, 10]


def test_records_are_deleted(admin: Admin, filled: str) -> None:
    first, second, third = (TopicAndPartition(filled, number) for number in range(3))
    assert admin.delete_records({first: 4, second: "latest"}) == {first: 4, second: 10}
    assert offsets(admin.list_offsets(filled, "earliest")) == [4, 10, 0]
    with pytest.raises(AdminErrors, match=r"1 of 2 failed.*OFFSET_OUT_OF_RANGE") as caught:
        admin.delete_records({first: 5, third: 11})
    assert caught.value.results == {first: 5}
    with pytest.raises(ConfigError, match="before=-1: give a number"):
        admin.delete_records({first: -1})


def test_records_before_a_time_are_deleted(admin: Admin, filled: str) -> None:
    first, second, third = (TopicAndPartition(filled, number) for number in range(3))
    ends: dict[TopicAndPartition, OffsetSpec] = {
        first: at_ms(NOON_MS + 3500),
        second: "earliest",
        third: timedelta(seconds=1),
    }
    assert admin.delete_records(ends) == {first: 4, second: 0, third: 10}
    with pytest.raises(AdminErrors, match="UNKNOWN_TOPIC_OR_PARTITION"):
        admin.delete_records({first: 5, TopicAndPartition("missing", 0): "earliest"})
    assert offsets(admin.list_offsets(filled, "earliest")) == [5, 0, 10]
