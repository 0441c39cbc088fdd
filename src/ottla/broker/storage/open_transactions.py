"""What a partition asks the transaction coordinator before the first record of a transaction.

A partition knows the transactions that have written in it. Only for the first batch of a transaction it must
ask, or a batch that was delayed too long would begin a transaction that is never ended (KIP-890).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

from ottla.model.errors import KafkaError
from ottla.model.topic_partition import TopicAndPartition

IMPLICIT_SINCE = 12
"""The first version of Produce whose clients leave it to the brokers to add partitions to a transaction."""


class TransactionClaim(NamedTuple):
    """Partitions in which a producer begins to write, as part of its transaction.

    If it is implicit, the coordinator adds the partitions to the transaction, which begins with them if none
    is open (transaction.version 2). Else it only verifies that AddPartitionsToTxn has named them.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: tuple[TopicAndPartition, ...]
    is_implicit: bool


Refusals = Mapping[TopicAndPartition, KafkaError]


class OpenTransactions(Protocol):
    """The coordinators of all brokers of the process. Owned by the loop."""

    def admit(self, claim: TransactionClaim, then: Callable[[Refusals], None]) -> None:
        """Call `then` with the refused partitions, after the accepted ones are stored.

        Now or later, on the loop. The records are appended within `then`, so no marker can come between.
        """


class NotAdmitted(Exception):
    """A batch is the first of a transaction in its partition: ask, then append it as admitted."""

    def __init__(self, producer_id: int, producer_epoch: int) -> None:
        super().__init__(f"producer {producer_id}, epoch {producer_epoch}")
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
