"""write and writeStream with format("ottla"): every row is a record, and a repeated one is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import ArrayType, DataType, IntegerType, LongType, StringType, StructField, StructType

from ottla import ConfigError, EmbeddedBroker
from ottla.spark.row_identity import TaskIdentity
from ottla.spark.writer import send_rows, sink_options
from tests.spark.conftest import Filled, Reads, values

pytestmark = pytest.mark.timeout(280)
KINDS: dict[str, DataType] = {
    "string": StringType(),
    "long": LongType(),
    "texts": ArrayType(StringType()),
}


def write(frame: Any, broker: EmbeddedBroker, **options: str) -> None:
    writer = frame.write.format("ottla").mode("append").option("kafka.bootstrap.servers", broker.bootstrap)
    writer.options(**options).save()


def test_all_columns_arrive(spark: Any, broker: EmbeddedBroker, read: Reads, topic: str) -> None:
    frame = spark.sql(
        f"""select * from values
        ('{topic}', 'k1', 'v1', 2, timestamp_millis(1000), array(struct('h' as key, x'01' as value))),
        ('{topic}', null, null, 1, timestamp_millis(2000), null)
        as t(topic, key, value, partition, timestamp, headers)"""
    )
    write(frame, broker, includeTimestamp="true")
    (task,) = read(subscribe=topic, includeHeaders="true", columns="partition,key,value,headers,timestamp")
    rows = {row["partition"]: row for row in task}
    assert (rows[2]["key"], rows[2]["value"]) == (b"k1", b"v1")
    assert rows[2]["headers"] == [{"key": "h", "value": b"\x01"}]
    assert rows[2]["timestamp"].timestamp() == 1.0
    assert (rows[1]["key"], rows[1]["value"], rows[1]["headers"]) == (None, None, None)
    write(frame.limit(1), broker)  # as in Spark's connector, a copy does not get times that retention ends
    (task,) = read(
        subscribe=topic, columns="timestamp", startingOffsets=f'{{"{topic}":{{"0":0,"1":1,"2":1}}}}'
    )
    assert task[0]["timestamp"].timestamp() > 1_000_000


def test_rows_go_to_the_topics_that_they_name(
    spark: Any, broker: EmbeddedBroker, read: Reads, topic: str
) -> None:
    broker.create_topic(f"{topic}-odd", 2)
    names = f"if(id % 2 = 0, '{topic}', '{topic}-odd') as topic"
    frame = spark.range(1000).selectExpr("cast(id as string) value", "cast(id as string) key", names)
    write(frame, broker)
    assert values(read(subscribe=topic)) == list(range(0, 1000, 2))
    assert values(read(subscribe=f"{topic}-odd")) == list(range(1, 1000, 2))
    write(frame, broker, topic=topic)  # the option wins
    assert values(read(subscribe=topic)) == sorted([*range(0, 1000, 2), *range(1000)])


@pytest.mark.parametrize(
    ("columns", "options", "words"),
    [
        ("id long", {"topic": "t"}, "there is no column value; there are id"),
        ("value long", {"topic": "t"}, "column value is bigint: string or binary"),
        ("value string, headers string", {"topic": "t"}, "array<struct<key:string,value:binary>> is wanted"),
        ("value string, headers texts", {"topic": "t"}, "array<struct<key:string,value:binary>> is wanted"),
        ("value string, timestamp long", {"topic": "t", "includeTimestamp": "true"}, "timestamp is wanted"),
        ("value string", {}, "no topic"),
        ("value string", {"topic": "t", "topics": "x"}, "did you mean topic"),
        ("value string", {"topic": "t", "kafka.ack": "1"}, "acks"),
    ],
)
def test_what_cannot_be_written_is_told(columns: str, options: dict[str, str], words: str) -> None:
    fields = [one.split() for one in columns.split(", ")]
    schema = StructType([StructField(name, KINDS[kind]) for name, kind in fields])
    with pytest.raises(ConfigError) as refused:
        sink_options({"kafka.bootstrap.servers": "127.0.0.1:1", **options}, schema)
    assert words in str(refused.value)


def test_a_row_that_cannot_be_written_fails_its_task(broker: EmbeddedBroker, topic: str) -> None:
    given = {"kafka.bootstrap.servers": broker.bootstrap}
    schema = StructType([StructField("value", StringType()), StructField("topic", StringType())])
    batch = pa.record_batch({"value": ["a", "b"], "topic": [topic, None]})
    task = TaskIdentity("q", 0, 0)
    with pytest.raises(ConfigError, match="column topic is null"):
        send_rows([batch], sink_options(given, schema), task)
    elsewhere = schema.add("partition", IntegerType())
    batch = pa.record_batch({"value": ["a"], "topic": [topic], "partition": pa.array([99], pa.int32())})
    with pytest.raises(ConfigError, match="partition 99"):
        send_rows([batch], sink_options(given, elsewhere), task)


def test_a_repeated_batch_is_read_once(
    spark: Any, broker: EmbeddedBroker, read: Reads, topic: str, fill: Filled, tmp_path: Path
) -> None:
    """The driver dies after the rows are written and before the batch counts as done."""
    broker.create_topic(f"{topic}-out", 2)
    fill(topic, range(90))

    def run() -> None:
        reader = spark.readStream.format("ottla").option("kafka.bootstrap.servers", broker.bootstrap)
        frame = reader.option("subscribe", topic).option("startingOffsets", "earliest").load()
        writer = frame.select("value").writeStream.format("ottla").option("topic", f"{topic}-out")
        writer = writer.option("kafka.bootstrap.servers", broker.bootstrap).option("rowIdentity", "true")
        query = writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
        assert query.awaitTermination(200)

    run()
    for commit in (tmp_path / "commits").iterdir():
        commit.unlink()
    fill(topic, range(90, 120))
    run()
    out = f"{topic}-out"
    assert values(read(subscribe=out)) == sorted([*range(90), *range(120)])
    once = read(subscribe=out, dropRepeatedRows="true")
    assert values(once) == list(range(120))
    start = f'{{"{out}":{{"0":40,"1":40}}}}'
    late = read(subscribe=out, dropRepeatedRows="true", startingOffsets=start)
    assert places(late) == {(partition, offset) for partition, offset in places(once) if offset >= 40}


def test_a_repeated_batch_with_exactly_once_writes_nothing(
    spark: Any, broker: EmbeddedBroker, read: Reads, topic: str, fill: Filled, tmp_path: Path
) -> None:
    """The driver dies after the transactions are committed and before the batch counts as done."""
    out = f"{topic}-out"
    broker.create_topic(out, 2)
    fill(topic, range(90))
    kafka = {"kafka.bootstrap.servers": broker.bootstrap}

    def run() -> None:
        reader = spark.readStream.format("ottla").options(**kafka).option("minRecordsPerTask", "0")
        frame = reader.option("subscribe", topic).option("startingOffsets", "earliest").load()
        writer = frame.select("value").writeStream.format("ottla").options(**kafka).option("topic", out)
        writer = writer.option("exactlyOnce", "true").option("checkpointLocation", str(tmp_path))
        assert writer.trigger(availableNow=True).start().awaitTermination(200)

    run()
    for commit in (tmp_path / "commits").iterdir():
        commit.unlink()
    fill(topic, range(90, 120))
    run()
    assert values(read(subscribe=out, **{"kafka.isolation.level": "read_committed"})) == list(range(120))
    assert values(read(subscribe=out)) == list(range(120))


def places(tasks: list[list[dict[str, Any]]]) -> set[tuple[int, int]]:
    return {(row["partition"], row["offset"]) for task in tasks for row in task}
