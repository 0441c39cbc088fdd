"""A broker with topics and a Spark session that has both formats, and what a case can do with them."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ottla import Admin, EmbeddedBroker, Producer, TopicAndPartition
from ottla.client.client_config import ClientConfig
from ottla.offsets import KafkaOffsets, OffsetAndMetadata
from tools.peer_cache import spark_kafka_jars

THEIRS, OURS = "kafka", "ottla"
FIRST_MS = 1_700_000_000_000
WAIT_S = 120


@dataclass
class Bench:
    """The session, the broker, and a directory for checkpoints."""

    spark: Any
    broker: EmbeddedBroker
    folder: Path
    made: int = field(default=0)

    def new_name(self) -> str:
        """A name that was not used before."""
        self.made += 1
        return f"made{self.made}"

    def read(self, kind: str, **options: str) -> Any:
        """A batch DataFrame."""
        reader = self.spark.read.format(kind).option("kafka.bootstrap.servers", self.broker.bootstrap)
        return reader.options(**options).load()

    def stream(self, kind: str, **options: str) -> list[Any]:
        """The rows of a stream that ends at today's end, by batch."""
        reader = self.spark.readStream.format(kind).option("kafka.bootstrap.servers", self.broker.bootstrap)
        name = self.new_name()
        batches: list[Any] = []
        writer = reader.options(**options).load().writeStream.trigger(availableNow=True)
        query = (
            writer.foreachBatch(
                lambda rows, _: batches.append(sorted(map(tuple, rows.select(*PLACE).collect())))
            )
            .option("checkpointLocation", str(self.folder / name))
            .start()
        )
        query.awaitTermination(WAIT_S)
        return batches


PLACE = ("topic", "partition", "offset")


@contextmanager
def bench() -> Iterator[Bench]:
    """A broker with topics, and a session that has both formats."""
    import ottla.spark

    jars = ",".join(str(path) for path in sorted(spark_kafka_jars().glob("*.jar")))
    with EmbeddedBroker() as broker, tempfile.TemporaryDirectory() as folder:
        fill(broker)
        spark = ottla.spark.session(
            "parity",
            "local[2]",
            spark_jars=jars,
            spark_sql_shuffle_partitions="2",
            spark_sql_session_timeZone="UTC",
        )
        spark.sparkContext.setLogLevel("OFF")
        try:
            yield Bench(spark, broker, Path(folder))
        finally:
            spark.stop()


def fill(broker: EmbeddedBroker) -> None:
    """The topics that the cases read."""
    keep = {"retention.ms": "-1"}
    for name, partitions in (("orders", 3), ("orders-eu", 1), ("other", 1), ("cut", 1), ("many", 10)):
        broker.create_topic(name, partitions, config=keep)
    with Producer(bootstrap_servers=broker.bootstrap, linger_ms=0) as producer:
        for number in range(300):
            producer.send(
                "orders",
                str(number),
                key=None if number % 7 == 0 else f"k{number}",
                partition=number % 3,
                timestamp_ms=FIRST_MS + 1000 * number,
                headers=[("h", b"x")] if number % 2 else [],
            )
        for name, count in (("orders-eu", 10), ("other", 5), ("cut", 20)):
            for number in range(count):
                producer.send(name, str(number))
        for number in range(1000):
            producer.send("many", str(number), partition=number % 10)
    config = ClientConfig.from_properties({"bootstrap.servers": broker.bootstrap})
    with KafkaOffsets(config) as offsets:  # so that there is an internal topic
        offsets.commit("readers", {TopicAndPartition("orders", 0): OffsetAndMetadata(1)})
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.delete_records({TopicAndPartition("cut", 0): 7})


# --- what a case does


def rows(**options: str) -> Callable[[Bench, str], Any]:
    """All columns of a batch read, in order of offsets."""

    def act(bench: Bench, kind: str) -> Any:
        return sorted(map(repr, bench.read(kind, **options).collect()))

    return act


def task_sizes(**options: str) -> Callable[[Bench, str], Any]:
    """How many records each task has, sorted."""

    def act(bench: Bench, kind: str) -> Any:
        frame = bench.read(kind, **options).selectExpr("spark_partition_id() as task")
        return sorted(Counter(row[0] for row in frame.collect()).values())

    return act


def schema(**options: str) -> Callable[[Bench, str], Any]:
    """The columns."""
    return lambda bench, kind: bench.read(kind, **options).schema.simpleString()


def streamed(**options: str) -> Callable[[Bench, str], Any]:
    """All rows of a stream."""
    return lambda bench, kind: sorted(row for batch in bench.stream(kind, **options) for row in batch)


def batch_sizes(**options: str) -> Callable[[Bench, str], Any]:
    """How many rows each batch of a stream has, without empty ones."""
    return lambda bench, kind: [len(batch) for batch in bench.stream(kind, **options) if batch]


def written(
    expression: list[str], mode: str | None = "append", **options: str
) -> Callable[[Bench, str], Any]:
    """What is in a new topic after ten rows of these expressions were written to it."""

    def act(bench: Bench, kind: str) -> Any:
        topic = bench.new_name()
        bench.broker.create_topic(topic, 2)
        given = {name: value.replace("TOPIC", topic) for name, value in options.items()}
        columns = [text.replace("TOPIC", topic) for text in expression]
        writer = bench.spark.range(10).selectExpr(*columns).write.format(kind)
        writer = writer.option("kafka.bootstrap.servers", bench.broker.bootstrap).options(**given)
        (writer.mode(mode) if mode else writer).save()
        found = bench.read(THEIRS, subscribe=topic, includeHeaders="true")
        got = found.selectExpr(
            "key", "value", "headers", "unix_millis(timestamp) < 1600000000000 as is_old", "partition"
        )
        return sorted(map(repr, got.collect()))

    return act
