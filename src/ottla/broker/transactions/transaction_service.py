"""Carries out what the transaction coordinator of one broker decides: replies, records, markers, timers."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

from ottla.broker.coordination.effects import Record
from ottla.broker.coordination.service import CoordinatorService
from ottla.broker.coordination.topic_writer import CoordinatorWriter
from ottla.broker.storage.partition import Partition
from ottla.broker.storage.runtime import Runtime
from ottla.broker.storage.topic_store import TopicStore
from ottla.broker.storage.turn import Failures
from ottla.log.end_markers import EndMarker
from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError, StorageError
from ottla.model.topic_partition import TRANSACTIONS_TOPIC, TopicAndPartition

if TYPE_CHECKING:
    from ottla.broker.transactions.coordinator import (
        EndInPartitions,
        TransactionCoordinator,
        TransactionDecision,
    )


class MarkerWriter(Protocol):
    """Writes markers to partitions, whichever broker of the process leads them."""

    def end_transaction(self, partition: Partition, marker: EndMarker) -> None:
        """Stage a marker. Raises KafkaError or StorageError."""


class TransactionService(CoordinatorService["TransactionDecision"]):
    """The transactional ids that a broker coordinates. Owned by the loop."""

    def __init__(self, broker_id: int, store: TopicStore, runtime: Runtime, markers: MarkerWriter) -> None:
        self._store = store
        self._markers = markers
        self._config = store.config.transactions
        self._offsets_partition_count = store.config.groups.offsets_partition_count
        super().__init__(CoordinatorWriter(TRANSACTIONS_TOPIC, store, runtime, broker_id), runtime)

    @cached_property
    def coordinator(self) -> TransactionCoordinator:
        """The coordinator, loaded by the first transactional id."""
        from ottla.broker.transactions.coordinator import TransactionCoordinator

        return TransactionCoordinator(self._config, self._offsets_partition_count, self._new_producer_id)

    def _new_producer_id(self) -> int:
        try:
            return self._store.producer_ids.take()
        except StorageError as error:
            # Kafka's error for "try again": a storage error would end a Java producer.
            raise KafkaError(Code.COORDINATOR_NOT_AVAILABLE, str(error)) from error

    def abort_timed_out(self) -> None:
        """Abort transactions whose timeout is over."""
        if self.is_used:
            self._perform(self.coordinator.abort_timed_out(self._runtime.steady_ms()))

    def _perform(self, decision: TransactionDecision) -> None:
        super()._perform(decision)
        for end in decision.ends:
            self._end(end)

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
        self._perform(self.coordinator.on_ended(end, {**errors, **failed}, self._runtime.steady_ms()))

    # --- partitions of the transaction log

    def lead(self, partition: Partition) -> None:
        """Load the ids of a partition of the transaction log that this broker leads now."""
        self.coordinator.begin_load(partition.index, partition.leader_epoch)
        self._loads.begin(partition)

    def _replay(self, record: Record, _producer_id: int | None) -> None:
        self.coordinator.replay(record)
