"""The same on Apache Kafka: 0.9, which cuts and keeps offsets in ZooKeeper, and 4.x, which does neither."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ottla import KafkaError, LocalProtocolError
from ottla.consumer.simple import (
    EARLIEST_TIME,
    LATEST_TIME,
    FetchRequestBuilder,
    LeaderConsumer,
    OffsetAndMetadata,
    SimpleConsumer,
    TopicAndPartition,
    find_coordinator,
    find_leader,
)
from ottla.model.error_codes import Code
from ottla.zookeeper import paths
from ottla.zookeeper.kazoo_session import KazooSettings, KazooZooKeeperSession
from tests.consumer.simple.traffic import one_fetch, write
from tests.waiting import PATIENCE_S, wait_for
from tools.peers import KAFKA_0_9, KAFKA_4, RealKafka, Unavailable

HOUR_MS = 3_600_000


@pytest.fixture(scope="module", params=[KAFKA_0_9, KAFKA_4])
def kafka(request: pytest.FixtureRequest, real_kafka: Callable[[str], RealKafka]) -> Iterator[RealKafka]:
    """Segments of 0.9 are small, so that there are several; 4.x has none below a megabyte."""
    if request.param != KAFKA_0_9:
        yield real_kafka(request.param)
        return
    try:
        with RealKafka(request.param, properties={"log.segment.bytes": "3000"}) as own:
            yield own
    except Unavailable as error:
        pytest.skip(f"Kafka {request.param} cannot be run here: {error}")


def is_old(kafka: RealKafka) -> bool:
    return kafka.version == KAFKA_0_9


def pin(kafka: RealKafka) -> dict[str, Any]:
    """0.9 cannot tell its versions."""
    return {"broker_version": "0.9"} if is_old(kafka) else {}


@pytest.fixture
def consumer(kafka: RealKafka) -> Iterator[SimpleConsumer]:
    with SimpleConsumer("127.0.0.1", kafka.port, client_id="tests", **pin(kafka)) as one:
        yield one


def test_messages_come_from_the_leader_that_was_found(kafka: RealKafka) -> None:
    write(kafka.bootstrap, "few", b"a", b"b", b"c", **pin(kafka))
    found = find_leader(kafka.bootstrap, "few", 0, **pin(kafka))
    assert found.leader is not None
    assert found.replicas == found.isr == (found.leader,)
    with SimpleConsumer(*found.leader.address, **pin(kafka)) as consumer:
        response = consumer.fetch(one_fetch("few", 1))
        assert [(one.offset, one.message.value) for one in response.message_set("few", 0)] == [
            (1, b"b"),
            (2, b"c"),
        ]
        assert (response.next_offset("few", 0), response.high_watermark("few", 0)) == (3, 3)
        outside = consumer.fetch(one_fetch("few", 50))
        assert (outside.has_error, outside.error_code("few", 0)) == (True, Code.OFFSET_OUT_OF_RANGE)
        (told,) = consumer.topic_metadata("few")
        assert told.partitions_metadata[0] == found


def test_a_fetch_of_100_bytes_is_what_the_version_makes_of_it(
    kafka: RealKafka, consumer: SimpleConsumer, caplog: pytest.LogCaptureFixture
) -> None:
    write(kafka.bootstrap, "large", b"x" * 1000, **pin(kafka))
    response = consumer.fetch(one_fetch("large", 0, 100))
    if not is_old(kafka):
        assert [len(one.message.value or b"") for one in response.message_set("large", 0)] == [1000]
        assert "The first batch came whole all the same" in response.remark("large", 0)
        assert response.bytes_needed("large", 0) == 0
        return
    assert not response.has_error
    messages = response.message_set("large", 0)
    assert (list(messages), messages.size_in_bytes, messages.valid_bytes) == ([], 100, 0)
    needed = response.bytes_needed("large", 0)
    assert needed == 12 + 14 + 1000  # an entry's offset and size, a message's header, the value
    assert f"fetch again with fetch_size={needed}" in caplog.text
    again = consumer.fetch(one_fetch("large", 0, needed))
    assert [len(one.message.value or b"") for one in again.message_set("large", 0)] == [1000]


def test_a_version_that_the_broker_has_no_more_is_told_of(kafka: RealKafka, consumer: SimpleConsumer) -> None:
    write(kafka.bootstrap, "few-more", b"a", **pin(kafka))
    request = FetchRequestBuilder().request_version(0).add_fetch("few-more", 0, 0, 1000).build()
    if is_old(kafka):
        assert len(list(consumer.fetch(request).message_set("few-more", 0))) == 1
    else:
        with pytest.raises(LocalProtocolError, match="request_version 0"):
            consumer.fetch(request)


def test_offsets_before_a_time(kafka: RealKafka, consumer: SimpleConsumer) -> None:
    before_ms = int(time.time() * 1000)
    write(kafka.bootstrap, "long", *[b"x" * 1000] * 7, **pin(kafka))
    place = TopicAndPartition("long", 0)
    every = consumer.get_offsets_before(place, LATEST_TIME, 100)
    assert consumer.get_offsets_before(place) == (7,)
    assert consumer.get_offsets_before(place, EARLIEST_TIME, 100) == (0,)
    if is_old(kafka):
        assert (every[0], every[-1], len(every) > 3) == (7, 0, True)
        assert list(every) == sorted(every, reverse=True)
        assert consumer.get_offsets_before(place, LATEST_TIME, 2) == every[:2]
        assert consumer.get_offsets_before(place, before_ms - HOUR_MS) == ()
        assert consumer.get_offsets_before(place, before_ms + HOUR_MS) == (7,)
    else:
        assert every == (7,)
        assert consumer.get_offsets_before(place, before_ms - HOUR_MS, 100) == (0,)
        assert consumer.get_offsets_before(place, before_ms + HOUR_MS) == ()


def answered(call: Callable[[], object]) -> object:
    """Return what the coordinator answers. One that still loads what it keeps refuses for a while."""
    answers: list[object] = []

    def is_answered() -> bool:
        try:
            answers.append(call())
        except KafkaError as error:
            if not error.retriable:
                raise
        return bool(answers)

    wait_for(is_answered)
    return answers[0]


def test_offsets_of_a_group_in_kafka(kafka: RealKafka) -> None:
    write(kafka.bootstrap, "grouped", b"a", **pin(kafka))
    place, other = TopicAndPartition("grouped", 0), TopicAndPartition("grouped", 9)
    node = find_coordinator(kafka.bootstrap, "g", timeout=PATIENCE_S, **pin(kafka))
    with SimpleConsumer(*node.address, **pin(kafka)) as coordinator:
        answered(lambda: coordinator.commit_offsets("g", {place: OffsetAndMetadata(1, "noted")}))
        assert coordinator.fetch_offsets("g", [place, other]) == {place: OffsetAndMetadata(1, "noted")}
        assert answered(lambda: coordinator.fetch_offsets("nobody", [place])) == {}


def test_offsets_of_a_group_in_zookeeper(kafka: RealKafka, consumer: SimpleConsumer) -> None:
    write(kafka.bootstrap, "kept", b"a", **pin(kafka))
    place = TopicAndPartition("kept", 0)
    if not is_old(kafka):
        with pytest.raises(LocalProtocolError, match="keeps no offsets in ZooKeeper"):
            consumer.commit_offsets("z", {place: 1}, version=0)
        return
    assert consumer.fetch_offsets("z", [place], version=0) == {}
    consumer.commit_offsets("z", {place: 1}, version=0)
    assert consumer.fetch_offsets("z", [place], version=0) == {place: OffsetAndMetadata(1)}
    with KazooZooKeeperSession(KazooSettings(kafka.zookeeper)) as session:
        assert session.get(paths.offset("z", "kept", 0)).data == b"1"


def test_a_reader_finds_a_broker_that_was_restarted(kafka: RealKafka) -> None:
    write(kafka.bootstrap, "restarted", b"a", **pin(kafka))
    with LeaderConsumer(kafka.bootstrap, "restarted", 0, timeout=PATIENCE_S, **pin(kafka)) as consumer:
        assert [one.offset for one in consumer.fetch(0).message_set("restarted", 0)] == [0]
        kafka.restart()
        assert [one.offset for one in consumer.fetch(0).message_set("restarted", 0)] == [0]
