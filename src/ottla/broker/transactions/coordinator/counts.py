"""How many transactions a coordinator has decided since it started, for the metrics."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.broker.transactions.coordinator.state import TransactionState
from ottla.broker.transactions.coordinator.transaction import Transaction


@dataclass(slots=True)
class TransactionCounts:
    """Counted when the decision is in the log. Those that timed out are also among the aborted."""

    committed: int = 0
    aborted: int = 0
    timed_out: int = 0

    def note(self, stored: Transaction | None) -> None:
        """Count a record that was stored."""
        state = None if stored is None else stored.state
        self.committed += state is TransactionState.PREPARE_COMMIT
        self.aborted += state is TransactionState.PREPARE_ABORT
