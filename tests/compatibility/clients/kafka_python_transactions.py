"""kafka-python: transactions."""

from __future__ import annotations

from collections.abc import Callable

from kafka import KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
from steps import until

SECONDS = 30


class _Session:
    def __init__(self, bootstrap: str, transactional_id: str, timeout_ms: int) -> None:
        self._producer = KafkaProducer(
            bootstrap_servers=bootstrap,
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
        )
        self._producer.init_transactions()
        self.begin = self._producer.begin_transaction
        self.commit = self._producer.commit_transaction
        self.abort = self._producer.abort_transaction

    def send(self, topic: str, value: bytes) -> None:
        self._producer.send(topic, value).get(SECONDS)

    def send_offset(self, topic: str, offset: int, group: str) -> None:
        position = {TopicPartition(topic, 0): OffsetAndMetadata(offset, "", -1)}
        self._producer.send_offsets_to_transaction(position, group)

    def close(self) -> None:
        self._producer.close(0)


class KafkaPython:
    """See transaction_steps.Library."""

    def __init__(self, bootstrap: str, create: Callable[[str], None]) -> None:
        self._bootstrap = bootstrap
        self.create = create

    def open(self, transactional_id: str, timeout_ms: int = 60_000) -> _Session:
        return _Session(self._bootstrap, transactional_id, timeout_ms)

    def write(self, topic: str, value: bytes) -> None:
        producer = KafkaProducer(bootstrap_servers=self._bootstrap)
        producer.send(topic, value).get(SECONDS)
        producer.close()

    def read(self, topic: str, count: int) -> list[bytes]:
        reader = self._consumer(None)
        reader.assign([TopicPartition(topic, 0)])
        reader.seek_to_beginning(TopicPartition(topic, 0))
        values: list[bytes] = []

        def enough() -> bool:
            for batch in reader.poll(200).values():
                values.extend(record.value for record in batch)
            return len(values) >= count

        until(enough, f"{count} records")
        reader.close()
        return values

    def position(self, group: str, topic: str) -> int:
        reader = self._consumer(group)
        found = reader.committed(TopicPartition(topic, 0))
        reader.close()
        return int(found)

    def _consumer(self, group: str | None) -> KafkaConsumer:
        return KafkaConsumer(
            bootstrap_servers=self._bootstrap,
            group_id=group,
            isolation_level="read_committed",
            enable_auto_commit=False,
            fetch_max_wait_ms=100,
        )
