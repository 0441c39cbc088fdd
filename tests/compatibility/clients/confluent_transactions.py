"""confluent-kafka (librdkafka): transactions."""

from __future__ import annotations

from collections.abc import Callable

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from steps import until

SECONDS = 30


class _Session:
    def __init__(self, bootstrap: str, transactional_id: str, timeout_ms: int) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "transactional.id": transactional_id,
                "transaction.timeout.ms": timeout_ms,
            }
        )
        self._metadata = Consumer({"bootstrap.servers": bootstrap, "group.id": transactional_id})
        self._producer.init_transactions(SECONDS)
        self.begin = self._producer.begin_transaction

    def send(self, topic: str, value: bytes) -> None:
        self._producer.produce(topic, value)
        self._producer.flush(SECONDS)

    def send_offset(self, topic: str, offset: int, _group: str) -> None:
        metadata = self._metadata.consumer_group_metadata()
        positions = [TopicPartition(topic, 0, offset)]
        self._producer.send_offsets_to_transaction(positions, metadata, SECONDS)

    def commit(self) -> None:
        self._producer.commit_transaction(SECONDS)

    def abort(self) -> None:
        self._producer.abort_transaction(SECONDS)

    def close(self) -> None:
        self._metadata.close()
        self._producer.purge()


class Confluent:
    """See transaction_steps.Library. A transactional id is the name of its group, too."""

    def __init__(self, bootstrap: str, create: Callable[[str], None]) -> None:
        self._bootstrap = bootstrap
        self.create = create

    def open(self, transactional_id: str, timeout_ms: int = 60_000) -> _Session:
        return _Session(self._bootstrap, transactional_id, timeout_ms)

    def write(self, topic: str, value: bytes) -> None:
        producer = Producer({"bootstrap.servers": self._bootstrap})
        producer.produce(topic, value)
        producer.flush(SECONDS)

    def read(self, topic: str, count: int) -> list[bytes]:
        reader = self._consumer("reader")
        reader.assign([TopicPartition(topic, 0, 0)])
        values: list[bytes] = []

        def enough() -> bool:
            for message in reader.consume(100, 0.2):
                if message.error():
                    raise KafkaException(message.error())
                values.append(message.value() or b"")
            return len(values) >= count

        until(enough, f"{count} records")
        reader.close()
        return values

    def position(self, group: str, topic: str) -> int:
        reader = self._consumer(group)
        (found,) = reader.committed([TopicPartition(topic, 0)], SECONDS)
        reader.close()
        return int(found.offset)

    def _consumer(self, group: str) -> Consumer:
        settings = {"bootstrap.servers": self._bootstrap, "group.id": group, "fetch.wait.max.ms": 100}
        return Consumer(settings | {"isolation.level": "read_committed", "enable.auto.commit": False})
