"""Connects the coordinators and the partitions of all brokers of the process.

In Kafka they ask over the network: a partition's leader sends AddPartitionsToTxn to the coordinator, and that
sends WriteTxnMarkers to the leaders.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.broker.coordination.effects import Caller
from ottla.broker.coordination.led_partitions import partition_for
from ottla.broker.storage.appending import Appender
from ottla.broker.storage.open_transactions import Refusals, TransactionClaim
from ottla.broker.storage.partition import NO_LEADER, Partition
from ottla.broker.storage.topic_store import TopicStore
from ottla.broker.transactions.transaction_service import TransactionService
from ottla.log.end_markers import EndMarker
from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError
from ottla.model.topic_partition import TRANSACTIONS_TOPIC, TopicAndPartition, by_topic

if TYPE_CHECKING:
    from ottla.wire.api.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse

# What a producer is told if its partition could not be added: it knows the answers to Produce, and not those
# of a coordinator. Retriable ones make it send the batch again.
_PRODUCE_ERRORS = {
    Code.PRODUCER_FENCED: Code.INVALID_PRODUCER_EPOCH,
    Code.NOT_COORDINATOR: Code.NOT_ENOUGH_REPLICAS,
    Code.COORDINATOR_NOT_AVAILABLE: Code.NOT_ENOUGH_REPLICAS,
    Code.COORDINATOR_LOAD_IN_PROGRESS: Code.NOT_ENOUGH_REPLICAS,
}
_OLDER_ERRORS = _PRODUCE_ERRORS | {
    Code.CONCURRENT_TRANSACTIONS: Code.NOT_ENOUGH_REPLICAS,
    Code.TRANSACTION_ABORTABLE: Code.INVALID_TXN_STATE,
}


class TransactionBrokers:
    """Owned by the loop. `services` and `appenders` are those of each broker, by its id."""

    def __init__(self, store: TopicStore) -> None:
        self._store = store
        self.services: dict[int, TransactionService] = {}
        self.appenders: dict[int, Appender] = {}

    def end_transaction(self, partition: Partition, marker: EndMarker) -> None:
        """Stage a marker at the leader of a partition. Raises KafkaError or StorageError."""
        if partition.leader == NO_LEADER:
            raise KafkaError(Code.NOT_LEADER_OR_FOLLOWER, f"{partition} has no leader")
        self.appenders[partition.leader].end_transaction(partition, marker)

    def coordinator_id(self, transactional_id: str) -> int:
        """Return the broker that coordinates an id. Raises KafkaError if there is none."""
        partitions = self._store.partitions.get(TRANSACTIONS_TOPIC, [])
        if not partitions:
            reason = f"transactional id {transactional_id!r}: no producer has started with it"
            raise KafkaError(Code.INVALID_PRODUCER_ID_MAPPING, reason)
        leader = partitions[partition_for(transactional_id, len(partitions))].leader
        if leader == NO_LEADER:
            raise KafkaError(Code.COORDINATOR_NOT_AVAILABLE, f"transactional id {transactional_id!r}")
        return leader

    def admit(self, claim: TransactionClaim, then: Callable[[Refusals], None]) -> None:
        """Have partitions added to a transaction or, for older producers, verify that they were added."""
        if not claim.is_implicit and not self._store.config.transactions.verifies:
            then({})
            return
        try:
            service = self.services[self.coordinator_id(claim.transactional_id)]
        except KafkaError as error:
            then({item: _refusal(claim, Code.of(error.code)) for item in claim.partitions})
            return

        def added(response: AddPartitionsToTxnResponse) -> None:
            then(
                {
                    TopicAndPartition(topic.name, partition.partition_index): _refusal(
                        claim, Code.of(partition.partition_error_code)
                    )
                    for topic in response.results_by_transaction[0].topic_results
                    for partition in topic.results_by_partition
                    if partition.partition_error_code
                }
            )

        request = _request(claim)
        service.ask(request, Caller(added, request.API.version_newest))


def _request(claim: TransactionClaim) -> AddPartitionsToTxnRequest:
    from ottla.wire.api.add_partitions_to_txn import (  # by the first transaction
        AddPartitionsTopic,
        AddPartitionsToTxnRequest,
        AddPartitionsTransaction,
    )

    topics = [
        AddPartitionsTopic(name=topic, partitions=partitions)
        for topic, partitions in by_topic(claim.partitions).items()
    ]
    wanted = AddPartitionsTransaction(
        transactional_id=claim.transactional_id,
        producer_id=claim.producer_id,
        producer_epoch=claim.producer_epoch,
        verify_only=not claim.is_implicit,
        topics=topics,
    )
    return AddPartitionsToTxnRequest(transactions=[wanted])


def _refusal(claim: TransactionClaim, error: Code) -> KafkaError:
    errors = _PRODUCE_ERRORS if claim.is_implicit else _OLDER_ERRORS
    reason = f"transactional id {claim.transactional_id!r}, producer {claim.producer_id}: {error.text}"
    return KafkaError(errors.get(error, error), reason)
