"""All transactional ids of a broker: storing them, and completing what is decided.

    store ──▶ an append ──▶ PrepareCommit or PrepareAbort is in the log ──▶ markers ──▶ store: complete
                                                                             │  ▲
                                                       a marker failed: wait └──┘

While an append or markers are under way, further requests for the same id are parked and decided anew
afterwards. Kafka answers CONCURRENT_TRANSACTIONS instead, and clients ask again after a pause; so does this
coordinator once a marker could not be written, since that may take long.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ottla.broker.coordination.led_partitions import LedPartitions
from ottla.broker.transactions.coordinator.counts import TransactionCounts
from ottla.broker.transactions.coordinator.decision import (
    Continuation,
    EndInPartitions,
    RetryTimer,
    TransactionStep,
)
from ottla.broker.transactions.coordinator.records import tombstone, transaction_record
from ottla.broker.transactions.coordinator.state import TransactionState
from ottla.broker.transactions.coordinator.transaction import Transaction
from ottla.broker.transactions.coordinator.transactional_id import Again, TransactionalId
from ottla.model.error_codes import Code
from ottla.model.topic_partition import TopicAndPartition

RETRY_MS = 100
"""How long until a transaction that could not be completed is tried again."""

# Errors of a marker after which the partition needs none: it is gone, or a newer producer has taken over.
_NO_MARKER_NEEDED = frozenset({Code.UNKNOWN_TOPIC_OR_PARTITION, Code.INVALID_PRODUCER_EPOCH})


class TransactionLedger:
    """Owned by the coordinator. `epochs` are those in which this broker leads each partition."""

    def __init__(self, partition_count: int) -> None:
        self.partitions = LedPartitions(partition_count)
        self.epochs: dict[int, int] = {}
        self.ids: dict[str, TransactionalId] = {}
        self.counts = TransactionCounts()

    def in_partition(self, partition: int) -> list[TransactionalId]:
        """Return the ids of a partition of `__transaction_state`."""
        return [id_state for id_state in self.ids.values() if self.partitions.of(id_state.name) == partition]

    def served(self) -> Iterator[tuple[TransactionalId, Transaction]]:
        """Yield the ids of the partitions that are loaded, with their transactions."""
        for id_state in list(self.ids.values()):
            if id_state.stored is not None and not self.partitions.availability(id_state.name):
                yield id_state, id_state.stored

    def error(self, name: str) -> Code:
        """Return why an id cannot be served here and now, or NONE."""
        return self.partitions.availability(name) if name else Code.INVALID_REQUEST

    # --- storing ----------------------------------------------------------------------------------------

    def store(
        self, id_state: TransactionalId, value: Transaction | None, step: TransactionStep, then: Continuation
    ) -> None:
        """Store what an id becomes, None to delete it. `then` is called with the result."""
        id_state.planned = value
        id_state.appends_under_way += 1

        def stored(step: TransactionStep, error: Code) -> None:
            id_state.appends_under_way -= 1
            if not id_state.appends_under_way:
                id_state.planned = None
            if not error:
                id_state.stored = value
                self.counts.note(value)
            then(step, error)
            self._go_on(id_state, step)

        record = tombstone(id_state.name) if value is None else transaction_record(id_state.name, value)
        step.append(id_state.name, record, stored)

    def _go_on(self, id_state: TransactionalId, step: TransactionStep) -> None:
        """Continue after an append: write markers, or decide the requests that had to wait."""
        if id_state.is_decided and not id_state.is_marking and self.ids.get(id_state.name) is id_state:
            self.begin_marking(id_state, step)
        elif not id_state.is_busy:
            if id_state.stored is None and self.ids.get(id_state.name) is id_state:
                del self.ids[id_state.name]
            id_state.run_parked(step)

    def wait(
        self, id_state: TransactionalId, again: Again, refuse: Continuation, step: TransactionStep
    ) -> None:
        """Decide a request again when nothing is under way; refuse it if that may take long."""
        if id_state.is_stalled:
            refuse(step, Code.CONCURRENT_TRANSACTIONS)
        else:
            id_state.parked.append(again)

    # --- completing -------------------------------------------------------------------------------------

    def begin_marking(self, id_state: TransactionalId, step: TransactionStep) -> None:
        """Have the markers of a decided transaction written, to all of its partitions."""
        assert id_state.stored is not None
        id_state.is_marking = True
        id_state.unmarked = set(id_state.stored.partitions)
        self._mark(id_state, step)

    def ended(
        self, end: EndInPartitions, errors: Mapping[TopicAndPartition, Code], step: TransactionStep
    ) -> None:
        """Process which markers were written. A report about another transaction is ignored."""
        id_state = self.ids.get(end.transactional_id)
        if id_state is None or not id_state.is_marking or self._end_of(id_state, end.partitions) != end:
            return
        failed = {item for item, error in errors.items() if error and error not in _NO_MARKER_NEEDED}
        id_state.unmarked -= set(end.partitions) - failed
        if id_state.unmarked:
            self._stall(id_state, step)
        else:
            self._complete(id_state, step)

    def retry(self, timer: RetryTimer, step: TransactionStep) -> None:
        """Try again to complete a transaction."""
        id_state = self.ids.get(timer.transactional_id)
        if id_state is not None and id_state.is_marking and id_state.retry_at_ms == timer.at_ms:
            self._mark(id_state, step)

    def _mark(self, id_state: TransactionalId, step: TransactionStep) -> None:
        if id_state.unmarked:
            step.ends.append(self._end_of(id_state, tuple(sorted(id_state.unmarked))))
        else:
            self._complete(id_state, step)

    def _end_of(
        self, id_state: TransactionalId, partitions: tuple[TopicAndPartition, ...]
    ) -> EndInPartitions:
        transaction = id_state.stored
        assert transaction is not None
        return EndInPartitions(
            id_state.name,
            transaction.producer_id,
            transaction.producer_epoch,
            self.epochs[self.partitions.of(id_state.name)],
            transaction.state is TransactionState.PREPARE_COMMIT,
            transaction.version,
            partitions,
        )

    def _complete(self, id_state: TransactionalId, step: TransactionStep) -> None:
        assert id_state.stored is not None
        id_state.answer_ends(step)

        def completed(step: TransactionStep, error: Code) -> None:
            if error:
                self._stall(id_state, step)
            else:
                id_state.is_marking = id_state.is_stalled = False

        self.store(id_state, id_state.stored.completed(step.now_ms), step, completed)

    def _stall(self, id_state: TransactionalId, step: TransactionStep) -> None:
        """Try again later, and answer the requests that wait."""
        id_state.is_stalled = True
        id_state.retry_at_ms = step.now_ms + RETRY_MS
        step.timers.append(RetryTimer(id_state.name, id_state.retry_at_ms))
        id_state.answer_ends(step)
        id_state.run_parked(step)
