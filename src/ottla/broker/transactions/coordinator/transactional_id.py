"""One transactional id in memory: its stored transaction, the values on the way into the log, and waiting
requests.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ottla.broker.transactions.coordinator.decision import TransactionStep
from ottla.broker.transactions.coordinator.state import DECIDED, TransactionState
from ottla.broker.transactions.coordinator.transaction import Transaction
from ottla.model.topic_partition import TopicAndPartition

Again = Callable[[TransactionStep], None]


@dataclass(slots=True, eq=False)
class TransactionalId:
    """Owned by the ledger, on the broker's loop.

    stored             the transaction as it is in the log; None before the first record
    planned            the newest value on the way into the log
    appends_under_way  how many values are on the way
    is_marking         the transaction is decided, and is being completed
    unmarked           of a decided transaction: partitions without a marker
    is_stalled         completing it failed once, so nobody waits for it any more
    retry_at_ms        when completing it is tried again
    parked             requests that are decided anew when nothing is under way
    ending             answers to EndTxn, given when the markers are written or have been tried
    """

    name: str
    stored: Transaction | None = None
    planned: Transaction | None = None
    appends_under_way: int = 0
    is_marking: bool = False
    unmarked: set[TopicAndPartition] = field(default_factory=set)
    is_stalled: bool = False
    retry_at_ms: int = 0
    parked: list[Again] = field(default_factory=list)
    ending: list[Again] = field(default_factory=list)

    @property
    def is_decided(self) -> bool:
        """Whether the outcome is in the log, and the transaction is not complete."""
        return self.stored is not None and self.stored.state in DECIDED

    @property
    def is_busy(self) -> bool:
        """Whether a request has to wait for what is under way."""
        return self.appends_under_way > 0 or self.is_decided

    @property
    def takes_partitions(self) -> bool:
        """Whether partitions can be added: also while others are on the way into the log."""
        if self.appends_under_way:
            return self.planned is not None and self.planned.state is TransactionState.ONGOING
        return not self.is_decided

    @property
    def newest(self) -> Transaction | None:
        """The transaction with what is on the way into the log."""
        return self.planned or self.stored

    def run_parked(self, step: TransactionStep) -> None:
        """Decide the parked requests again. Each may be parked again."""
        parked, self.parked = self.parked, []
        for again in parked:
            again(step)

    def answer_ends(self, step: TransactionStep) -> None:
        """Answer the EndTxn requests that wait for the markers."""
        ending, self.ending = self.ending, []
        for answer in ending:
            answer(step)
