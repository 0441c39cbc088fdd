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
        return [one for one in self.ids.values() if self.partitions.of(one.name) == partition]

    def served(self) -> Iterator[tuple[TransactionalId, Transaction]]:
        """Yield the ids of the partitions that are loaded, with their transactions."""
        for one in list(self.ids.values()):
            if one.stored is not None and not self.partitions.availability(one.name):
                yield one, one.stored

    def error(self, name: str) -> Code:
        """Return why an id cannot be served here and now, or NONE."""
        return self.partitions.availability(name) if name else Code.INVALID_REQUEST

    # --- storing ----------------------------------------------------------------------------------------

    def store(
        self, one: TransactionalId, value: Transaction | None, step: TransactionStep, then: Continuation
    ) -> None:
        """Store what an id becomes, None to delete it. `then` is called with the result."""
        one.planned = value
        one.appends_under_way += 1

        def stored(step: TransactionStep, error: Code) -> None:
            one.appends_under_way -= 1
            if not one.appends_under_way:
                one.planned = None
            if not error:
                one.stored = value
                self.counts.note(value)
            then(step, error)
            self._go_on(one, step)

        record = tombstone(one.name) if value is None else transaction_record(one.name, value)
        step.append(one.name, record, stored)

    def _go_on(self, one: TransactionalId, step: TransactionStep) -> None:
        """Do what comes after an append: write markers, or decide the requests that had to wait."""
        if one.is_decided and not one.is_marking and self.ids.get(one.name) is one:
            self.begin_marking(one, step)
        elif not one.is_busy:
            if one.stored is None and self.ids.get(one.name) is one:
                del self.ids[one.name]
            one.run_parked(step)

    def wait(self, one: TransactionalId, again: Again, refuse: Continuation, step: TransactionStep) -> None:
        """Decide a request anew when nothing is under way; refuse it if that may take long."""
        if one.is_stalled:
            refuse(step, Code.CONCURRENT_TRANSACTIONS)
        else:
            one.parked.append(again)

    # --- completing -------------------------------------------------------------------------------------

    def begin_marking(self, one: TransactionalId, step: TransactionStep) -> None:
        """Have the markers of a decided transaction written, to all of its partitions."""
        assert one.stored is not None
        one.is_marking = True
        one.unmarked = set(one.stored.partitions)
        self._mark(one, step)

    def ended(
        self, end: EndInPartitions, errors: Mapping[TopicAndPartition, Code], step: TransactionStep
    ) -> None:
        """Take in which markers were written. A report about another transaction does no harm."""
        one = self.ids.get(end.transactional_id)
        if one is None or not one.is_marking or self._end_of(one, end.partitions) != end:
            return
        failed = {item for item, error in errors.items() if error and error not in _NO_MARKER_NEEDED}
        one.unmarked -= set(end.partitions) - failed
        if one.unmarked:
            self._stall(one, step)
        else:
            self._complete(one, step)

    def retry(self, timer: RetryTimer, step: TransactionStep) -> None:
        """Try again to complete a transaction."""
        one = self.ids.get(timer.transactional_id)
        if one is not None and one.is_marking and one.retry_at_ms == timer.at_ms:
            self._mark(one, step)

    def _mark(self, one: TransactionalId, step: TransactionStep) -> None:
        if one.unmarked:
            step.ends.append(self._end_of(one, tuple(sorted(one.unmarked))))
        else:
            self._complete(one, step)

    def _end_of(self, one: TransactionalId, partitions: tuple[TopicAndPartition, ...]) -> EndInPartitions:
        transaction = one.stored
        assert transaction is not None
        return EndInPartitions(
            one.name,
            transaction.producer_id,
            transaction.producer_epoch,
            self.epochs[self.partitions.of(one.name)],
            transaction.state is TransactionState.PREPARE_COMMIT,
            transaction.version,
            partitions,
        )

    def _complete(self, one: TransactionalId, step: TransactionStep) -> None:
        assert one.stored is not None
        one.answer_ends(step)

        def completed(step: TransactionStep, error: Code) -> None:
            if error:
                self._stall(one, step)
            else:
                one.is_marking = one.is_stalled = False

        self.store(one, one.stored.completed(step.now_ms), step, completed)

    def _stall(self, one: TransactionalId, step: TransactionStep) -> None:
        """Try again later, and let nobody wait for it."""
        one.is_stalled = True
        one.retry_at_ms = step.now_ms + RETRY_MS
        step.timers.append(RetryTimer(one.name, one.retry_at_ms))
        one.answer_ends(step)
        one.run_parked(step)
