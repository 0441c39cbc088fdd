"""The classic consumer on Apache Kafka 0.9, which cuts a message that does not fit into a response (F35)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ottla import Admin, ConsumerConnector, Health, Producer, TopicAndPartition
from ottla.model.errors import MessageSizeTooLarge
from tests.naming import name_after_test
from tests.waiting import PATIENCE_S, wait_for
from tools.peers import KAFKA_0_9, RealKafka

LIMIT = 10_000


@pytest.fixture(params=[KAFKA_0_9])
def kafka(request: pytest.FixtureRequest, real_kafka: Callable[[str], RealKafka]) -> RealKafka:
    return real_kafka(request.param)


@pytest.fixture
def partition(kafka: RealKafka, request: pytest.FixtureRequest) -> TopicAndPartition:
    """Two small messages, one above the limit, two small ones; each was sent by itself."""
    topic = name_after_test(request)[:100]
    with Producer(bootstrap_servers=kafka.bootstrap, broker_version="0.9", linger_ms=0) as producer:
        for size in (10, 10, 2 * LIMIT, 10, 10):
            producer.send(topic, b"x" * size, partition=0).result(PATIENCE_S)
    return TopicAndPartition(topic, 0)


def test_a_message_that_is_too_large_is_shown_until_it_is_skipped(
    kafka: RealKafka, partition: TopicAndPartition
) -> None:
    settings: dict[str, Any] = {
        "group_id": partition.topic,
        "zookeeper_connect": kafka.zookeeper,
        "zookeeper_connection_timeout_ms": 30_000,
        "broker_version": "0.9",
        "auto_offset_reset": "smallest",
        "fetch_message_max_bytes": LIMIT,
        "fetch_wait_max_ms": 50,
    }
    with (
        ConsumerConnector(settings) as one,
        Admin(
            bootstrap_servers=kafka.bootstrap, zookeeper_connect=kafka.zookeeper, broker_version="0.9"
        ) as admin,
    ):
        (stream,) = one.create_message_streams({partition.topic: 1})[partition.topic]

        def told() -> set[str]:
            return {row.stopped for row in admin.group_lag(one.group_id).partitions} - {""}

        assert [next(stream).offset for _ in range(2)] == [0, 1]
        for _ in range(2):  # a retry finds the same
            with pytest.raises(MessageSizeTooLarge, match=r"skip\(\) the message: that goes on at offset 3"):
                next(stream)
            assert (list(one.stopped), one.health) == ([partition], Health.DEGRADED)
            one.retry(partition)
        wait_for(lambda: one.stopped, "it is stopped again")
        wait_for(lambda: told() == {"stopped by MessageSizeTooLarge"}, lambda: f"lag shows it: {told()}")
        assert one.metrics().health is Health.DEGRADED
        assert one.skip(partition) == 3
        assert [next(stream).offset for _ in range(2)] == [3, 4]
        assert (one.stopped, one.health) == ({}, Health.STABLE)
        wait_for(lambda: not told(), "lag shows it no more")
        one.seek(partition, 4)
        assert next(stream).offset == 4
