"""How long the next record of a group has waited: by its own time, wherever it is in the log."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from ottla import EmbeddedBroker, PartitionConsumer, Producer
from ottla.admin import Admin, NewTopic, TopicAndPartition
from tests.waiting import wait_for
from tools.peers import KAFKA_4, RealKafka

ERROR_S = 1.0
"""The most that a lag may be wrong, however long the machine takes for the question."""
SLACK_S = 600.0
"""Of a lag whose question is not timed: records are hours apart."""
HOUR_MS = 3_600_000
BEGAN_MS = int(time.time() * 1000)


@pytest.fixture(scope="module", params=["ottla", KAFKA_4])
def bootstrap(request: pytest.FixtureRequest, real_kafka: Callable[[str], RealKafka]) -> Iterator[str]:
    if request.param == "ottla":
        with EmbeddedBroker() as broker:
            yield broker.bootstrap
    else:
        yield real_kafka(request.param).bootstrap


@pytest.fixture(scope="module")
def admin(bootstrap: str) -> Iterator[Admin]:
    with Admin(bootstrap_servers=bootstrap) as opened:
        yield opened


def hours_ago(hours: int) -> int:
    """Before these tests began."""
    return BEGAN_MS - hours * HOUR_MS


class Lag(NamedTuple):
    """What a group was told, and from when to when it was asked."""

    seconds: dict[int, float | None]
    total: float | None
    since_s: float
    until_s: float


def lag(admin: Admin, group: str, **offsets: int) -> Lag:
    """By partition, of a group with these offsets: topic_partition=offset."""
    places = {}
    for name, offset in offsets.items():
        topic, _, partition = name.rpartition("_")
        places[TopicAndPartition(topic.replace("_", "-"), int(partition))] = offset
    admin.alter_group_offsets(group, places)
    since_s = time.time()
    told = admin.group_lag(group)
    by_partition = {row.topic_partition.partition: row.seconds for row in told.partitions}
    return Lag(by_partition, told.seconds, since_s, time.time())


def assert_hours(told: Lag, expected: dict[int, int]) -> None:
    """The age of the record of so many hours ago; 0: nothing is behind."""
    assert told.seconds.keys() == expected.keys()
    for partition, hours in expected.items():
        assert_age(told, told.seconds[partition], hours)
    assert_age(told, told.total, max(expected.values()))


def assert_age(told: Lag, found: float | None, hours: int) -> None:
    if hours == 0:
        assert found == 0.0
        return
    written_s = hours_ago(hours) / 1000
    assert found is not None
    assert told.since_s - written_s - ERROR_S <= found <= told.until_s - written_s + ERROR_S


def test_the_age_of_the_record_at_the_committed_offset(bootstrap: str, admin: Admin) -> None:
    """Small, large and compressed batches, the middle of a batch, an idle partition, an empty one."""
    admin.create_topics(NewTopic("lag-seconds", partitions=4, replication_factor=1))
    with Producer(bootstrap_servers=bootstrap, compression_type="gzip", linger_ms=200) as producer:
        for number in range(10):
            producer.send("lag-seconds", b"small", partition=0, timestamp_ms=hours_ago(10 - number))
            producer.send("lag-seconds", b"read", partition=2, timestamp_ms=hours_ago(9))
    with Producer(bootstrap_servers=bootstrap) as producer:
        for hours in (5, 4, 3):
            producer.send("lag-seconds", bytes(300_000), partition=1, timestamp_ms=hours_ago(hours))
    told = lag(admin, "g-seconds", lag_seconds_0=7, lag_seconds_1=1, lag_seconds_2=10, lag_seconds_3=0)
    assert_hours(told, {0: 3, 1: 4, 2: 0, 3: 0})


def test_several_groups_each_get_the_age_of_their_own_record(bootstrap: str, admin: Admin) -> None:
    admin.create_topics(NewTopic("shared-lag", partitions=1, replication_factor=1))
    with Producer(bootstrap_servers=bootstrap) as producer:
        for hours in (4, 3, 2):
            producer.send("shared-lag", b"record", timestamp_ms=hours_ago(hours))
    place = TopicAndPartition("shared-lag", 0)
    groups = {"g-first": 0, "g-same": 0, "g-third": 2, "g-done": 3}
    for group, offset in groups.items():
        admin.alter_group_offsets(group, {place: offset})
    since_s = time.time()
    seconds = {group: lag.seconds for group, lag in admin.group_lag(groups).items()}
    told = Lag({}, None, since_s, time.time())
    for group, hours in {"g-first": 4, "g-same": 4, "g-third": 2, "g-done": 0}.items():
        assert_age(told, seconds[group], hours)


def test_truncated_logs_and_offsets_behind_the_end(bootstrap: str, admin: Admin) -> None:
    admin.create_topics(NewTopic("cut-off", partitions=2, replication_factor=1))
    with Producer(bootstrap_servers=bootstrap) as producer:
        for hours in (8, 7, 6, 5):
            for partition in range(2):
                producer.send("cut-off", b"v", partition=partition, timestamp_ms=hours_ago(hours)).result(60)
    admin.delete_records({TopicAndPartition("cut-off", 0): 2})
    assert_hours(lag(admin, "g-cut", cut_off_0=0, cut_off_1=99), {0: 6, 1: 0})


def test_markers_of_transactions_are_nothing_to_read(bootstrap: str, admin: Admin) -> None:
    admin.create_topics(NewTopic("marked", partitions=1, replication_factor=1))
    with Producer(bootstrap_servers=bootstrap, transactional_id="lag-seconds") as producer:
        with producer.transaction():
            producer.send("marked", b"v", timestamp_ms=hours_ago(2))
        assert_hours(lag(admin, "g-marked", marked_0=1), {0: 0})  # only the marker is behind
        with producer.transaction():
            producer.send("marked", b"v", timestamp_ms=hours_ago(1))
    assert_hours(lag(admin, "g-marked", marked_0=1), {0: 1})
    assert_hours(lag(admin, "g-marked", marked_0=0), {0: 2})


def test_a_compacted_log() -> None:
    """The record at the committed offset is gone: the next one counts."""
    quick = {"log.cleaner.backoff.ms": 50}
    with EmbeddedBroker(properties=quick) as broker, Admin(bootstrap_servers=broker.bootstrap) as admin:
        configs = {"cleanup.policy": "compact", "segment.bytes": "300", "min.cleanable.dirty.ratio": "0.01"}
        admin.create_topics(NewTopic("compacted", partitions=1, replication_factor=1, configs=configs))
        with Producer(bootstrap_servers=broker.bootstrap) as producer:
            for number in range(12):
                sent = producer.send("compacted", b"v" * 50, key=b"k", timestamp_ms=hours_ago(20 - number))
                sent.result(60)

        def first() -> int:
            with PartitionConsumer(bootstrap_servers=broker.bootstrap) as consumer:
                return next(iter(consumer.consume_partition("compacted", 0, "earliest"))).offset

        wait_for(lambda: first() > 2, "old values of the key are gone")
        while True:  # the cleaner may go on meanwhile
            oldest = first()
            told = lag(admin, "g", compacted_0=1)
            if first() == oldest:
                break
        assert_hours(told, {0: 20 - oldest})
