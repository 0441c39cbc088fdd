"""write and writeStream with format("ottla"): every row is a record, and a repeated one is told."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from ottla import EmbeddedBroker
from tests.spark.conftest import Filled

pytestmark = pytest.mark.timeout(280)


@pytest.fixture
def read(spark: Any, broker: EmbeddedBroker) -> Any:
    def load(**options: str) -> Any:
        reader = spark.read.format("ottla").option("kafka.bootstrap.servers", broker.bootstrap)
        return reader.options(**options).load()

    return load


def write(frame: Any, broker: EmbeddedBroker, **options: str) -> None:
    writer = frame.write.format("ottla").mode("append").option("kafka.bootstrap.servers", broker.bootstrap)
    writer.options(**options).save()


def test_all_columns_arrive(spark: Any, broker: EmbeddedBroker, read: Any, topic: str) -> None:
    frame = spark.sql(
        f"""select * from values
        ('{topic}', 'k1', 'v1', 2, timestamp_millis(1000), array(struct('h' as key, x'01' as value))),
        ('{topic}', null, null, 1, timestamp_millis(2000), null)
        as t(topic, key, value, partition, timestamp, headers)"""
    )
    write(frame, broker)
    rows = {row.partition: row for row in read(subscribe=topic, includeHeaders="true").collect()}
    assert (bytes(rows[2].key), bytes(rows[2].value)) == (b"k1", b"v1")
    assert [(one.key, bytes(one.value)) for one in rows[2].headers] == [("h", b"\x01")]
    assert rows[2].timestamp.timestamp() == 1.0
    assert (rows[1].key, rows[1].value, rows[1].headers) == (None, None, None)


def test_rows_go_to_the_topics_that_they_name(
    spark: Any, broker: EmbeddedBroker, read: Any, topic: str
) -> None:
    broker.create_topic(f"{topic}-odd", 2)
    names = f"if(id % 2 = 0, '{topic}', '{topic}-odd') as topic"
    frame = spark.range(1000).selectExpr("cast(id as string) value", "cast(id as string) key", names)
    write(frame, broker)
    even, odd = (
        sorted(int(row.value) for row in read(subscribe=name).collect()) for name in (topic, f"{topic}-odd")
    )
    assert even == list(range(0, 1000, 2))
    assert odd == list(range(1, 1000, 2))
    write(frame, broker, topic=topic)  # the option wins
    assert read(subscribe=topic).count() == 1500


def test_what_cannot_be_written_is_told(spark: Any, broker: EmbeddedBroker, topic: str) -> None:
    number, text = spark.range(1), spark.range(1).selectExpr("'x' as value")
    for frame, options, words in [
        (number, {"topic": topic}, "there is no column value"),
        (number.selectExpr("id as value"), {"topic": topic}, "column value is bigint"),
        (text, {}, "no topic"),
        (text, {"topic": topic, "topics": "x"}, "did you mean topic"),
        (text, {"topic": topic, "kafka.ack": "1"}, "acks"),
        (text.selectExpr("value", "cast(null as string) topic"), {}, "column topic is null"),
        (text.selectExpr("value", "99 as partition"), {"topic": topic}, "partition 99"),
    ]:
        with pytest.raises(Exception, match=words):
            write(frame, broker, **options)


def test_a_repeated_batch_is_read_once(
    spark: Any, broker: EmbeddedBroker, read: Any, topic: str, fill: Filled, tmp_path: Path
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
    twice = Counter([*range(90), *range(120)])
    out = f"{topic}-out"
    assert Counter(int(row.value) for row in read(subscribe=out).collect()) == twice
    once = [int(row.value) for row in read(subscribe=out, dropRepeatedRows="true").collect()]
    assert sorted(once) == list(range(120))
    late = {"startingOffsets": f'{{"{out}":{{"0":40,"1":40}}}}', "subscribe": out, "dropRepeatedRows": "true"}
    seen = {(row.partition, row.offset) for row in read(**late).collect()}
    whole = {(row.partition, row.offset) for row in read(subscribe=out, dropRepeatedRows="true").collect()}
    assert seen == {(partition, offset) for partition, offset in whole if offset >= 40}
