"""Seeded histories of one transactional id; see `simulation`.

OTTLA_SEED=n begins with history n; OTTLA_SOAK=1 runs many more.
"""

from __future__ import annotations

import pytest

from ottla.broker.transactions.coordinator.ledger import TransactionLedger
from ottla.broker.transactions.coordinator.transaction import Transaction
from tests.broker.transactions.coordinator.simulation import World
from tests.histories import counts_of
from tests.scale import SEED, sized

SEEDS = sized(200, 100_000)
STEPS = 150
HASTY_SEEDS = 6_000
"""One history of 300 is torn by markers that do not wait."""


def test_every_transaction_ends_whole_and_as_its_producer_was_told() -> None:
    counts = counts_of(World, range(SEED, SEED + SEEDS), STEPS)
    # A simulation in which little happens proves little.
    for what in ("committed", "aborted", "written", "restarts", "failed writes", "refused PRODUCER_FENCED"):
        assert counts[what] > SEEDS // 2, (what, counts)


def test_a_marker_before_the_decision_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A planted bug: the markers do not wait for the record of the decision."""
    store = TransactionLedger.store

    def hasty(self: TransactionLedger, one, value, step, then) -> None:  # type: ignore[no-untyped-def]
        store(self, one, value, step, then)
        if isinstance(value, Transaction) and value.state.value.startswith("Prepare"):
            one.stored = value
            self.begin_marking(one, step)

    monkeypatch.setattr(TransactionLedger, "store", hasty)
    with pytest.raises(Exception, match=r"is torn|told|is not possible|still open"):
        counts_of(World, range(SEED, SEED + HASTY_SEEDS), STEPS)


def test_a_fence_that_is_ignored_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A planted bug: a new producer gets the epoch that the old one has."""
    restarted = Transaction.restarted

    def unfenced(self: Transaction, timeout_ms: int, now_ms: int, *, is_same_producer: bool) -> Transaction:
        made = restarted(self, timeout_ms, now_ms, is_same_producer=is_same_producer)
        object.__setattr__(made, "producer_epoch", self.producer_epoch)
        return made

    monkeypatch.setattr(Transaction, "restarted", unfenced)
    with pytest.raises(AssertionError, match=r"torn|told|after its end|run into"):
        counts_of(World, range(SEED, SEED + SEEDS), STEPS)
