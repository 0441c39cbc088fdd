"""The same on Apache Kafka: what drivers ask, what tasks read and write. No Spark is needed for that."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from pyspark.sql.types import StringType, StructField, StructType

from ottla.spark.range_reader import close_engine, read_ranges
from ottla.spark.row_identity import TaskIdentity
from ottla.spark.source_options import Mode, source_options
from ottla.spark.stream_planner import StreamPlanner
from ottla.spark.writer import close_producer, send_rows, sink_options
from tools.peers import KAFKA_4, RealKafka

TOPIC = "streamed"
SCHEMA = StructType([StructField("key", StringType()), StructField("value", StringType())])


@pytest.fixture(scope="module", params=[KAFKA_4])
def kafka(request: pytest.FixtureRequest, real_kafka: Callable[[str], RealKafka]) -> Iterator[RealKafka]:
    yield real_kafka(request.param)
    close_engine()
    close_producer()


def send(kafka: RealKafka, numbers: range) -> None:
    given = sink_options({"kafka.bootstrap.servers": kafka.bootstrap, "topic": TOPIC}, SCHEMA)
    texts = [str(number) for number in numbers]
    batch = pa.record_batch({"key": texts, "value": texts})
    assert send_rows([batch], given, TaskIdentity("q", 0, 0)) == len(numbers)


def test_a_query_goes_on_while_partitions_are_added(kafka: RealKafka) -> None:
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    admin.create_topics([NewTopic(TOPIC, 2)])[TOPIC].result()
    options = source_options(
        {**_options(kafka), "startingOffsets": "earliest", "partition.metadata.cache.ttl.ms": "0"},
        Mode.STREAM,
    )
    planner = StreamPlanner(options)
    seen: list[int] = []

    def batch(at: dict[str, Any]) -> dict[str, Any]:
        """All that there is."""
        end = planner.latest_offset(at, None, takes_all=True)
        for task in planner.tasks(at, end):
            for _, records in read_ranges(task, options.client, options.fetch, patience_ms=60_000):
                seen.extend(int(value) for value in records.column("value").to_pylist())
        return end

    try:
        send(kafka, range(100))
        at = batch(planner.initial_offset())
        admin.create_partitions([NewPartitions(TOPIC, 4)])[TOPIC].result()
        send(kafka, range(100, 300))
        while len(seen) < 300:
            at = batch(at)
        assert sorted(seen) == list(range(300))
        assert sorted(at[TOPIC]) == ["0", "1", "2", "3"]
        again = StreamPlanner(source_options({**_options(kafka), "startingOffsets": "group"}, Mode.STREAM))
        assert planner.latest_offset(at, None, takes_all=True) is at
        assert again.initial_offset() == at
        again.close()
    finally:
        planner.close()


def _options(kafka: RealKafka) -> dict[str, str]:
    return {"kafka.bootstrap.servers": kafka.bootstrap, "subscribe": TOPIC, "group.id": "shadow"}
