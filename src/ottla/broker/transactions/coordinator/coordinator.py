"""The transaction coordinator: all transactional ids of the partitions of `__transaction_state` led here.

    loop ── decide(request) ─────────▶ TransactionCoordinator ──▶ Decision ──▶ loop
    loop ── on_append_result ────────▶     │ the stored value is in force, then the continuation
    loop ── on_ended, on_timer ──────▶     │ markers are written, or are to be tried again
    loop ── abort_timed_out, expire ─▶     │

What a transactional id is changes only when its record is in the log. The ids are in `ledger`, the requests
of producers in `producers`, and who may do what in `rules`.
Owner: the broker's loop. Nothing here blocks or reads a clock, and no client's request raises an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ottla.broker.coordination.effects import Append, Caller, Record
from ottla.broker.settings.transaction_config import TransactionConfig
from ottla.broker.transactions.coordinator import listing
from ottla.broker.transactions.coordinator.counts import TransactionCounts
from ottla.broker.transactions.coordinator.decision import (
    EndInPartitions,
    PendingTransactionAppend,
    RetryTimer,
    TransactionDecision,
    TransactionStep,
)
from ottla.broker.transactions.coordinator.ledger import TransactionLedger
from ottla.broker.transactions.coordinator.producers import ProducerRequests
from ottla.broker.transactions.coordinator.records import read
from ottla.broker.transactions.coordinator.state import AT_REST, TransactionState
from ottla.broker.transactions.coordinator.transaction import Transaction
from ottla.broker.transactions.coordinator.transactional_id import TransactionalId
from ottla.model.error_codes import Code
from ottla.model.errors import LocalProtocolError
from ottla.model.topic_partition import TopicAndPartition
from ottla.wire.api.describe_transactions import (
    DescribedTransaction,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from ottla.wire.api.list_transactions import ListTransactionsRequest
from ottla.wire.schema import Request


class TransactionCoordinator:
    """All transactional ids of one broker. See `decision` for what the caller owes.

    `new_producer_id` returns an id that was never given out, or raises KafkaError.
    """

    def __init__(
        self, config: TransactionConfig, offsets_partition_count: int, new_producer_id: Callable[[], int]
    ) -> None:
        self._config = config
        self._ledger = TransactionLedger(config.partition_count)
        self._in_flight: dict[int, tuple[int, PendingTransactionAppend]] = {}
        self._append_count = 0
        producers = ProducerRequests(self._ledger, config, offsets_partition_count, new_producer_id)
        self._handlers: dict[type[Request[Any]], Callable[[Any, Caller, TransactionStep], None]] = {
            **producers.handlers,
            DescribeTransactionsRequest: self._describe,
            ListTransactionsRequest: self._list,
        }

    # --- partitions come and go -------------------------------------------------------------------------

    def begin_load(self, partition: int, epoch: int) -> None:
        """Note that this broker leads `partition` now. Until `finish_load`, clients of its ids
        have to wait.
        """
        self._ledger.partitions.begin_load(partition)
        self._ledger.epochs[partition] = epoch

    def replay(self, record: Record) -> None:
        """Apply a record of a partition that is being loaded, in order. Raises RemoteProtocolError."""
        match read(record):
            case name, None:
                self._ledger.ids.pop(name, None)
            case name, transaction:
                self._ledger.ids[name] = TransactionalId(name, transaction)

    def finish_load(self, partition: int, now_ms: int) -> TransactionDecision:
        """All records were replayed: serve the partition's ids, and complete what was decided."""
        self._ledger.partitions.finish_load(partition)
        step = TransactionStep(now_ms)
        for id_state in self._ledger.in_partition(partition):
            if id_state.is_decided:
                self._ledger.begin_marking(id_state, step)
        return self._decision(step)

    def unload(self, partition: int, now_ms: int) -> TransactionDecision:
        """Another broker leads `partition` now: forget its ids, and answer their parked requests."""
        self._ledger.partitions.unload(partition)
        step = TransactionStep(now_ms)
        gone = self._ledger.in_partition(partition)
        for id_state in gone:
            del self._ledger.ids[id_state.name]
        for append_id in [number for number, (target, _) in self._in_flight.items() if target == partition]:
            _, pending = self._in_flight.pop(append_id)
            pending.then(step, Code.NOT_LEADER_OR_FOLLOWER)
        for id_state in gone:
            id_state.answer_ends(step)
            id_state.run_parked(step)
        return self._decision(step)

    # --- events -----------------------------------------------------------------------------------------

    def decide(self, request: Request[Any], caller: Caller, now_ms: int) -> TransactionDecision:
        """Decide a request. If the decision has no reply to it, the request is parked.

        Raises LocalProtocolError for a request of another API.
        """
        handler = self._handlers.get(type(request))
        if handler is None:
            raise LocalProtocolError(f"{type(request).__name__} is not for the transaction coordinator")
        step = TransactionStep(now_ms)
        handler(request, caller, step)
        return self._decision(step)

    def on_append_result(self, append_id: int, error: Code, now_ms: int) -> TransactionDecision:
        """Process the result of an append: it was written (error NONE), or not at all.

        Ids of unloaded partitions are ignored.
        """
        step = TransactionStep(now_ms)
        in_flight = self._in_flight.pop(append_id, None)
        if in_flight is not None:
            in_flight[1].then(step, error)
        return self._decision(step)

    def on_ended(
        self, end: EndInPartitions, errors: Mapping[TopicAndPartition, Code], now_ms: int
    ) -> TransactionDecision:
        """Note that markers were written, except where `errors` has an error."""
        step = TransactionStep(now_ms)
        self._ledger.ended(end, errors, step)
        return self._decision(step)

    def on_timer(self, timer: RetryTimer, now_ms: int) -> TransactionDecision:
        """Process a timer of an earlier decision. A late or repeated call does no harm."""
        step = TransactionStep(now_ms)
        self._ledger.retry(timer, step)
        return self._decision(step)

    def abort_timed_out(self, now_ms: int) -> TransactionDecision:
        """Abort transactions whose timeout is over, and fence their producers."""
        step = TransactionStep(now_ms)
        for id_state, transaction in self._ledger.served():
            is_open = transaction.state is TransactionState.ONGOING and not id_state.is_busy
            if is_open and now_ms - transaction.started_ms >= transaction.timeout_ms:
                fenced = transaction.fenced(now_ms, is_same_producer=False)
                self._ledger.store(id_state, fenced, step, self._timed_out)
        return self._decision(step)

    def _timed_out(self, _step: TransactionStep, error: Code) -> None:
        self.counts.timed_out += not error

    def expire(self, now_ms: int) -> TransactionDecision:
        """Delete transactional ids that nobody has used for transactional.id.expiration.ms."""
        step = TransactionStep(now_ms)
        oldest_ms = now_ms - self._config.id_expiration_ms
        for id_state, transaction in self._ledger.served():
            is_idle = transaction.state in AT_REST and not id_state.is_busy
            if is_idle and transaction.updated_ms <= oldest_ms:
                self._ledger.store(id_state, None, step, _ignore)
        return self._decision(step)

    @property
    def counts(self) -> TransactionCounts:
        """How many transactions were decided."""
        return self._ledger.counts

    def transactions(self) -> Iterator[Transaction]:
        """Yield the transaction of every id that is served, with what is on the way into the log."""
        for id_state, stored in self._ledger.served():
            yield id_state.newest or stored

    # --- requests of tools ------------------------------------------------------------------------------

    def _describe(self, request: DescribeTransactionsRequest, caller: Caller, step: TransactionStep) -> None:
        described = [self._described(name) for name in request.transactional_ids]
        step.reply(caller, DescribeTransactionsResponse(transaction_states=described))

    def _described(self, name: str) -> DescribedTransaction:
        error = self._ledger.error(name)
        id_state = self._ledger.ids.get(name)
        if error or id_state is None or id_state.stored is None:
            return listing.refused(name, error or Code.TRANSACTIONAL_ID_NOT_FOUND)
        return listing.described(
            name, id_state.stored, id_state.unmarked if id_state.is_decided else id_state.stored.partitions
        )

    def _list(self, request: ListTransactionsRequest, caller: Caller, step: TransactionStep) -> None:
        served = ((id_state.name, transaction) for id_state, transaction in self._ledger.served())
        response = listing.listed(served, request, step.now_ms)
        if self._ledger.partitions.is_loading:
            response.error_code = Code.COORDINATOR_LOAD_IN_PROGRESS
        step.reply(caller, response)

    # --- turns ------------------------------------------------------------------------------------------

    def _decision(self, step: TransactionStep) -> TransactionDecision:
        appends = []
        for pending in step.pending_appends:
            self._append_count += 1
            partition = self._ledger.partitions.of(pending.transactional_id)
            self._in_flight[self._append_count] = partition, pending
            appends.append(Append(self._append_count, partition, (pending.record,)))
        return TransactionDecision(tuple(step.replies), tuple(appends), tuple(step.ends), tuple(step.timers))


def _ignore(_step: TransactionStep, _error: Code) -> None:
    """Ignore the result: what failed is tried again at the next check."""
