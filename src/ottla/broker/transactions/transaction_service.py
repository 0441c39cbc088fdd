"""Carries out what the transaction coordinator of one broker decides: replies, records, markers, timers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Protocol, cast

from ottla.broker.coordination.effects import Append, Caller, Record
from ottla.broker.coordination.loading import PartitionLoads
from ottla.broker.coordination.topic_writer import TopicWriter
from ottla.broker.storage.partition import Partition
from ottla.broker.storage.runtime import Runtime
from ottla.broker.storage.topic_store import TopicStore
from ottla.broker.storage.turn import Failures
from ottla.broker.transactions.coordinator import (
    Decision,
    EndInPartitions,
    RetryTimer,
    TransactionCoordinator,
)
from ottla.log.end_markers import EndMarker
from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError, StorageError
from ottla.model.topic_partition import TRANSACTIONS_TOPIC, TopicAndPartition
from ottla.wire.schema import Request

ReplyTo = Callable[[Any], None]


class MarkerWriter(Protocol):
    """Writes markers to partitions, whichever broker of the process leads them."""

    def end_transaction(self, partition: Partition, marker: EndMarker) -> None:
        """Stage a marker. Raises KafkaError or StorageError."""


class TransactionService:
    """The transactional ids that a broker coordinates. Owned by the loop."""

    def __init__(self, broker_id: int, store: TopicStore, runtime: Runtime, markers: MarkerWriter) -> None:
        self._log_writer = TopicWriter(TRANSACTIONS_TOPIC, store, runtime, broker_id)
        self._store = store
        self._runtime = runtime
        self._markers = markers
        config = store.config
        self.coordinator = TransactionCoordinator(
            config.transactions, config.groups.offsets_partition_count, self._new_producer_id
        )
        self._loads = PartitionLoads(runtime, self._replay, self._loaded)

    def _new_producer_id(self) -> int:
        try:
            return self._store.producer_ids.take()
        except StorageError as error:
            # Kafka's word for "later": a storage error would be the end of a Java producer.
            raise KafkaError(Code.COORDINATOR_NOT_AVAILABLE, str(error)) from error

    def ask(self, request: Request[Any], caller: Caller) -> None:
        """Have a request decided. `caller.ticket` is called with the answer, now or later."""
        self._perform(self.coordinator.decide(request, caller, self._runtime.now_ms()))

    def abort_timed_out(self) -> None:
        """Abort transactions whose timeout is over."""
        self._perform(self.coordinator.abort_timed_out(self._runtime.now_ms()))

    def expire(self) -> None:
        """Delete transactional ids that have expired."""
        self._perform(self.coordinator.expire(self._runtime.now_ms()))

    def _perform(self, decision: Decision) -> None:
        for reply in decision.replies:
            cast(ReplyTo, reply.ticket)(reply.response)
        for timer in decision.timers:
            delay_ms = timer.at_ms - self._runtime.now_ms()
            self._runtime.loop.call_later(max(delay_ms, 0) / 1000, self._on_timer, timer)
        for append in decision.appends:
            self._append(append)
        for end in decision.ends:
            self._end(end)

    def _on_timer(self, timer: RetryTimer) -> None:
        if not self._runtime.is_closed:
            self._perform(self.coordinator.on_timer(timer, self._runtime.now_ms()))

    # --- records of the transaction log

    def _append(self, append: Append) -> None:
        self._log_writer.append(append.partition, append.records, partial(self._appended, append))

    def _appended(self, append: Append, error: Code) -> None:
        self._perform(self.coordinator.on_append_result(append.append_id, error, self._runtime.now_ms()))

    # --- markers

    def _end(self, end: EndInPartitions) -> None:
        """Write a marker to each partition, and report the errors when all are written."""
        marker = EndMarker(
            end.producer_id, end.producer_epoch, end.coordinator_epoch, end.is_commit, end.version
        )
        errors: dict[TopicAndPartition, Code] = {}
        staged: dict[TopicAndPartition, Partition] = {}
        for item in end.partitions:
            try:
                partition = self._store.partition(*item)
                self._markers.end_transaction(partition, marker)
            except (KafkaError, StorageError) as error:
                errors[item] = Code.of(error.code)
            else:
                staged[item] = partition
        if staged:
            self._runtime.turn.then(lambda failures: self._ended(end, errors, staged, failures))
        else:
            self._ended(end, errors, staged, {})

    def _ended(
        self,
        end: EndInPartitions,
        errors: Mapping[TopicAndPartition, Code],
        staged: Mapping[TopicAndPartition, Partition],
        failures: Failures,
    ) -> None:
        failed = {
            item: Code.KAFKA_STORAGE_ERROR for item, partition in staged.items() if partition in failures
        }
        self._perform(self.coordinator.on_ended(end, {**errors, **failed}, self._runtime.now_ms()))

    # --- partitions of the transaction log

    def lead(self, partition: Partition) -> None:
        """This broker leads a partition of the transaction log now: load its ids."""
        self.coordinator.begin_load(partition.index, partition.leader_epoch)
        self._loads.begin(partition)

    def _replay(self, record: Record, _producer_id: int | None) -> None:
        self.coordinator.replay(record)

    def _loaded(self, index: int) -> None:
        self._perform(self.coordinator.finish_load(index, self._runtime.now_ms()))

    def resign(self, partition: Partition) -> None:
        """Another broker leads a partition now: forget its ids."""
        self._loads.cancel(partition)
        self._perform(self.coordinator.unload(partition.index, self._runtime.now_ms()))
