"""spark.read.format("ottla"): every record once, exact offsets, Spark's schema."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import Any

import pytest

from ottla import EmbeddedBroker, Producer
from tests.spark.conftest import Filled

pytestmark = pytest.mark.timeout(280)


def values(frame: Any) -> list[int]:
    return sorted(int(row.value) for row in frame.select("value").collect())


@pytest.fixture
def read(spark: Any, broker: EmbeddedBroker) -> Any:
    def load(**options: str) -> Any:
        reader = spark.read.format("ottla").option("kafka.bootstrap.servers", broker.bootstrap)
        return reader.options(**options).load()

    return load


def test_rows_are_those_of_sparks_own_connector(read: Any, topic: str, producer: Producer) -> None:
    producer.send(topic, b"v", key=b"k", partition=1, timestamp_ms=1_234)
    producer.send(topic, None, partition=1, timestamp_ms=5_000, headers=[("h", b"1"), ("h", None)])
    producer.flush()
    frame = read(subscribe=topic, includeHeaders="true")
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


def test_every_record_is_read_once_however_tasks_are_cut(read: Any, topic: str, fill: Filled) -> None:
    fill(topic, range(3000))
    whole = read(subscribe=topic)
    assert values(whole) == list(range(3000))
    assert whole.rdd.getNumPartitions() == 1
    assert read(subscribe=topic, minRecordsPerTask="0").rdd.getNumPartitions() == 3
    for options, tasks in [({"minPartitions": "7"}, 7), ({"maxRecordsPerPartition": "300"}, 12)]:
        frame = read(subscribe=topic, minRecordsPerTask="0", **options)
        assert frame.rdd.getNumPartitions() == tasks
        assert values(frame) == list(range(3000))


def test_a_range_has_exactly_its_offsets(read: Any, topic: str, fill: Filled) -> None:
    fill(topic, range(300))
    frame = read(
        subscribe=topic,
        startingOffsets=f'{{"{topic}":{{"0":10,"1":-2,"2":-1}}}}',
        endingOffsets=f'{{"{topic}":{{"0":20,"1":5,"2":-1}}}}',
    )
    got = Counter((row.partition, row.offset) for row in frame.select("partition", "offset").collect())
    assert got == Counter([(0, n) for n in range(10, 20)] + [(1, n) for n in range(5)])


def test_a_range_by_time(read: Any, topic: str, fill: Filled) -> None:
    fill(topic, range(300))
    frame = read(subscribe=topic, startingTimestamp=str(1_030_000), endingTimestamp=str(1_060_000))
    assert values(frame) == list(range(30, 60))
    late = f'{{"{topic}":{{"0":1290000,"1":1290000,"2":1999999}}}}'
    with pytest.raises(Exception, match="no record from that time on"):
        read(subscribe=topic, startingOffsetsByTimestamp=late).collect()
    frame = read(
        subscribe=topic, startingOffsetsByTimestamp=late, startingOffsetsByTimestampStrategy="latest"
    )
    assert values(frame) == [n for n in range(290, 300) if n % 3 < 2]


def test_assign_and_pattern(read: Any, topic: str, fill: Filled) -> None:
    fill(topic, range(30))
    assert values(read(assign=f'{{"{topic}":[0,2]}}')) == [n for n in range(30) if n % 3 != 1]
    assert values(read(subscribePattern=topic[:-1] + ".")) == list(range(30))


def test_nothing_to_read_is_an_empty_table(read: Any, topic: str) -> None:
    assert read(subscribe=topic).collect() == []
    assert read(subscribePattern="no-such-.*").collect() == []


def test_columns_that_are_not_wanted_are_not_made(
    spark: Any, read: Any, broker: Any, topic: str, fill: Filled
) -> None:
    fill(topic, range(9))
    frame = read(subscribe=topic, columns="offset,value")
    assert frame.columns == ["offset", "value"]
    assert values(frame) == list(range(9))
    reader = spark.read.format("ottla").option("kafka.bootstrap.servers", broker.bootstrap)
    own = reader.option("subscribe", topic).schema("value binary, partition int not null").load()
    assert own.columns == ["value", "partition"]
    assert values(own) == list(range(9))


def test_what_is_wrong_is_told(spark: Any, read: Any, broker: Any, topic: str) -> None:
    with pytest.raises(Exception, match="did you mean startingOffsets"):
        read(subscribe=topic, startingOffset="earliest").collect()
    with pytest.raises(Exception, match="UNKNOWN_TOPIC_OR_PARTITION"):
        read(subscribe="no-such-topic").collect()
    with pytest.raises(Exception, match="name every partition"):
        read(subscribe=topic, startingOffsets=f'{{"{topic}":{{"0":0}}}}').collect()
    with pytest.raises(Exception, match="columns has 'vaule'"):
        read(subscribe=topic, columns="vaule").collect()


def test_records_that_are_gone_are_an_error_unless_they_may_be(read: Any, topic: str, fill: Filled) -> None:
    fill(topic, range(30))
    options = {
        "subscribe": topic,
        "startingOffsets": f'{{"{topic}":{{"0":2,"1":0,"2":0}}}}',
        "endingOffsets": f'{{"{topic}":{{"0":500,"1":10,"2":10}}}}',
    }
    with pytest.raises(Exception, match="the log ends at 10"):
        read(**options).collect()
    assert values(read(**options, failOnDataLoss="false")) == [n for n in range(30) if n not in {0, 3}]
