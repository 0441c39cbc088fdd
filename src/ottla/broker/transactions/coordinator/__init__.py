"""The transaction coordinator as pure state machines: no socket, file, clock or thread.

`TransactionCoordinator` decides; its caller, the broker's loop, carries out the `TransactionDecision`s
and reports back. Start reading at `coordinator`, then `state` (theory of operation) and `transaction`.
"""

from ottla.broker.transactions.coordinator.coordinator import TransactionCoordinator
from ottla.broker.transactions.coordinator.decision import EndInPartitions, RetryTimer, TransactionDecision
from ottla.broker.transactions.coordinator.transaction import Transaction

__all__ = ["TransactionDecision", "EndInPartitions", "RetryTimer", "Transaction", "TransactionCoordinator"]
