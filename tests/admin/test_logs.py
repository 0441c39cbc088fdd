"""Offsets of logs, and the deletion of records, on the embedded broker."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from ottla import Producer
from ottla.admin import END_OF_LOG, Admin, AdminErrors, At, LogOffset, NewTopic, TopicAndPartition
from ottla.broker.embedded import EmbeddedBroker
from ottla.model.error_codes import Code
from ottla.model.errors import ConfigError, KafkaError

NOON_MS = 1_600_000_000_000


@pytest.fixture
def filled(brokers: EmbeddedBroker, topic: str) -> str:
    """Ten records a partition, one a second from noon on."""
    with Producer(bootstrap_servers=brokers.bootstrap) as producer:
        for number in range(30):
            stamp = NOON_MS + 1000 * (number // 3)
            producer.send(topic, b"x", partition=number % 3, timestamp_ms=stamp)
    return topic


def offsets(found: dict[TopicAndPartition, LogOffset]) -> list[int | None]:
    return [found[place].offset for place in sorted(found)]


def test_beginnings_ends_and_times(admin: Admin, filled: str) -> None:
    assert offsets(admin.list_offsets(filled)) == [10, 10, 10]
    assert offsets(admin.list_offsets(filled, At.EARLIEST)) == [0, 0, 0]
    assert offsets(admin.list_offsets([filled], NOON_MS + 3500)) == [4, 4, 4]
    assert offsets(admin.list_offsets(filled, NOON_MS + 3_600_000)) == [None] * 3
    moment = datetime.fromtimestamp(NOON_MS / 1000 + 2, UTC)
    one = admin.list_offsets(TopicAndPartition(filled, 1), moment)
    assert (one.offset, one.timestamp_ms, one.leader_epoch) == (2, NOON_MS + 2000, 0)
    assert offsets(admin.list_offsets(filled, At.MAX_TIMESTAMP)) == [9, 9, 9]
    assert offsets(admin.list_offsets(filled, committed_only=True)) == [10, 10, 10]


def test_each_partition_may_have_a_moment_of_its_own(admin: Admin, filled: str) -> None:
    places = [TopicAndPartition(filled, number) for number in range(3)]
    moments = dict(zip(places, [At.EARLIEST, At.LATEST, NOON_MS + 5000], strict=True))
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
    with pytest.raises(ConfigError, match="-9 is no time"):
        admin.list_offsets(filled, -9)
    with pytest.raises(ConfigError, match=r"'noon' is no time: .* or a datetime"):
        admin.list_offsets(filled, "noon")  # type: ignore[call-overload]


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
    assert admin.delete_records({first: 4, second: END_OF_LOG}) == {first: 4, second: 10}
    assert offsets(admin.list_offsets(filled, At.EARLIEST)) == [4, 10, 0]
    with pytest.raises(AdminErrors, match=r"1 of 2 failed.*OFFSET_OUT_OF_RANGE") as caught:
        admin.delete_records({first: 5, third: 11})
    assert caught.value.results == {first: 5}
