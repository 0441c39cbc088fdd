"""The requests of producers: InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn and EndTxn."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ottla.broker.coordination.effects import Caller, client_error
from ottla.broker.coordination.led_partitions import partition_for
from ottla.broker.settings.transaction_config import TransactionConfig
from ottla.broker.transactions.coordinator import rules
from ottla.broker.transactions.coordinator.decision import Continuation, TransactionStep
from ottla.broker.transactions.coordinator.ledger import TransactionLedger
from ottla.broker.transactions.coordinator.state import TransactionState
from ottla.broker.transactions.coordinator.transaction import BUMPING_VERSION, NO_PRODUCER, Transaction
from ottla.broker.transactions.coordinator.transactional_id import TransactionalId
from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError
from ottla.model.topic_partition import OFFSETS_TOPIC, TopicAndPartition
from ottla.wire.api.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from ottla.wire.api.add_partitions_to_txn import (
    AddPartitionsPartitionResult,
    AddPartitionsResult,
    AddPartitionsTopicResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsTransaction,
)
from ottla.wire.api.end_txn import EndTxnRequest, EndTxnResponse
from ottla.wire.api.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.schema import Request

SEVERAL_SINCE = 4
"""The first version of AddPartitionsToTxn that brokers send, for several transactions."""
ABORTABLE_SINCE = 5

Errors = Mapping[TopicAndPartition, Code]


class ProducerRequests:
    """Decides over the ledger."""

    def __init__(
        self,
        ledger: TransactionLedger,
        config: TransactionConfig,
        offsets_partition_count: int,
        new_producer_id: Callable[[], int],
    ) -> None:
        self._ledger = ledger
        self._config = config
        self._offsets_partition_count = offsets_partition_count
        self._new_producer_id = new_producer_id
        self.handlers: dict[type[Request[Any]], Callable[[Any, Caller, TransactionStep], None]] = {
            InitProducerIdRequest: self._start,
            AddPartitionsToTxnRequest: self._add_partitions,
            AddOffsetsToTxnRequest: self._add_offsets,
            EndTxnRequest: self._end,
        }

    # --- InitProducerId ---------------------------------------------------------------------------------

    def _start(self, request: InitProducerIdRequest, caller: Caller, step: TransactionStep) -> None:
        """Give a producer its id and epoch; what its predecessor has open is aborted first."""

        def refuse(step: TransactionStep, error: Code) -> None:
            known = rules.for_version(error, "InitProducerId", caller.version)
            step.reply(caller, InitProducerIdResponse(error_code=known, producer_epoch=-1))

        def again(step: TransactionStep) -> None:
            self._start(request, caller, step)

        name = request.transactional_id or ""
        error = self._ledger.error(name) or self._timeout_error(request)
        if error:
            refuse(step, error)
            return
        id_state = self._ledger.ids.get(name) or TransactionalId(name)
        if id_state.is_busy:
            self._ledger.wait(id_state, again, refuse, step)
            return
        try:
            started = self._started(id_state.stored, request, step.now_ms)
        except KafkaError as failure:
            refuse(step, Code.of(failure.code))
            return
        if started is id_state.stored:
            step.reply(caller, _started_response(started))
            return

        def stored(step: TransactionStep, error: Code) -> None:
            if error:
                refuse(step, client_error(error))
            elif started.state is not TransactionState.EMPTY:
                self._ledger.wait(id_state, again, refuse, step)  # what was open is being aborted
            else:
                step.reply(caller, _started_response(started))

        self._ledger.ids[name] = id_state
        self._ledger.store(id_state, started, step, stored)

    def _timeout_error(self, request: InitProducerIdRequest) -> Code:
        is_allowed = 0 < request.transaction_timeout_ms <= self._config.timeout_max_ms
        return Code.NONE if is_allowed else Code.INVALID_TRANSACTION_TIMEOUT

    def _started(self, now: Transaction | None, request: InitProducerIdRequest, now_ms: int) -> Transaction:
        """Return the id after InitProducerId, or its open transaction aborted. Raises KafkaError."""
        timeout_ms = request.transaction_timeout_ms
        if now is None:
            return Transaction(self._new_producer_id(), 0, timeout_ms, now_ms)
        error = rules.start_error(now, request)
        if error:
            raise KafkaError(error, f"producer {request.producer_id}, epoch {request.producer_epoch}")
        is_same = request.producer_id != NO_PRODUCER
        if rules.is_repeated_start(now, request):
            return now
        if now.state is TransactionState.ONGOING:
            return now.fenced(now_ms, is_same_producer=is_same)
        if now.is_exhausted:
            return now.renumbered(self._new_producer_id(), timeout_ms, now_ms, is_same_producer=is_same)
        return now.restarted(timeout_ms, now_ms, is_same_producer=is_same)

    # --- AddPartitionsToTxn, AddOffsetsToTxn ------------------------------------------------------------

    def _add_partitions(
        self, request: AddPartitionsToTxnRequest, caller: Caller, step: TransactionStep
    ) -> None:
        """Add partitions to one transaction, or for a broker to several; answer when all are decided."""
        wanted = _wanted(request, caller.version)
        results: dict[int, AddPartitionsResult] = {}

        def finish(step: TransactionStep) -> None:
            if len(results) == len(wanted):
                ordered = [results[number] for number in range(len(wanted))]
                step.reply(caller, _added_response(ordered, caller.version))

        def add(number: int, transaction: AddPartitionsTransaction) -> None:
            def added(step: TransactionStep, errors: Errors) -> None:
                results[number] = _result(transaction, errors, caller.version)
                finish(step)

            self._add_or_verify(transaction, caller.version, step, added)

        for number, transaction in enumerate(wanted):
            add(number, transaction)
        if not wanted:
            finish(step)

    def _add_or_verify(
        self,
        wanted: AddPartitionsTransaction,
        request_version: int,
        step: TransactionStep,
        then: Callable[[TransactionStep, Errors], None],
    ) -> None:
        items = _items(wanted)

        def done(step: TransactionStep, error: Code) -> None:
            absent = items - self._partitions_of(wanted) if wanted.verify_only else frozenset()
            is_new = request_version >= ABORTABLE_SINCE
            missing = Code.TRANSACTION_ABORTABLE if is_new else Code.INVALID_TXN_STATE
            then(step, {item: error or (missing if item in absent else Code.NONE) for item in items})

        version = BUMPING_VERSION if request_version >= SEVERAL_SINCE else 0
        self._add(wanted, items, version, step, done)

    def _partitions_of(self, wanted: AddPartitionsTransaction) -> frozenset[TopicAndPartition]:
        id_state = self._ledger.ids.get(wanted.transactional_id)
        return (
            id_state.stored.partitions
            if id_state is not None and id_state.stored is not None
            else frozenset()
        )

    def _add_offsets(self, request: AddOffsetsToTxnRequest, caller: Caller, step: TransactionStep) -> None:
        """Add the group's partition of the offsets topic."""

        def added(step: TransactionStep, error: Code) -> None:
            known = rules.for_version(error, "AddOffsetsToTxn", caller.version)
            step.reply(caller, AddOffsetsToTxnResponse(error_code=known))

        if not request.group_id:
            added(step, Code.INVALID_GROUP_ID)
            return
        wanted = AddPartitionsTransaction(
            transactional_id=request.transactional_id,
            producer_id=request.producer_id,
            producer_epoch=request.producer_epoch,
        )
        partition = partition_for(request.group_id, self._offsets_partition_count)
        self._add(wanted, frozenset({TopicAndPartition(OFFSETS_TOPIC, partition)}), 0, step, added)

    def _add(
        self,
        wanted: AddPartitionsTransaction,
        items: frozenset[TopicAndPartition],
        version: int,
        step: TransactionStep,
        then: Continuation,
    ) -> None:
        """Add partitions to the transaction of a producer. Nothing is stored if it has them all."""
        error = self._ledger.error(wanted.transactional_id)
        id_state = self._ledger.ids.get(wanted.transactional_id)
        if error or id_state is None:
            then(step, error or Code.INVALID_PRODUCER_ID_MAPPING)
            return
        if not id_state.takes_partitions or (wanted.verify_only and id_state.is_busy):
            self._ledger.wait(
                id_state, lambda step: self._add(wanted, items, version, step, then), then, step
            )
            return
        transaction = id_state.newest
        error = rules.producer_error(transaction, wanted.producer_id, wanted.producer_epoch)
        if error or transaction is None or wanted.verify_only:
            then(step, error)
            return
        is_open = transaction.state is TransactionState.ONGOING
        if is_open and items <= transaction.partitions and not id_state.appends_under_way:
            then(step, Code.NONE)
            return
        added = transaction.with_partitions(items, version, step.now_ms)
        self._ledger.store(id_state, added, step, lambda step, error: then(step, client_error(error)))

    # --- EndTxn -----------------------------------------------------------------------------------------

    def _end(self, request: EndTxnRequest, caller: Caller, step: TransactionStep) -> None:
        """Decide a transaction. The answer comes when its markers are written, or have been tried."""

        def refuse(step: TransactionStep, error: Code) -> None:
            known = rules.for_version(error, "EndTxn", caller.version)
            step.reply(caller, EndTxnResponse(error_code=known))

        error = self._ledger.error(request.transactional_id)
        id_state = self._ledger.ids.get(request.transactional_id)
        if error or id_state is None:
            refuse(step, error or Code.INVALID_PRODUCER_ID_MAPPING)
            return
        if id_state.is_busy:
            self._ledger.wait(id_state, lambda step: self._end(request, caller, step), refuse, step)
            return
        transaction = id_state.stored
        verdict = rules.end_error(transaction, request, caller.version)
        if verdict or transaction is None:
            refuse(step, verdict or Code.INVALID_PRODUCER_ID_MAPPING)
            return
        if verdict is not None:
            step.reply(caller, _ended_response(transaction))
            return
        try:
            decided = self._decided(transaction, request, caller.version, step.now_ms)
        except KafkaError as failure:
            refuse(step, Code.of(failure.code))
            return

        def stored(step: TransactionStep, error: Code) -> None:
            if error:
                refuse(step, client_error(error))
            else:
                complete = decided.completed(step.now_ms)
                id_state.ending.append(lambda step: step.reply(caller, _ended_response(complete)))

        self._ledger.store(id_state, decided, step, stored)

    def _decided(
        self, transaction: Transaction, request: EndTxnRequest, version: int, now_ms: int
    ) -> Transaction:
        """Return the decided transaction. Raises KafkaError if there is no producer id for the next one."""
        bumps = version >= rules.BUMPING_END_SINCE
        is_last = bumps and transaction.is_exhausted
        return transaction.ended(
            is_commit=request.committed,
            version=BUMPING_VERSION if bumps else 0,
            next_producer_id=self._new_producer_id() if is_last else NO_PRODUCER,
            now_ms=now_ms,
        )


# --- answers --------------------------------------------------------------------------------------------


def _started_response(started: Transaction) -> InitProducerIdResponse:
    return InitProducerIdResponse(producer_id=started.producer_id, producer_epoch=started.producer_epoch)


def _ended_response(complete: Transaction) -> EndTxnResponse:
    """Return the answer with the producer id and epoch of the next transaction."""
    return EndTxnResponse(producer_id=complete.producer_id, producer_epoch=complete.producer_epoch)


def _wanted(request: AddPartitionsToTxnRequest, version: int) -> list[AddPartitionsTransaction]:
    if version >= SEVERAL_SINCE:
        return request.transactions
    only = AddPartitionsTransaction(
        transactional_id=request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )
    return [only]


def _items(wanted: AddPartitionsTransaction) -> frozenset[TopicAndPartition]:
    topics = wanted.topics
    return frozenset(TopicAndPartition(topic.name, index) for topic in topics for index in topic.partitions)


def _result(wanted: AddPartitionsTransaction, errors: Errors, version: int) -> AddPartitionsResult:
    topics = [
        AddPartitionsTopicResult(
            name=topic.name,
            results_by_partition=[
                AddPartitionsPartitionResult(
                    partition_index=index,
                    partition_error_code=rules.for_version(
                        errors[TopicAndPartition(topic.name, index)], "AddPartitionsToTxn", version
                    ),
                )
                for index in topic.partitions
            ],
        )
        for topic in wanted.topics
    ]
    return AddPartitionsResult(transactional_id=wanted.transactional_id, topic_results=topics)


def _added_response(results: list[AddPartitionsResult], version: int) -> AddPartitionsToTxnResponse:
    if version >= SEVERAL_SINCE:
        return AddPartitionsToTxnResponse(results_by_transaction=results)
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results[0].topic_results)


def add_refused(request: AddPartitionsToTxnRequest, error: Code, version: int) -> AddPartitionsToTxnResponse:
    """Return the same error for every partition."""
    results = [
        _result(wanted, dict.fromkeys(_items(wanted), error), version) for wanted in _wanted(request, version)
    ]
    return _added_response(results, version)
