"""Reading a topic message by message: a loop in Python that looks at offset, key and value of each.

One broker of ours in a process of its own serves everybody. Records have 8 B keys and 100 B or 1 KB values in
one partition. Ours is `PartitionConsumer`, with the settings that users get. confluent-kafka hands out lists
of 10,000 messages, and is measured with fetch.queue.backoff.ms=1: by default it pauses for a second whenever
its queue is full. kafka-python reads less; they take turns, and the best round of each counts.
"""

from __future__ import annotations

import gc
import os
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import pyarrow as pa

from benchmarks.broker.contenders import ottla
from benchmarks.harness import Case, Effort, Measure, Peer, benchmark, version_of
from ottla.consumer.partition import PartitionConsumer
from ottla.producer import Producer

VALUE_BYTES = (100, 1000)
BATCH_ROWS = 20_000
TIMEOUT_S = 60.0
CONFLUENT_SHARE, KAFKA_PYTHON_SHARE = 1, 16
"""A slower contender reads one of this many records."""
CONFLUENT_TARGETS = {100: 1.0, 1000: 1.5}


@dataclass(frozen=True)
class Topic:
    """One partition full of records."""

    bootstrap: str
    name: str
    records: int


Read = Callable[[Topic, int], None]
Seen = tuple[int, Any, Any]
NOTHING: Seen = (-1, None, None)


@benchmark("rows")
def rows(effort: Effort) -> Iterator[Case]:
    """Small and large records, by both clocks."""
    with ottla() as server:
        for value_bytes in VALUE_BYTES:
            topic = filled(server.bootstrap, value_bytes, effort.server_mb << 20)
            for clock, said in (
                (time.perf_counter, "by the clock"),
                (time.process_time, "per CPU second of the client"),
            ):
                peers = [
                    _peer(
                        "confluent-kafka",
                        read_confluent,
                        topic,
                        clock,
                        CONFLUENT_SHARE,
                        CONFLUENT_TARGETS[value_bytes],
                    ),
                    _peer("kafka-python", read_kafka_python, topic, clock, KAFKA_PYTHON_SHARE, None),
                ]
                name = f"rows of {value_bytes} B values, {said}"
                ours = _measure(read_ottla, topic, clock, 1)
                yield Case(name, "records/s", ours, peers, effort.server_rounds)


def _peer(
    name: str, read: Read, topic: Topic, clock: Callable[[], float], share: int, target: float | None
) -> Peer:
    version = version_of(name)
    if version is None:
        return Peer(name, note="not installed", target=target)
    return Peer(name, version, _measure(read, topic, clock, share), target=target)


def _measure(read: Read, topic: Topic, clock: Callable[[], float], share: int) -> Measure:
    records = topic.records // share

    def measure() -> float:
        gc.collect()
        start = clock()
        read(topic, records)
        return records / (clock() - start)

    return measure


# --- the contenders: each reads a number of records from the start


def read_ottla(topic: Topic, records: int) -> None:
    """Ours."""
    with PartitionConsumer(bootstrap_servers=topic.bootstrap) as consumer:
        reader = consumer.consume_partition(topic.name, 0, "earliest")
        seen: Seen = NOTHING
        for message in islice(reader.messages(timeout=TIMEOUT_S), records):
            seen = message.offset, message.key, message.value
    _check("ottla", seen, records)


def read_confluent(topic: Topic, records: int) -> None:
    """librdkafka at its best setting."""
    from confluent_kafka import Consumer, TopicPartition

    consumer: Any = Consumer(
        {
            "bootstrap.servers": topic.bootstrap,
            "group.id": "benchmark",
            "enable.auto.commit": False,
            "fetch.queue.backoff.ms": 1,
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(topic.name, 0, 0)])
    seen: Seen = NOTHING
    left = records
    while left > 0 and (messages := consumer.consume(min(10_000, left), TIMEOUT_S)):
        left -= len(messages)
        for message in messages:
            seen = message.offset(), message.key(), message.value()
    consumer.close()
    _check("confluent-kafka", seen, records)


def read_kafka_python(topic: Topic, records: int) -> None:
    """As its users write it."""
    from kafka import KafkaConsumer, TopicPartition

    consumer: Any = KafkaConsumer(
        bootstrap_servers=topic.bootstrap, enable_auto_commit=False, consumer_timeout_ms=TIMEOUT_S * 1000
    )
    place = TopicPartition(topic.name, 0)
    consumer.assign([place])
    consumer.seek(place, 0)
    seen: Seen = NOTHING
    for message in islice(consumer, records):
        seen = message.offset, message.key, message.value
    consumer.close()
    _check("kafka-python", seen, records)


def _check(name: str, seen: Seen, records: int) -> None:
    """Whether the last record that was seen is the last one."""
    if seen[:2] != (records - 1, b"%08d" % (records - 1)):
        raise RuntimeError(f"{name} stopped at record {seen[0]} of {records}")


def filled(bootstrap: str, value_bytes: int, total_bytes: int) -> Topic:
    """A new topic with `total_bytes` of values."""
    topic, records = f"rows-{uuid.uuid4().hex[:12]}", total_bytes // value_bytes
    with Producer(bootstrap_servers=bootstrap) as producer:
        for first in range(0, records, BATCH_ROWS):
            numbers = range(first, min(first + BATCH_ROWS, records))
            columns = {
                "key": pa.array([b"%08d" % number for number in numbers], pa.binary()),
                "value": pa.array([b"%0*d" % (value_bytes, number) for number in numbers], pa.binary()),
                "partition": pa.array([0] * len(numbers), pa.int32()),
            }
            producer.send_batch(topic, pa.record_batch(columns))
    os.sync()  # else the first rounds run beside the kernel's writing
    return Topic(bootstrap, topic, records)
