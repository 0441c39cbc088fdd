"""A writer that never stops: one small record to every partition, again and again."""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import Self

from benchmarks.rebalance.timeline import Place
from ottla.client.client_config import ClientConfig
from ottla.client.connection import Connection
from ottla.client.metadata import ClusterMetadata
from ottla.model.error_codes import Code
from ottla.records.messages import Message, MessageSet
from ottla.wire.api.produce import ProducePartition, ProduceRequest, ProduceTopic

PAUSE_S = 0.1
AT_ONCE = 1000
NAMES_UNTIL = 12  # of Produce: later versions have ids


class Traffic:
    """`written` says when each record was acknowledged."""

    def __init__(self, config: ClientConfig, topic: str, partitions: int, *, magic: int) -> None:
        self.written: dict[Place, float] = {}
        self._config = config
        self._topic = topic
        self._partitions = partitions
        self._records = bytes(MessageSet.of([Message(b"x" * 20)], magic=magic).data)
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        with ClusterMetadata(self._config) as metadata:
            address = metadata.leader(self._topic, 0).node.address
        parts = [ProducePartition(index=one, records=self._records) for one in range(self._partitions)]
        data = [ProduceTopic(name=self._topic, partition_data=parts)]
        request = ProduceRequest(acks=1, timeout_ms=30_000, topic_data=data)
        with Connection.open(address, self._config) as connection:
            while not self._is_over.wait(PAUSE_S):
                answer = connection.call(request, at_most=NAMES_UNTIL)
                now_s = time.monotonic()
                for partition in answer.responses[0].partition_responses:
                    if partition.error_code == Code.NOT_LEADER_OR_FOLLOWER:
                        continue  # a new topic: Kafka's leader does not know it yet
                    if partition.error_code:
                        raise RuntimeError(f"{self._topic}-{partition.index}: error {partition.error_code}")
                    self.written[partition.index, partition.base_offset] = now_s

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_over.set()
        self._thread.join()


def write(config: ClientConfig, topic: str, partitions: int, count: int, *, magic: int) -> None:
    """Write `count` small records into each partition, a thousand per request."""
    records = bytes(MessageSet.of([Message(b"x" * 20)] * AT_ONCE, magic=magic).data)
    with ClusterMetadata(config) as metadata:
        for partition in range(partitions):
            data = [
                ProduceTopic(name=topic, partition_data=[ProducePartition(index=partition, records=records)])
            ]
            request = ProduceRequest(acks=1, timeout_ms=30_000, topic_data=data)
            with Connection.open(metadata.leader(topic, partition).node.address, config) as connection:
                for _ in range(count // AT_ONCE):
                    answer = connection.call(request, at_most=NAMES_UNTIL)
                    (response,) = answer.responses[0].partition_responses
                    if response.error_code:
                        raise RuntimeError(f"{topic}-{partition}: error {response.error_code}")
