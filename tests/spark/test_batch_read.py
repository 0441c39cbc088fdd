"""Reading topics as a table: every record once, exact offsets, Spark's schema."""

from __future__ import annotations

import gc
from collections import Counter
from datetime import UTC, datetime
from typing import Any

import pytest

from ottla import ConfigError, EmbeddedBroker, KafkaError, Producer, TopicAndPartition
from ottla.client.client_config import ClientConfig
from ottla.model.errors import DataLost
from ottla.offsets import KafkaOffsets, OffsetAndMetadata
from ottla.spark.range_reader import settle_in
from tests.spark.conftest import Filled, Reads, values


def test_every_record_is_read_once_however_tasks_are_cut(read: Reads, topic: str, fill: Filled) -> None:
    fill(topic, range(3000))
    for options, tasks in [
        ({}, 1),
        ({"minRecordsPerTask": "0"}, 3),
        ({"minPartitions": "7"}, 7),
        ({"maxRecordsPerPartition": "300", "minRecordsPerTask": "0"}, 12),
    ]:
        got = read(subscribe=topic, **options)
        assert len(got) == tasks
        assert values(got) == list(range(3000))


def test_tasks_are_sized_by_bytes_of_the_log(
    read: Reads, topic: str, producer: Producer, broker: EmbeddedBroker
) -> None:
    for number in range(60):
        producer.send(topic, b"%-100000d" % number, partition=0)
    producer.flush()
    got = read(subscribe=topic, maxBytesPerTask="1000000")
    assert 6 <= len(got) <= 8
    assert values(got) == list(range(60))
    broker.fail("DescribeLogDirs", 29, times=-1)  # TOPIC_AUTHORIZATION_FAILED
    try:
        assert [len(task) for task in read(subscribe=topic, maxBytesPerTask="1000000")] == [60]
    finally:
        broker.clear_faults()


def test_a_range_has_exactly_its_offsets(read: Reads, topic: str, fill: Filled) -> None:
    fill(topic, range(300))
    tasks = read(
        subscribe=topic,
        startingOffsets=f'{{"{topic}":{{"0":10,"1":-2,"2":98}}}}',
        endingOffsets=f'{{"{topic}":{{"0":20,"1":5,"2":-1}}}}',
    )
    got = Counter((row["partition"], row["offset"]) for task in tasks for row in task)
    assert got == Counter([(0, n) for n in range(10, 20)] + [(1, n) for n in range(5)] + [(2, 98), (2, 99)])
    with pytest.raises(ConfigError, match=f"{topic}-2 begins at the latest offset"):
        read(subscribe=topic, startingOffsets=f'{{"{topic}":{{"0":0,"1":0,"2":-1}}}}')
    backwards = {"startingOffsets": 50, "endingOffsets": 20}
    with pytest.raises(ConfigError, match=f"{topic}-0 begins at 50, after its end at 20"):
        read(assign=f'{{"{topic}":[0]}}', **{k: f'{{"{topic}":{{"0":{v}}}}}' for k, v in backwards.items()})
    assert read(subscribe=topic, startingTimestamp="1060000", endingTimestamp="1030000") == []


def test_a_range_by_time(read: Reads, topic: str, fill: Filled) -> None:
    fill(topic, range(300))
    tasks = read(subscribe=topic, startingTimestamp=str(1_030_000), endingTimestamp=str(1_060_000))
    assert values(tasks) == list(range(30, 60))
    late = f'{{"{topic}":{{"0":1290000,"1":1290000,"2":1999999}}}}'
    with pytest.raises(ConfigError, match="no record from that time on"):
        read(subscribe=topic, startingOffsetsByTimestamp=late)
    tasks = read(
        subscribe=topic, startingOffsetsByTimestamp=late, startingOffsetsByTimestampStrategy="latest"
    )
    assert values(tasks) == [n for n in range(290, 300) if n % 3 < 2]


def test_assign_and_pattern(read: Reads, topic: str, fill: Filled, broker: EmbeddedBroker) -> None:
    fill(topic, range(30))
    assert values(read(assign=f'{{"{topic}":[0,2]}}')) == [n for n in range(30) if n % 3 != 1]
    assert values(read(assign=f'{{"{topic}":[0,9]}}')) == [n for n in range(30) if n % 3 == 0]
    assert values(read(subscribePattern=topic[:-1] + ".")) == list(range(30))
    assert values(read(subscribePattern=topic[3:9])) == list(range(30))  # anywhere in the name, as in Spark
    assert values(read(subscribePattern=rf"^\Q{topic}\E$")) == list(range(30))  # Java's syntax
    assert read(subscribePattern="no-such-.*") == []
    with KafkaOffsets(ClientConfig.from_properties({"bootstrap.servers": broker.bootstrap})) as store:
        store.commit("readers", {TopicAndPartition(topic, 0): OffsetAndMetadata(1)})
    assert read(subscribePattern="consumer_offsets") == []  # internal topics are read by name only


def test_columns_that_are_not_wanted_are_not_made(read: Reads, topic: str, fill: Filled) -> None:
    fill(topic, range(9))
    tasks = read(subscribe=topic, columns="offset,value")
    assert {tuple(row) for task in tasks for row in task} == {("offset", "value")}
    assert values(tasks) == list(range(9))


def test_what_is_wrong_is_told(read: Reads, topic: str) -> None:
    with pytest.raises(KafkaError, match="UNKNOWN_TOPIC_OR_PARTITION"):
        read(subscribe="no-such-topic")
    with pytest.raises(KafkaError, match="no-such-topic: make it first"):
        read(assign='{"no-such-topic":[0]}')
    with pytest.raises(ConfigError, match="name every partition"):
        read(subscribe=topic, startingOffsets=f'{{"{topic}":{{"0":0}}}}')
    with pytest.raises(ConfigError, match="columns has 'vaule'"):
        read(subscribe=topic, columns="vaule")
    with pytest.raises(ConfigError, match="set includeHeaders"):
        read(subscribe=topic, columns="headers")


def test_records_that_are_gone_are_an_error_unless_they_may_be(read: Reads, topic: str, fill: Filled) -> None:
    fill(topic, range(30))
    options = {
        "subscribe": topic,
        "startingOffsets": f'{{"{topic}":{{"0":2,"1":0,"2":0}}}}',
        "endingOffsets": f'{{"{topic}":{{"0":500,"1":10,"2":10}}}}',
    }
    with pytest.raises(DataLost, match="the log ends at 10"):
        read(**options)
    assert values(read(**options, failOnDataLoss="false")) == [n for n in range(30) if n not in {0, 3}]


@pytest.mark.timeout(280)
def test_rows_in_spark_are_those_of_its_own_connector(
    spark: Any, broker: EmbeddedBroker, topic: str, producer: Producer
) -> None:
    reader = spark.read.format("ottla").option("kafka.bootstrap.servers", broker.bootstrap)
    reader = reader.option("subscribe", topic).option("includeHeaders", "true")
    assert reader.load().collect() == []
    producer.send(topic, b"v", key=b"k", partition=1, timestamp_ms=1_234)
    producer.send(topic, None, partition=1, timestamp_ms=5_000, headers=[("h", b"1"), ("h", None)])
    producer.flush()
    frame = reader.load()
    assert frame.dtypes == [
        ("key", "binary"),
        ("value", "binary"),
        ("topic", "string"),
        ("partition", "int"),
        ("offset", "bigint"),
        ("timestamp", "timestamp"),
        ("timestampType", "int"),
        ("headers", "array<struct<key:string,value:binary>>"),
    ]
    first, second = sorted(frame.collect(), key=lambda row: row.offset)
    assert (bytes(first.key), bytes(first.value), first.topic, first.partition) == (b"k", b"v", topic, 1)
    assert (first.offset, first.timestampType, first.headers) == (0, 0, None)
    assert first.timestamp.astimezone(UTC) == datetime(1970, 1, 1, 0, 0, 1, 234_000, UTC)
    assert (second.key, second.value) == (None, None)
    assert [(one.key, one.value) for one in second.headers] == [("h", b"1"), ("h", None)]
    own = reader.schema("value binary, partition int not null").load()
    assert sorted(own.collect(), key=lambda row: row.value or b"") == [(None, 1), (b"v", 1)]
    with pytest.raises(Exception, match="did you mean startingOffsets"):
        reader.option("startingOffset", "earliest").load().collect()


def test_a_worker_freezes_what_it_has_imported() -> None:
    settle_in.cache_clear()
    gc.unfreeze()
    try:
        settle_in()
        assert gc.get_freeze_count() > 1000
    finally:
        gc.unfreeze()


@pytest.mark.timeout(50)
def test_a_task_waits_for_nothing_behind_its_range(read: Reads, fill: Filled, topic: str) -> None:
    """At the end of a log a broker waits for more; the connection's next task would wait with it."""
    fill(topic, range(30))
    patient = {"kafka.fetch.max.wait.ms": "60000", "minPartitions": "3"}
    tasks = read(subscribe=topic, **patient)
    assert len(tasks) == 3
    assert values(tasks) == list(range(30))
