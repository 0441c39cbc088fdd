"""The steps of a write with exactlyOnce, as Spark takes them: planned, written by tasks, committed."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import StringType, StructField, StructType

from ottla import Admin, EmbeddedBroker, replay
from ottla.admin import NewTopic
from ottla.spark.writer import TopicWriter, close_producer, sink_options
from tools.peers import KAFKA_4, RealKafka

SCHEMA = StructType([StructField("value", StringType())])
OPEN = ("Ongoing", "PrepareCommit", "PrepareAbort")


@pytest.fixture(scope="module", params=["ottla", "kafka"])
def bootstrap(request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param == "kafka":
        real_kafka: Callable[[str], RealKafka] = request.getfixturevalue("real_kafka")
        yield real_kafka(KAFKA_4).bootstrap
        close_producer()
        return
    with EmbeddedBroker() as broker:
        yield broker.bootstrap
        close_producer()


class Sink:
    """A topic, and writes into it."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.bootstrap, self.topic = bootstrap, topic
        with Admin(bootstrap_servers=bootstrap) as admin:
            admin.create_topics(NewTopic(topic, 2))

    def planned(self, batch: int = 0, timeout_ms: int = 900_000, **options: str) -> TopicWriter:
        """What Spark has after it has planned a write."""
        given = {"kafka.bootstrap.servers": self.bootstrap, "topic": self.topic, "exactlyOnce": "true"}
        given |= {"writeId": self.topic, "batchId": str(batch), **options}
        given["kafka.transaction.timeout.ms"] = str(timeout_ms)
        writer: TopicWriter = pickle.loads(pickle.dumps(TopicWriter(sink_options(given, SCHEMA))))
        return writer

    def values(self, *, isolation_level: str = "read_committed") -> Counter[int]:
        table = replay(
            self.topic, bootstrap_servers=self.bootstrap, isolation_level=isolation_level
        ).to_table()
        return Counter(int(value) for value in table["value"].to_pylist())

    def written(self) -> int:
        """How many records there are, committed or not."""
        return sum(self.values(isolation_level="read_uncommitted").values())

    def open_ids(self) -> list[str]:
        with Admin(bootstrap_servers=self.bootstrap) as admin:
            listed = admin.list_transactions(states=OPEN)
        return [one.transactional_id for one in listed if f".{self.topic}" in one.transactional_id]


def task(writer: TopicWriter, first: int, count: int = 10) -> Any:
    values = [str(number) for number in range(first, first + count)]
    return writer.write(iter([pa.record_batch({"value": values})]))
