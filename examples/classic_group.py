"""The consumer of Kafka 0.8 and 0.9: members share partitions through ZooKeeper. Needs Java for ZooKeeper.

Prints:

    4 streams read 1000 messages
    nothing is left for the next member
"""

from __future__ import annotations

import tempfile
import threading
from pathlib import Path

from ottla import ConsumerTimeout, EmbeddedBroker, Producer
from ottla.consumer.classic import ConsumerConnector, KafkaStream
from ottla.zookeeper.server import ZooKeeperServer

MESSAGES = 1000


def main() -> None:
    with tempfile.TemporaryDirectory() as directory, ZooKeeperServer(Path(directory)) as zookeeper:
        read_orders(zookeeper.connect)


def read_orders(zookeeper_connect: str) -> None:
    with EmbeddedBroker(properties={"zookeeper.connect": zookeeper_connect}) as broker:
        broker.create_topic("orders", 4)
        with Producer(bootstrap_servers=broker.bootstrap) as producer:
            for number in range(MESSAGES):
                producer.send("orders", f"order {number}", partition=number % 4)
        settings = {
            "group.id": "billing",
            "zookeeper.connect": zookeeper_connect,
            "auto.offset.reset": "smallest",
            "consumer.timeout.ms": 2000,
        }
        print("4 streams read", read_with_streams(settings, 4), "messages")
        assert read_with_streams(settings, 1) == 0
        print("nothing is left for the next member")


def read_with_streams(settings: dict[str, object], count: int) -> int:
    """Read until nothing comes any more, each stream in its own thread; return the number of messages."""
    lock = threading.Lock()
    total = 0

    def read(stream: KafkaStream) -> None:
        nonlocal total
        try:
            for _ in stream:
                with lock:
                    total += 1
        except ConsumerTimeout:
            pass

    with ConsumerConnector(settings) as connector:
        connector.run(read, connector.create_message_streams({"orders": count})["orders"])
        connector.commit_offsets()
    return total


if __name__ == "__main__":
    main()
