"""Stores the records of a coordinator in its topic, and reports when they are written."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ottla.broker.coordination.effects import Record
from ottla.broker.storage.appending import Appender
from ottla.broker.storage.partition import Partition
from ottla.broker.storage.record_batches import batch_of
from ottla.broker.storage.runtime import Runtime
from ottla.broker.storage.topic_store import TopicStore
from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError, StorageError

Written = Callable[[Code], None]
"""Called with NONE when records are written, or with the error."""


class CoordinatorWriter:
    """Appends to partitions of one topic. Owned by the loop.

    With a `broker_id` only to those that this broker leads. An `appender` is needed for records of a
    producer's transaction.
    """

    def __init__(
        self,
        topic: str,
        store: TopicStore,
        runtime: Runtime,
        broker_id: int | None = None,
        appender: Appender | None = None,
    ) -> None:
        self._topic = topic
        self._store = store
        self._runtime = runtime
        self._broker_id = broker_id
        self._appender = appender

    def append(
        self, index: int, records: Iterable[Record], then: Written, producer: tuple[int, int] | None = None
    ) -> None:
        """Write records at the end of this turn, all or none, and then call `then`; at once if they are
        refused.

        With a producer's id and epoch they are part of its transaction.
        """
        try:
            partition = self._store.partition(self._topic, index)
            self._stage(partition, records, producer)
        except (KafkaError, StorageError) as error:
            then(Code.of(error.code))
            return
        turn = self._runtime.turn
        turn.stage(partition)
        turn.then(lambda failures: then(Code.KAFKA_STORAGE_ERROR if partition in failures else Code.NONE))

    def _stage(
        self, partition: Partition, records: Iterable[Record], producer: tuple[int, int] | None
    ) -> None:
        now_ms = self._runtime.now_ms()
        batch = batch_of(records, now_ms, producer)
        if producer is not None and self._appender is not None:
            self._appender.append_own(partition, batch)
            return
        log = partition.led_log(partition.leader if self._broker_id is None else self._broker_id)
        log.append(batch, now_ms, partition.leader_epoch)
