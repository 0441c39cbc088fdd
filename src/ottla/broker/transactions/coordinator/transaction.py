"""A transactional id and its transaction as one value, and what each event makes of it.

Every value is stored as one record, and is in force when that is in the log. A producer's
epoch is at most `EPOCH_MAX - 1`, so that it can always be fenced by the next one; then the transactional id
gets another producer id.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ottla.broker.transactions.coordinator.state import TRANSITIONS, TransactionEvent, TransactionState
from ottla.model.topic_partition import TopicAndPartition
from ottla.wire.transitions import advance

EPOCH_MAX = 2**15 - 1
NO_PRODUCER = -1
NO_EPOCH = -1
NEVER = -1

BUMPING_VERSION = 2
"""The first transaction.version whose transactions each have an epoch of their own (KIP-890)."""


@dataclass(frozen=True, slots=True)
class Transaction:
    """A transactional id as the coordinator knows it.

    last_epoch            the epoch before, if the same producer had it; not stored, as in Kafka
    previous_producer_id  the producer id before the last change of it
    next_producer_id      the producer id after this transaction, if the epochs of the present one are used up
    started_ms            when the first partition was added
    version               the producer's transaction.version, as far as its last request tells
    """

    producer_id: int
    producer_epoch: int
    timeout_ms: int
    updated_ms: int
    state: TransactionState = TransactionState.EMPTY
    partitions: frozenset[TopicAndPartition] = frozenset()
    started_ms: int = NEVER
    last_epoch: int = NO_EPOCH
    previous_producer_id: int = NO_PRODUCER
    next_producer_id: int = NO_PRODUCER
    version: int = 0

    @property
    def is_exhausted(self) -> bool:
        """Whether a producer with this epoch is the last one of its producer id."""
        return self.producer_epoch >= EPOCH_MAX - 1

    def after(self, event: TransactionEvent) -> TransactionState:
        """Return the state that the table names."""
        return advance(TRANSITIONS, self.state, event)

    # --- a producer starts

    def restarted(self, timeout_ms: int, now_ms: int, *, is_same_producer: bool) -> Transaction:
        """Return the id with the next epoch, for a new producer or for the same one after an error."""
        return replace(
            self._without_transaction(timeout_ms, now_ms),
            producer_epoch=self.producer_epoch + 1,
            last_epoch=self.producer_epoch if is_same_producer else NO_EPOCH,
        )

    def renumbered(
        self, producer_id: int, timeout_ms: int, now_ms: int, *, is_same_producer: bool
    ) -> Transaction:
        """Return the id with another producer id, since no epoch is left."""
        return replace(
            self._without_transaction(timeout_ms, now_ms),
            producer_id=producer_id,
            producer_epoch=0,
            last_epoch=self.producer_epoch if is_same_producer else NO_EPOCH,
            previous_producer_id=self.producer_id,
        )

    def _without_transaction(self, timeout_ms: int, now_ms: int) -> Transaction:
        return replace(
            self,
            state=self.after(TransactionEvent.PRODUCER_STARTED),
            timeout_ms=timeout_ms,
            updated_ms=now_ms,
            started_ms=NEVER,
            partitions=frozenset(),
            previous_producer_id=self.producer_id,
        )

    # --- a transaction

    def with_partitions(
        self, partitions: frozenset[TopicAndPartition], version: int, now_ms: int
    ) -> Transaction:
        """Return the transaction with more partitions; the first ones begin it."""
        is_open = self.state is TransactionState.ONGOING
        return replace(
            self,
            state=self.after(TransactionEvent.PARTITIONS_ADDED),
            partitions=self.partitions | partitions,
            started_ms=self.started_ms if is_open else now_ms,
            updated_ms=now_ms,
            version=version,
        )

    def ended(self, *, is_commit: bool, version: int, next_producer_id: int, now_ms: int) -> Transaction:
        """Return the decided transaction. From BUMPING_VERSION on it has the epoch of the next one."""
        bumps = version >= BUMPING_VERSION
        is_open = self.state is TransactionState.ONGOING
        return replace(
            self,
            state=self.after(TransactionEvent.COMMITTED if is_commit else TransactionEvent.ABORTED),
            producer_epoch=self.producer_epoch + bumps,
            last_epoch=self.producer_epoch if bumps else self.last_epoch,
            next_producer_id=next_producer_id,
            started_ms=self.started_ms if is_open else now_ms,
            updated_ms=now_ms,
            version=version,
        )

    def fenced(self, now_ms: int, *, is_same_producer: bool) -> Transaction:
        """Return the transaction aborted, with an epoch that no producer has: the present one is fenced."""
        fencing = replace(
            self,
            state=self.after(TransactionEvent.FENCED),
            producer_epoch=self.producer_epoch + 1,
            last_epoch=self.producer_epoch if is_same_producer else NO_EPOCH,
            updated_ms=now_ms,
        )
        return replace(fencing, state=fencing.after(TransactionEvent.ABORTED))

    def completed(self, now_ms: int) -> Transaction:
        """Return the transaction with all its markers written."""
        done = replace(
            self,
            state=self.after(TransactionEvent.MARKED),
            partitions=frozenset(),
            updated_ms=now_ms,
            next_producer_id=NO_PRODUCER,
        )
        if self.next_producer_id == NO_PRODUCER:
            return done
        return replace(
            done,
            producer_id=self.next_producer_id,
            producer_epoch=0,
            last_epoch=self.producer_epoch,
            previous_producer_id=self.producer_id,
        )
