"""spark.readStream.format("ottla"): through Spark's engine, over restarts from a checkpoint."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from ottla import EmbeddedBroker, Producer
from ottla.admin import Admin, NewPartitions
from ottla.client.client_config import ClientConfig
from ottla.model.topic_partition import TopicAndPartition
from ottla.offsets import KafkaOffsets
from ottla.spark import lag
from tests.spark.conftest import Filled

pytestmark = pytest.mark.timeout(280)


class Table:
    """A streaming query into parquet files."""

    def __init__(self, spark: Any, broker: EmbeddedBroker, root: Path) -> None:
        self.spark, self.broker, self.root = spark, broker, root

    def start(self, *, continuous: bool = False, **options: str) -> Any:
        reader = self.spark.readStream.format("ottla")
        frame = reader.option("kafka.bootstrap.servers", self.broker.bootstrap).options(**options).load()
        writer = frame.select("value", "partition", "offset").writeStream.format("parquet")
        writer = writer.option("checkpointLocation", str(self.root / "checkpoint"))
        if not continuous:
            writer = writer.trigger(availableNow=True)
        return writer.start(str(self.root / "table"))

    def run(self, **options: Any) -> Any:
        """Everything that there is; the query, which is done."""
        query = self.start(**options)
        assert query.awaitTermination(200)
        return query

    def values(self) -> Counter[int]:
        rows = self.spark.read.parquet(str(self.root / "table")).select("value").collect()
        return Counter(int(row.value) for row in rows)

    def offsets(self, batch: int) -> Any:
        return json.loads((self.root / "checkpoint" / "offsets" / str(batch)).read_text().splitlines()[-1])

    def undo_first_batch(self) -> None:
        """As a driver leaves it that dies in the first batch."""
        for written in ("checkpoint/commits/0", "table/_spark_metadata/0"):
            (self.root / written).unlink()
            (self.root / written).with_name(".0.crc").unlink(missing_ok=True)


@pytest.fixture
def table(spark: Any, broker: EmbeddedBroker, tmp_path: Path) -> Table:
    return Table(spark, broker, tmp_path)


def test_a_restarted_query_goes_on_where_it_was(table: Table, topic: str, fill: Filled) -> None:
    fill(topic, range(300))
    first = table.run(subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger="90")
    assert len(first.recentProgress) >= 4
    assert table.values() == Counter(range(300))
    assert table.offsets(0) == {topic: {"0": 30, "1": 30, "2": 30}}
    fill(topic, range(300, 360))
    last = table.run(subscribe=topic, startingOffsets="earliest")
    assert table.values() == Counter(range(360))
    source = last.lastProgress.sources[0]
    assert json.loads(source.endOffset) == {topic: {"0": 120, "1": 120, "2": 120}}
    assert json.loads(source.latestOffset) == {topic: {"0": 120, "1": 120, "2": 120}}
    assert lag(last.lastProgress).total == 0
    behind = [lag(one) for one in first.recentProgress]
    assert behind[0].total == 210
    assert behind[0].most == 70
    assert lag(None).total == lag(None).most == 0


def test_the_first_batch_is_repeated_from_where_the_query_began(
    table: Table, topic: str, fill: Filled
) -> None:
    """Its start is "latest": asked again it would be behind all records, which would be lost."""
    fill(topic, range(30))
    table.run(subscribe=topic)
    assert table.offsets(0) == {topic: {"0": 10, "1": 10, "2": 10}}
    table.undo_first_batch()
    fill(topic, range(30, 90))
    table.run(subscribe=topic)
    assert table.values() == Counter(range(30, 90))


def test_a_group_sees_the_query_and_a_query_begins_where_a_group_is(
    table: Table, spark: Any, broker: EmbeddedBroker, topic: str, fill: Filled, tmp_path: Path
) -> None:
    fill(topic, range(90))
    table.run(subscribe=topic, startingOffsets="earliest", **{"group.id": "lag-tools"})
    with KafkaOffsets(ClientConfig.from_properties({"bootstrap.servers": broker.bootstrap})) as store:
        found = store.fetch("lag-tools", [TopicAndPartition(topic, number) for number in range(3)])
    assert sorted(position.offset for position in found.values()) == [30, 30, 30]
    fill(topic, range(90, 120))
    other = Table(spark, broker, tmp_path / "other")
    other.run(subscribe=topic, startingOffsets="group", **{"group.id": "lag-tools"})
    assert other.values() == Counter(range(90, 120))


def test_a_running_query_lives_through_what_becomes_of_topics(
    table: Table, broker: EmbeddedBroker, topic: str, fill: Filled
) -> None:
    """A new topic, more partitions, and a topic that is deleted and made anew."""
    fill(topic, range(30))
    query = table.start(
        continuous=True,
        subscribePattern=f"{topic}.*",
        startingOffsets="earliest",
        failOnDataLoss="false",
        **{"partition.metadata.cache.ttl.ms": "100"},
    )

    def reaches(name: str, partition: str, offset: int) -> None:
        while json.loads(query.lastProgress.sources[0].endOffset).get(name, {}).get(partition) != offset:
            assert query.isActive, query.exception()
            query.awaitTermination(0.1)

    try:
        query.processAllAvailable()
        broker.create_topic(f"{topic}-2", 1)
        fill(f"{topic}-2", range(30, 40), 1)
        reaches(f"{topic}-2", "0", 10)
        with Admin(bootstrap_servers=broker.bootstrap) as admin:
            admin.create_partitions(NewPartitions(topic, 4))
        with Producer(bootstrap_servers=broker.bootstrap) as late:
            for number in range(40, 80):
                late.send(topic, str(number), partition=number % 4)
        reaches(topic, "3", 10)
        broker.delete_topic(f"{topic}-2")
        broker.create_topic(f"{topic}-2", 1)
        fill(f"{topic}-2", range(80, 85), 1)
        reaches(f"{topic}-2", "0", 5)
    finally:
        query.stop()
    assert table.values() == Counter(range(85))


def test_records_that_are_gone_stop_the_query(
    table: Table, broker: EmbeddedBroker, topic: str, fill: Filled
) -> None:
    fill(topic, range(30))
    table.run(subscribe=topic, startingOffsets="earliest")
    broker.delete_topic(topic)
    broker.create_topic(topic, 3)
    fill(topic, range(100, 106))
    with pytest.raises(Exception, match="made anew"):
        table.run(subscribe=topic)
    table.run(subscribe=topic, failOnDataLoss="false")
    assert table.values() == Counter([*range(30), *range(100, 106)])
