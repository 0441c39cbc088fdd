"""librdkafka through confluent-kafka: a real client, which costs more CPU time than the broker it talks to.

Both sides get the client's defaults but for what a case names. What was written is checked by the log's end.
"""

from __future__ import annotations

import time
from typing import Any

from benchmarks.broker.frames import OLD, ProduceShape
from benchmarks.broker.load import Outcome, StoredBatches

_TIMEOUT_S = 60
_CONSUMED_AT_ONCE = 10_000
# It cannot ask Kafka 0.9 for versions, so it is told; ours is then spoken to in the same way.
_OLD_SETTINGS = {"api.version.request": False, "broker.version.fallback": "0.9.0.1"}


class RdkafkaProducer:
    """Writes values of one shape to one topic that nobody else writes to."""

    def __init__(self, bootstrap: str, topic: str, shape: ProduceShape) -> None:
        from confluent_kafka import Producer

        settings = _settings(bootstrap, shape) | {
            "acks": 1,
            "batch.size": shape.request_bytes,
            "queue.buffering.max.messages": 1_000_000,
        }
        self._producer: Any = Producer(settings)
        self._value = b"v" * shape.value_bytes
        self._bootstrap, self._topic, self._shape = bootstrap, topic, shape
        self._written = 0

    def run(self, megabytes: int) -> Outcome:
        """Write `megabytes` of values and wait until they are acknowledged."""
        producer, topic, value = self._producer, self._topic, self._value
        count = megabytes * 1_000_000 // len(value)
        start = time.perf_counter()
        for _ in range(count):
            try:
                producer.produce(topic, value)
            except BufferError:
                producer.poll(0.1)
                producer.produce(topic, value)
        left = producer.flush(_TIMEOUT_S)
        seconds = time.perf_counter() - start
        self._written += count
        self._check(left)
        return Outcome(count, count * len(value), seconds)

    def _check(self, left: int) -> None:
        watch = _consumer(self._bootstrap, self._shape)
        end = _end_offset(watch, self._topic)
        watch.close()
        if left or end != self._written:
            raise RuntimeError(
                f"librdkafka wrote {self._written} records, {left} wait, the log ends at {end}"
            )


class RdkafkaConsumer:
    """Reads a topic from its start."""

    def __init__(self, bootstrap: str, stored: StoredBatches, shape: ProduceShape) -> None:
        self._bootstrap, self._stored, self._shape = bootstrap, stored, shape

    def run(self) -> Outcome:
        """Read all of it."""
        from confluent_kafka import OFFSET_BEGINNING, TopicPartition

        # A new one each time: one that has read all holds a fetch open at the log's end.
        consumer = _consumer(self._bootstrap, self._shape)
        _end_offset(consumer, self._stored.topic)  # connects
        count = left = self._stored.batch_count * self._stored.batch_records
        start = time.perf_counter()
        consumer.assign([TopicPartition(self._stored.topic, 0, OFFSET_BEGINNING)])
        while left:
            messages = consumer.consume(min(left, _CONSUMED_AT_ONCE), _TIMEOUT_S)
            if not messages or messages[-1].error():
                raise RuntimeError(f"librdkafka stopped {left} records before the end: {messages[-1:]}")
            left -= len(messages)
        seconds = time.perf_counter() - start
        consumer.close()
        return Outcome(count, count * self._shape.value_bytes, seconds)


def _settings(bootstrap: str, shape: ProduceShape) -> dict[str, Any]:
    return {"bootstrap.servers": bootstrap, "log_level": 0} | (_OLD_SETTINGS if shape.dialect is OLD else {})


def _consumer(bootstrap: str, shape: ProduceShape) -> Any:
    from confluent_kafka import Consumer

    settings = {
        "group.id": "benchmark",
        "enable.auto.commit": False,
        # By default it rests for a second when a broker was faster than the program that consumes.
        "fetch.queue.backoff.ms": 1,
    }
    return Consumer(_settings(bootstrap, shape) | settings)


def _end_offset(consumer: Any, topic: str) -> int:
    from confluent_kafka import TopicPartition

    _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=_TIMEOUT_S)
    return int(end)
