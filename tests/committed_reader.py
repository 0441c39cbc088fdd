"""A reader of committed records, in a thread, while a test does something to those who write them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from ottla import PartitionConsumer, TopicAndPartition

Values = dict[TopicAndPartition, list[str]]


@contextmanager
def committed_seen(bootstrap: str, topic: str, partitions: int) -> Iterator[Values]:
    """The values that it has seen until now, in order."""
    seen: Values = {}
    is_over = threading.Event()

    def read() -> None:
        with PartitionConsumer(bootstrap_servers=bootstrap, isolation_level="read_committed") as consumer:
            for partition in range(partitions):
                consumer.consume_partition(topic, partition, "earliest")
            while not is_over.is_set():
                for chunk in consumer.chunks(timeout=0.1):
                    values = seen.setdefault(chunk.topic_partition, [])
                    values += [value.decode() for value in chunk.batch["value"].to_pylist()]

    thread = threading.Thread(target=read)
    thread.start()
    try:
        yield seen
    finally:
        is_over.set()
        thread.join()
