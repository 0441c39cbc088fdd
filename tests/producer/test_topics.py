"""Topics that come later, grow, are deleted and made again, or have partitions that nobody leads."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from ottla.broker.embedded import EmbeddedBroker
from ottla.model.errors import ConfigError
from ottla.producer import Producer
from ottla.producer.partitioners import PartitionerChoice, TopicPartitioner
from ottla.wire.api.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from tests.blocking_client import BlockingClient
from tests.producer.reading import values

TIMEOUT_S = 60


def producer(broker: EmbeddedBroker, **properties: Any) -> Producer:
    return Producer(bootstrap_servers=broker.bootstrap, retry_backoff_ms=5, **properties)


def grow(broker: EmbeddedBroker, topic: str, count: int) -> None:
    host, port = broker.bootstrap.split(":")
    with BlockingClient(host, int(port)) as client:
        wanted = CreatePartitionsTopic(name=topic, count=count, assignments=None)
        answer = client.call(CreatePartitionsRequest(topics=[wanted], timeout_ms=30_000, validate_only=False))
    assert [one.error_code for one in answer.results] == [0]


def test_records_wait_for_a_topic_that_is_made_later(broker: EmbeddedBroker, topic: str) -> None:
    later = f"{topic}-later"
    with producer(broker, allow_auto_create_topics=False) as one:
        told = [one.send(later, b"%d" % n, partition=0) for n in range(10)]
        with pytest.raises(TimeoutError):
            told[0].result(0.05)
        broker.create_topic(later, 1)
        assert [sent.result(TIMEOUT_S).offset for sent in told] == list(range(10))


def test_partitions_that_are_added_are_used(broker: EmbeddedBroker, topic: str) -> None:
    with producer(broker, metadata_max_age_ms=50, linger_ms=0) as one:
        assert one.send(topic, b"v", partition=2).result(TIMEOUT_S).partition == 2
        grow(broker, topic, 5)
        seen = set()
        while 4 not in seen:  # records without a key take turns, so it comes once it is known
            seen.add(one.send(topic, b"v").result(TIMEOUT_S).partition)
        assert one.send(topic, b"v", partition=4).result(TIMEOUT_S).offset > 0


def test_a_topic_that_is_made_anew_is_written_from_its_beginning(broker: EmbeddedBroker, topic: str) -> None:
    with producer(broker) as one:
        assert one.send_batch(topic, pa.table({"value": [b"1", b"2"]}), partition=0).result(TIMEOUT_S)
        broker.delete_topic(topic)
        broker.create_topic(topic, 3)
        told = [one.send(topic, b"%d" % n, partition=0) for n in range(3)]
        assert [sent.result(TIMEOUT_S).offset for sent in told] == [0, 1, 2]
    assert values(broker.bootstrap, topic)[0] == [b"0", b"1", b"2"]


def test_many_topics_share_a_producer(broker: EmbeddedBroker, topic: str) -> None:
    names = [f"{topic}-{n}" for n in range(20)]
    with producer(broker) as one:
        for turn in range(50):
            for name in names:
                one.send(name, b"%d" % turn, b"key")
        one.flush(TIMEOUT_S)
    for name in names:
        (found,) = [each for each in values(broker.bootstrap, name).values() if each]
        assert found == [b"%d" % turn for turn in range(50)]


@pytest.mark.parametrize(
    "choice", [PartitionerChoice(), PartitionerChoice(is_round_robin=True)], ids=["sticky", "round robin"]
)
def test_partitions_that_nobody_leads_are_passed_over(choice: PartitionerChoice) -> None:
    columns = pa.record_batch({"value": [b"v"] * 4})
    one = TopicPartitioner("t", choice, 0)
    used: set[int] = set()
    for _ in range(8):
        chosen = one.assigned(columns, 4, available=(1, 3))
        used |= {chosen} if isinstance(chosen, int) else set(chosen.tolist())
    assert used == {1, 3}


def test_a_record_for_a_partition_that_was_just_added_is_sent(broker: EmbeddedBroker, topic: str) -> None:
    with producer(broker, linger_ms=0) as one:
        one.send(topic, b"v", partition=0).result(TIMEOUT_S)
        grow(broker, topic, 5)
        assert one.send(topic, b"v", partition=4).result(TIMEOUT_S).partition == 4
        grow(broker, topic, 7)
        assert one.send_batch(topic, pa.table({"value": [b"v"]}), partition=5).result(TIMEOUT_S).num_rows == 1
        grow(broker, topic, 8)
        columns = pa.table({"value": [b"v", b"v"], "partition": [0, 7]})
        assert one.send_batch(topic, columns).result(TIMEOUT_S)["partition"].to_pylist() == [0, 7]


def test_a_batch_stays_behind_a_row_for_a_partition_that_was_just_added(
    broker: EmbeddedBroker, topic: str
) -> None:
    with producer(broker, linger_ms=60_000) as one:
        one.send(topic, b"v", partition=0)
        one.flush(TIMEOUT_S)
        grow(broker, topic, 4)
        one.send(topic, b"first", partition=3)
        one.send_batch(topic, pa.table({"value": [b"second"]}), partition=3)
    assert values(broker.bootstrap, topic)[3] == [b"first", b"second"]


def test_a_partition_that_is_still_not_there_fails_its_record_alone(
    broker: EmbeddedBroker, topic: str
) -> None:
    with producer(broker) as one:
        one.send(topic, b"v", partition=0).result(TIMEOUT_S)
        wrong, right = one.send(topic, b"v", partition=99), one.send(topic, b"v", partition=1)
        assert right.result(TIMEOUT_S).partition == 1
        assert isinstance(wrong.exception(TIMEOUT_S), ConfigError)
        with pytest.raises(ConfigError, match="has 3: 0 to 2"):
            one.send_batch(topic, pa.table({"value": [b"v"]}), partition=3)
