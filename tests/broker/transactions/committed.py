"""What a reader of committed data gets."""

from __future__ import annotations

from confluent_kafka import Consumer, TopicPartition

from tests.waiting import PATIENCE_S


def read_committed(
    bootstrap: str, topic: str, partition: int = 0, *, level: str = "read_committed"
) -> list[bytes]:
    """All values of a partition, up to the end that the reader is told."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "reader", "enable.partition.eof": True}
    consumer = Consumer(settings | {"isolation.level": level, "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition(topic, partition, 0)])
    values: list[bytes] = []
    try:
        while True:
            message = consumer.poll(PATIENCE_S)
            assert message is not None
            if message.error() is not None:
                return values
            values.append(message.value() or b"")
    finally:
        consumer.close()
