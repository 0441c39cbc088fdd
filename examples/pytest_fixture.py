"""A test of your application on a real broker: ottla's pytest plugin brings the fixtures.

In your project `pytest` finds such tests by itself; `--kafka-bootstrap HOST:PORT` takes a cluster of yours.

Prints:

    2 passed
"""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import islice

import pytest

from ottla import EmbeddedBroker, GroupConsumer, Producer


def copy_upper(bootstrap: str, source: str, target: str, count: int) -> None:
    """The application: read `count` records, write them in capitals, commit."""
    with (
        GroupConsumer(
            source, group_id="upper", bootstrap_servers=bootstrap, auto_offset_reset="earliest"
        ) as consumer,
        Producer(bootstrap_servers=bootstrap) as producer,
    ):
        for message in islice(consumer, count):
            if message.value is not None:  # a tombstone has no value
                producer.send(target, message.value.upper(), key=message.key)
        producer.flush()
        consumer.commit()


def read_all(bootstrap: str, topic: str, count: int) -> list[bytes | None]:
    with GroupConsumer(
        topic, group_id="check", bootstrap_servers=bootstrap, auto_offset_reset="earliest"
    ) as consumer:
        return [message.value for message in islice(consumer, count)]


@pytest.mark.kafka_topic(partitions=1)
def test_records_are_copied(kafka_broker: EmbeddedBroker, kafka_topic: str) -> None:
    with Producer(bootstrap_servers=kafka_broker.bootstrap) as producer:
        producer.send(kafka_topic, b"coffee")
        producer.send(kafka_topic, b"cake")
    copy_upper(kafka_broker.bootstrap, kafka_topic, "copies", 2)
    assert read_all(kafka_broker.bootstrap, "copies", 2) == [b"COFFEE", b"CAKE"]


def test_a_lost_commit_is_repeated(kafka_broker: EmbeddedBroker, kafka_topic: str) -> None:
    with Producer(bootstrap_servers=kafka_broker.bootstrap) as producer:
        producer.send(kafka_topic, b"tea")
    kafka_broker.drop("OffsetCommit")  # the connection breaks instead of an answer, once
    copy_upper(kafka_broker.bootstrap, kafka_topic, "more", 1)
    assert read_all(kafka_broker.bootstrap, "more", 1) == [b"TEA"]


if __name__ == "__main__":
    # With no configuration: that of this repository's own tests needs more plugins.
    bare = ["-c", os.devnull, "--rootdir", os.path.dirname(__file__), "-p", "no:cacheprovider"]
    sys.exit(subprocess.call([sys.executable, "-m", "pytest", "-q", *bare, __file__]))
