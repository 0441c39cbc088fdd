"""What a ConsumerConnector and its streams offer beside Kafka's own calls."""

from __future__ import annotations

import gc
import time
import warnings
from datetime import timedelta

import pytest

from ottla import ConsumerConnector, ConsumerIdInUse, ConsumerTimeout, Health, KafkaStream, OffsetAndMetadata
from ottla.consumer.classic.gate import GATE_TABLE, DeliveryGate, GateEvent, GateState
from ottla.consumer.classic.stream_queue import OneMinuteRate
from ottla.model.errors import ConfigError
from ottla.model.topic_partition import TopicAndPartition
from ottla.zookeeper import paths
from ottla.zookeeper.kazoo_session import KazooZooKeeperSession
from ottla.zookeeper.recipes import read_if_present
from tests.consumer.classic.conftest import QUICK, Connectors
from tests.consumer.classic.reading import offsets
from tests.fetching.traffic import Writer
from tests.waiting import wait_for

ALWAYS = timedelta(days=36_500)
"""Before now: all timestamps are later."""


def test_messages_end_after_the_timeout(connector: Connectors, writer: Writer, topic: str) -> None:
    writer.write(TopicAndPartition(topic, 0), 20)
    (stream,) = connector().create_message_streams({topic: 1})[topic]
    assert stream.has_next(timeout=30)
    assert [message.offset for message in stream.messages(timeout=0.5)] == list(range(20))
    assert not stream.has_next(timeout=0)
    writer.write(TopicAndPartition(topic, 0), 5)
    assert sum(chunk.batch.num_rows for chunk in stream.chunks(timeout=0.5)) == 5
    assert list(stream.messages(timeout=0)) == []
    assert f"{topic}-0" in repr(stream)
    assert repr(stream).startswith(f"<KafkaStream 0 of '{topic}', group '{topic}', reads ")


def test_without_a_timeout_it_is_the_setting_that_counts(connector: Connectors, topic: str) -> None:
    (stream,) = connector(consumer_timeout_ms=200).create_message_streams({topic: 1})[topic]
    for read in (stream.has_next, lambda: next(stream.messages()), lambda: next(stream.chunks())):
        with pytest.raises(ConsumerTimeout, match=r"consumer\.timeout\.ms=200"):
            read()


def test_a_message_a_chunk_or_a_mapping_is_committed(
    connector: Connectors, writer: Writer, topic: str, name: str, zookeeper: KazooZooKeeperSession
) -> None:
    writer.write(TopicAndPartition(topic, 1), 30)
    one = connector(auto_commit_enable=False)
    (stream,) = one.create_message_streams({topic: 1})[topic]
    messages = [next(stream) for _ in range(10)]
    one.commit(messages[3])
    assert offsets(zookeeper, name, topic) == {1: 4}
    chunk = next(stream.chunks())
    one.commit(chunk)
    assert offsets(zookeeper, name, topic) == {1: chunk.next_offset}
    one.commit({TopicAndPartition(topic, 1): 5, TopicAndPartition(topic, 2): OffsetAndMetadata(7, "a note")})
    assert offsets(zookeeper, name, topic) == {1: 5, 2: 7}
    one.commit_offsets({TopicAndPartition(topic, 2): OffsetAndMetadata(8)}, retry_on_failure=False)
    assert offsets(zookeeper, name, topic) == {1: 5, 2: 8}
    one.commit()
    assert offsets(zookeeper, name, topic)[1] == chunk.next_offset
    with pytest.raises(ConfigError, match=r"commit\(7\): give a message, a chunk, a mapping or nothing"):
        one.commit(7)  # type: ignore[arg-type]


def test_offsets_in_kafka_are_committed_with_one_try(connector: Connectors, topic: str) -> None:
    one = connector(auto_commit_enable=False, offsets_storage="kafka", dual_commit_enabled=False)
    one.create_message_streams({topic: 1})
    one.commit_offsets({TopicAndPartition(topic, 0): 3})
    one.commit_offsets({TopicAndPartition(topic, 0): 4}, retry_on_failure=False)
    assert one.metrics().commits == 2


def test_a_member_seeks_by_number_word_and_time(connector: Connectors, writer: Writer, topic: str) -> None:
    place = TopicAndPartition(topic, 0)
    writer.write(place, 50)
    one = connector()
    with pytest.raises(ConfigError, match="no partition is assigned"):
        one.tail(1)
    (stream,) = one.create_message_streams({topic: 1})[topic]
    assert one.assignment == {TopicAndPartition(topic, partition) for partition in range(4)}
    assert next(stream).offset == 0
    one.seek(place, 40)
    assert [message.offset for message in stream.messages(timeout=0.5)] == list(range(40, 50))
    one.seek(place, "earliest")
    assert next(stream.messages(timeout=20)).offset == 0
    one.seek(place, ALWAYS)
    assert next(stream.messages(timeout=20)).offset == 0
    one.tail(3)
    assert [message.offset for message in stream.messages(timeout=0.5)] == [47, 48, 49]
    found = one.offsets_for_times({place: ALWAYS, TopicAndPartition(topic, 1): ALWAYS})
    assert found == {place: 0, TopicAndPartition(topic, 1): None}
    with pytest.raises(ConfigError, match="other-0 is not read by this member"):
        one.seek(TopicAndPartition("other", 0), 0)


def test_metrics_tell_lag_queues_and_rates(connector: Connectors, writer: Writer, topic: str) -> None:
    place = TopicAndPartition(topic, 0)
    writer.write(place, 100)
    one = connector()
    (stream,) = one.create_message_streams({topic: 1})[topic]
    wait_for(lambda: one.metrics().queued_chunks, "something is fetched")
    assert one.metrics().queued_bytes > 0
    for _ in range(40):
        next(stream)
    metrics = one.metrics()
    assert (metrics.lag[place], metrics.max_lag, metrics.messages) == (60, 60, 100)
    assert metrics.bytes > 0
    assert metrics.messages_per_second > 0
    assert metrics.bytes_per_second > 0
    assert repr(one) == f"<ConsumerConnector {one.consumer_id}, stable, 4 partitions>"


def test_a_second_member_of_the_same_id_is_refused(connector: Connectors, topic: str, name: str) -> None:
    connector(consumer_id="a").create_message_streams({topic: 1})
    second = connector(consumer_id="a")
    with pytest.raises(ConsumerIdInUse, match=rf"/consumers/{name}/ids/{name}_a belongs to another session"):
        second.create_message_streams({topic: 1})
    assert second.health is Health.CLOSED


def test_a_dropped_connector_warns_and_leaves(
    connect: str, name: str, topic: str, writer: Writer, zookeeper: KazooZooKeeperSession
) -> None:
    writer.write(TopicAndPartition(topic, 0), 1)
    connector = ConsumerConnector(QUICK, group_id=name, zookeeper_connect=connect, consumer_id="a")
    (stream,) = connector.create_message_streams({topic: 1})[topic]
    del connector
    gc.collect()
    assert next(stream).offset == 0, "a stream keeps its connector"
    path = paths.consumer(name, f"{name}_a")
    assert read_if_present(zookeeper, path) is not None
    streams = [stream]
    del stream
    with pytest.warns(ResourceWarning, match=rf"ConsumerConnector '{name}_a' was not closed"):
        _drop(streams)
    wait_for(lambda: read_if_present(zookeeper, path) is None, "it has left")
    assert offsets(zookeeper, name, topic)[0] == 1


def _drop(objects: list[KafkaStream]) -> None:
    objects.clear()
    gc.collect()


def test_one_that_never_connected_is_dropped_in_silence() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ConsumerConnector(group_id="g", zookeeper_connect="127.0.0.1:1")
        gc.collect()


# --- parts


def test_a_rate_is_right_from_the_start_and_fades() -> None:
    rate = OneMinuteRate(0)
    for second in range(1, 11):
        rate.add(50, second * 1000)
    assert rate.count == 500
    assert rate.per_second(10_000) == pytest.approx(50, rel=0.1)
    for second in range(11, 300):
        rate.add(50, second * 1000)
    assert rate.per_second(299_000) == pytest.approx(50, rel=0.05)
    assert rate.per_second(600_000) < 1
    assert OneMinuteRate(time.monotonic()).per_second(time.monotonic()) == 0


def test_every_event_has_a_place_in_the_gates_table() -> None:
    assert set(GATE_TABLE) == {(state, event) for state in GateState for event in GateEvent}


def test_an_answer_from_before_the_cut_opens_nothing() -> None:
    gate = DeliveryGate()
    gate.extend(100)
    assert not gate.is_open(0)
    gate.reopen()
    assert not gate.is_open(0)
    gate.extend(100)
    assert gate.is_open(99)
    assert not gate.is_open(100)
    gate.shut()
    gate.extend(200)
    assert not gate.is_open(0)


def test_a_gate_looks_at_the_clock_before_it_takes_an_offset() -> None:
    gate, now_s, offsets = DeliveryGate(), [0.0], iter(range(10))
    gate.reopen()
    gate.extend(2_000)
    passed = gate.while_open(offsets, lambda: now_s[0])
    assert [next(passed), next(passed)] == [0, 1]
    gate.extend(3_000)
    now_s[0] = 2.5
    assert next(passed) == 2, "the lease was extended meanwhile"
    now_s[0] = 3.0
    assert list(passed) == []
    gate.extend(9_000)
    passed = gate.while_open(offsets, lambda: now_s[0])
    assert next(passed) == 3, "none was lost"
    gate.shut()
    assert list(passed) == []
    assert next(offsets) == 4
