"""Lists and describes transactions, finds those that hang, and aborts them.

A transaction hangs in a partition if the partition's leader waits for its end and no coordinator is going to
write it. Readers of committed records do not get past it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from ottla.admin.access import ClusterAccess
from ottla.admin.admin_errors import all_results, each, only
from ottla.admin.logs import LogCalls, leader_error
from ottla.admin.logs import Outcomes as PartitionOutcomes
from ottla.admin.transaction_values import (
    OpenTransaction,
    PartitionProducer,
    TransactionDescription,
    TransactionListing,
)
from ottla.client.coordinators import CoordinatorKind
from ottla.client.reactions import Action, action_for
from ottla.model.error_codes import Code
from ottla.model.errors import ConfigError, KafkaError, OttlaError, Unsupported
from ottla.model.topic_partition import TopicAndPartition, by_topic
from ottla.wire.api.describe_producers import (
    DescribedProducersPartition,
    DescribeProducersRequest,
    DescribeProducersTopic,
)
from ottla.wire.api.describe_transactions import DescribedTransaction, DescribeTransactionsRequest
from ottla.wire.api.init_producer_id import InitProducerIdRequest
from ottla.wire.api.list_transactions import ListTransactionsRequest
from ottla.wire.api.write_txn_markers import WritableMarker, WritableMarkerTopic, WriteTxnMarkersRequest
from ottla.wire.schema import Api

V = TypeVar("V")
Outcomes = dict[str, V | OttlaError]
Producers = tuple[PartitionProducer, ...]

_DURATION_SINCE, _PATTERN_SINCE = 1, 2
_TRANSACTION = CoordinatorKind.TRANSACTION


@dataclass(frozen=True, slots=True)
class TransactionFilter:
    """Which transactions are listed; by default all.

    `longer_than`: those that are open for at least as many seconds.
    """

    states: Sequence[str] = ()
    producer_ids: Sequence[int] = ()
    longer_than: float | None = None
    pattern: str = ""


class TransactionCalls:
    """Each call returns an outcome for every transactional id, partition or broker."""

    def __init__(self, access: ClusterAccess, logs: LogCalls) -> None:
        self._access = access
        self._logs = logs

    # --- coordinators

    async def listings(
        self, wanted: TransactionFilter
    ) -> dict[int, tuple[TransactionListing, ...] | OttlaError]:
        """Return the transactional ids of each broker; ConfigError for a state that it does not know."""
        await self._require(ListTransactionsRequest.API, "listing transactions")
        version = await self._access.version(ListTransactionsRequest.API) or 0
        if wanted.longer_than is not None and version < _DURATION_SINCE:
            raise Unsupported("listing transactions by their duration needs Kafka 3.8")
        if wanted.pattern and version < _PATTERN_SINCE:
            raise Unsupported("listing transactions by a pattern needs Kafka 4.1")
        view = await (await self._access.metadata()).refresh((), reason="listing transactions")
        return await self._access.settle(
            view.brokers,
            lambda some: each(some, lambda number: self._list_once(number, wanted)),
            is_repeatable=True,
        )

    async def all_listings(self, wanted: TransactionFilter) -> tuple[TransactionListing, ...]:
        """Return the transactional ids of all brokers, sorted. Raises AdminErrors, ConfigError."""
        outcomes = await self.listings(wanted)
        for outcome in outcomes.values():
            if isinstance(outcome, ConfigError):
                raise outcome
        listed = [transaction for some in all_results(outcomes).values() for transaction in some]
        return tuple(
            sorted(listed, key=lambda transaction: (transaction.coordinator_id, transaction.transactional_id))
        )

    async def _list_once(self, broker_id: int, wanted: TransactionFilter) -> tuple[TransactionListing, ...]:
        request = ListTransactionsRequest(
            state_filters=list(wanted.states), producer_id_filters=list(wanted.producer_ids)
        )
        if wanted.longer_than is not None:
            request.duration_filter = int(wanted.longer_than * 1000)
        if wanted.pattern:
            request.transactional_id_pattern = wanted.pattern
        answer = await (await self._access.broker(broker_id)).call(request)
        if answer.error_code:
            raise KafkaError(answer.error_code, f"transactions of broker {broker_id}")
        if answer.unknown_state_filters:
            raise ConfigError(f"states={answer.unknown_state_filters}: brokers do not know these")
        return tuple(
            TransactionListing(
                listed.transactional_id, broker_id, listed.producer_id, listed.transaction_state
            )
            for listed in answer.transaction_states
        )

    async def describe(self, transactional_ids: Iterable[str]) -> Outcomes[TransactionDescription]:
        """Return what the coordinators know about transactional ids."""
        await self._require(DescribeTransactionsRequest.API, "describing transactions")
        return await self._access.settle(
            transactional_ids, lambda some: each(some, self._describe_once), is_repeatable=True
        )

    async def _describe_once(self, transactional_id: str) -> TransactionDescription:
        coordinator = await self._access.coordinator_node(transactional_id, kind=_TRANSACTION)
        request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
        answer = await (await self._access.coordinator(transactional_id, kind=_TRANSACTION)).call(request)
        for described in answer.transaction_states:
            self._check(transactional_id, described.error_code)
            return _description(described, coordinator.broker_id)
        raise KafkaError(Code.TRANSACTIONAL_ID_NOT_FOUND, f"transactional id {transactional_id!r}")

    async def terminate(self, transactional_id: str) -> None:
        """Take over a transactional id, as its next producer would: what is open is aborted."""
        only(
            await self._access.settle(
                [transactional_id], lambda some: each(some, self._take_over), is_repeatable=True
            )
        )

    async def _take_over(self, transactional_id: str) -> None:
        timeout_ms = self._access.config.client.request_timeout_ms  # as Kafka's own tool
        request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=timeout_ms)
        answer = await (await self._access.coordinator(transactional_id, kind=_TRANSACTION)).call(request)
        self._check(transactional_id, answer.error_code)

    def _check(self, transactional_id: str, error_code: int) -> None:
        if not error_code:
            return
        if action_for(error_code) is Action.FIND_COORDINATOR:
            self._access.forget_coordinator(transactional_id, kind=_TRANSACTION)
        raise KafkaError(error_code, f"transactional id {transactional_id!r}")

    # --- partitions

    async def producers(
        self, topic_partitions: Iterable[TopicAndPartition], broker_id: int | None = None
    ) -> PartitionOutcomes[Producers]:
        """Return the producers that the leader of each partition knows, or `broker_id`."""
        await self._require(DescribeProducersRequest.API, "describing producers")
        return await self._access.settle(
            topic_partitions, lambda some: self._producers_once(some, broker_id), is_repeatable=True
        )

    async def _producers_once(
        self, topic_partitions: list[TopicAndPartition], broker_id: int | None
    ) -> PartitionOutcomes[Producers]:
        outcomes: PartitionOutcomes[Producers]
        if broker_id is None:
            outcomes, by_broker = await self._logs.by_leader(topic_partitions, "describing producers")
        else:
            outcomes, by_broker = {}, {broker_id: topic_partitions}
        for number, some in by_broker.items():
            request = DescribeProducersRequest(
                topics=[
                    DescribeProducersTopic(name=topic, partition_indexes=indexes)
                    for topic, indexes in by_topic(some).items()
                ]
            )
            try:
                answer = await (await self._access.broker(number)).call(request)
            except OttlaError as error:
                outcomes |= dict.fromkeys(some, error)
                continue
            for topic in answer.topics:
                for row in topic.partitions:
                    topic_partition = TopicAndPartition(topic.name, row.partition_index)
                    outcomes[topic_partition] = leader_error(row.error_code, topic_partition) or _producers(
                        row
                    )
        return outcomes

    async def abort(self, topic_partition: TopicAndPartition, began: int | PartitionProducer) -> None:
        """Write an abort marker for a producer's open transaction, whatever its coordinator thinks.

        `began` is its first offset, or the producer. Raises ConfigError if nothing begins at that offset.
        """
        await self._require(WriteTxnMarkersRequest.API, "aborting a transaction")
        producer = await self._open_at(topic_partition, began) if isinstance(began, int) else began
        only(
            await self._access.settle(
                [topic_partition],
                lambda some: each(some, lambda item: self._abort_once(item, producer)),
                is_repeatable=True,
            )
        )

    async def _open_at(self, topic_partition: TopicAndPartition, start_offset: int) -> PartitionProducer:
        for producer in only(await self.producers([topic_partition])):
            if producer.start_offset == start_offset:
                return producer
        raise ConfigError(f"{topic_partition}: no open transaction begins at offset {start_offset}")

    async def _abort_once(self, topic_partition: TopicAndPartition, producer: PartitionProducer) -> None:
        outcomes: PartitionOutcomes[None]
        outcomes, by_leader = await self._logs.by_leader([topic_partition], "aborting a transaction")
        all_results(outcomes)
        (leader,) = by_leader
        marker = WritableMarker(
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            transaction_result=False,
            topics=[
                WritableMarkerTopic(name=topic_partition.topic, partition_indexes=[topic_partition.partition])
            ],
            coordinator_epoch=max(0, producer.coordinator_epoch),
        )
        answer = await (await self._access.broker(leader)).call(WriteTxnMarkersRequest(markers=[marker]))
        for written in answer.markers:
            for topic in written.topics:
                for row in topic.partitions:
                    failure = leader_error(row.error_code, topic_partition)
                    if failure is not None:
                        raise failure

    # --- what hangs

    async def hanging(
        self,
        topic_partitions: Iterable[TopicAndPartition],
        older_than_ms: float,
        now_ms: int,
        broker_id: int | None = None,
    ) -> tuple[OpenTransaction, ...]:
        """Return open transactions that no coordinator will end, of producers that have been silent for
        `older_than_ms`.
        """
        by_partition = all_results(await self.producers(topic_partitions, broker_id))
        late = [
            OpenTransaction(topic_partition, producer)
            for topic_partition, producers in by_partition.items()
            for producer in producers
            if producer.start_offset is not None and now_ms - producer.last_timestamp_ms > older_than_ms
        ]
        if not late:
            return ()
        ids = {transaction.producer.producer_id for transaction in late}
        listed = await self.all_listings(TransactionFilter(producer_ids=sorted(ids)))
        names = {transaction.transactional_id for transaction in listed}
        expected = {
            (described.producer_id, topic_partition)
            for described in (await self._known(names)).values()
            for topic_partition in described.partitions
        }
        return tuple(
            transaction
            for transaction in late
            if (transaction.producer.producer_id, transaction.topic_partition) not in expected
        )

    async def _known(self, transactional_ids: Iterable[str]) -> dict[str, TransactionDescription]:
        """Return the descriptions of the ids that still exist."""
        outcomes = await self.describe(sorted(transactional_ids))
        return all_results(
            {
                name: outcome
                for name, outcome in outcomes.items()
                if not (isinstance(outcome, KafkaError) and outcome.code == Code.TRANSACTIONAL_ID_NOT_FOUND)
            }
        )

    async def _require(self, api: Api, purpose: str) -> None:
        if not await self._access.has(api):
            raise Unsupported(f"{purpose}: {await self._access.no_such_call(api)} (it came with 3.0)")


def _description(described: DescribedTransaction, coordinator_id: int) -> TransactionDescription:
    return TransactionDescription(
        transactional_id=described.transactional_id,
        coordinator_id=coordinator_id,
        state=described.transaction_state,
        producer_id=described.producer_id,
        producer_epoch=described.producer_epoch,
        timeout_ms=described.transaction_timeout_ms,
        started_ms=described.transaction_start_time_ms if described.transaction_start_time_ms >= 0 else None,
        partitions=tuple(
            TopicAndPartition(topic.topic, number)
            for topic in described.topics
            for number in topic.partitions
        ),
    )


def _producers(row: DescribedProducersPartition) -> Producers:
    return tuple(
        PartitionProducer(
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            coordinator_epoch=producer.coordinator_epoch,
            last_sequence=producer.last_sequence,
            last_timestamp_ms=producer.last_timestamp,
            start_offset=(
                producer.current_txn_start_offset if producer.current_txn_start_offset >= 0 else None
            ),
        )
        for producer in row.active_producers
    )
