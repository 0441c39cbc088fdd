"""The few things that tests of the embedded broker do with real clients, in one line each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from tests.kafka_python import KafkaConsumer
from tests.waiting import PATIENCE_S, wait_for


class Sender:
    """A producer that keeps what became of each record."""

    def __init__(self, bootstrap: str, **settings: Any) -> None:
        names = {name.replace("_", "."): value for name, value in settings.items()}
        self.producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, **names})
        self.delivered: list[Message] = []
        self.failed: list[KafkaError] = []

    def send(self, topic: str, values: Iterable[bytes], partition: int = 0) -> None:
        """Hand records over; `flush` waits for them."""
        for value in values:
            self.producer.produce(topic, value, partition=partition, on_delivery=self._note)
        self.producer.poll(0)

    def flush(self) -> None:
        """Wait until every record is delivered or has failed."""
        assert self.producer.flush(PATIENCE_S) == 0

    def _note(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.delivered.append(message)
        else:
            self.failed.append(error)


def send(
    bootstrap: str, topic: str, values: Iterable[bytes], partition: int = 0, **settings: Any
) -> list[int]:
    """Produce, and the offsets that the records got. Fails if one was not taken."""
    sender = Sender(bootstrap, **settings)
    sender.send(topic, values, partition)
    sender.flush()
    assert not sender.failed
    return [message.offset() or 0 for message in sender.delivered]


def read(bootstrap: str, topic: str, count: int, partition: int = 0) -> list[bytes]:
    """The first records of a partition."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", "fetch.wait.max.ms": 50})
    consumer.assign([TopicPartition(topic, partition, 0)])
    try:
        return read_with(consumer, count)
    finally:
        consumer.close()


def read_with(consumer: Consumer, count: int) -> list[bytes]:
    """The next records of a confluent consumer; what is no record (a broker that is down) is passed over."""
    values: list[bytes] = []

    def enough() -> bool:
        found = consumer.consume(count - len(values), 0.2)
        values.extend(message.value() or b"" for message in found if message.error() is None)
        return len(values) >= count

    wait_for(enough, f"{count} records")
    return values


def group_member(bootstrap: str, group: str, topics: Sequence[str]) -> Consumer:
    """A confluent consumer that commits only when it is told."""
    member = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": 30000,
            "heartbeat.interval.ms": 200,
            "fetch.wait.max.ms": 50,
            "reconnect.backoff.ms": 20,
            "reconnect.backoff.max.ms": 200,
            "topic.metadata.refresh.interval.ms": 1000,
        }
    )
    member.subscribe(list(topics))
    return member


@contextmanager
def python_member(
    bootstrap: str, group: str, topics: Sequence[str], **settings: Any
) -> Iterator[KafkaConsumer]:
    """The same by kafka-python, closed at the end."""
    member = KafkaConsumer(
        *topics,
        bootstrap_servers=bootstrap.split(","),
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=30000,
        metadata_max_age_ms=1000,  # its leader may assign before it knows a topic
        heartbeat_interval_ms=200,
        reconnect_backoff_ms=20,
        reconnect_backoff_max_ms=200,
        retry_backoff_ms=50,
        **settings,
    )
    try:
        yield member
    finally:
        member.close()


def read_with_python(member: KafkaConsumer, count: int) -> list[bytes]:
    """The next records of a kafka-python consumer."""
    values: list[bytes] = []

    def enough() -> bool:
        for records in member.poll(timeout_ms=200, max_records=count - len(values)).values():
            values.extend(record.value for record in records)
        return len(values) >= count

    wait_for(enough, f"{count} records")
    return values
