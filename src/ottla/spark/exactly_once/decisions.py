"""A decision: the transactions of a batch that are to be committed, whatever happens. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self

from ottla.model.errors import RemoteProtocolError
from ottla.producer.prepared_transaction import PreparedTransaction

VERSION = 1
COMMITTED = frozenset({"PrepareCommit", "CompleteCommit"})
ONGOING = "Ongoing"


@dataclass(frozen=True, slots=True)
class BatchDecision:
    """`query` is the id of a streaming query, or "". `transactions` is () if the next batch was
    taken back.
    """

    query: str
    batch: int
    transactions: tuple[PreparedTransaction, ...]

    def covers(self, query: str, batch: int) -> bool:
        """Whether a batch was decided: batches of a query come in order, so all batches up to this
        one were.
        """
        return self.query == query and batch <= self.batch

    def encode(self) -> bytes:
        """The value of its record."""
        content = {
            "version": VERSION,
            "query": self.query,
            "batch": self.batch,
            "transactions": [list(transaction) for transaction in self.transactions],
        }
        return json.dumps(content, separators=(",", ":")).encode()

    @classmethod
    def decode(cls, value: bytes) -> Self:
        """Decode the value of a record. Raises RemoteProtocolError."""
        try:
            content: Any = json.loads(value)
            if content["version"] != VERSION:
                raise RemoteProtocolError(
                    f"a decision of version {content['version']}, and this program knows {VERSION}: a newer "
                    "ottla has written it; use that one"
                )
            transactions = tuple(
                PreparedTransaction(str(name), int(producer_id), int(epoch), bool(is_implicit))
                for name, producer_id, epoch, is_implicit in content["transactions"]
            )
            return cls(str(content["query"]), int(content["batch"]), transactions)
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise RemoteProtocolError(f"a decision that cannot be read: {value[:200]!r}") from error


def last_of(name: str, records: Iterable[tuple[bytes | None, bytes | None]]) -> BatchDecision | None:
    """Return the last decision under a name, from all keys and values in their order."""
    last = None
    for key, value in records:
        if key == name.encode():
            last = value
    return None if last is None else BatchDecision.decode(last)


@dataclass(frozen=True, slots=True)
class Seen:
    """The state of a transactional id, as its coordinator reports it."""

    state: str
    producer_id: int
    epoch: int


def is_open(transaction: PreparedTransaction, seen: Seen | None) -> bool:
    """Whether the transaction is still open."""
    return seen is not None and seen == Seen(ONGOING, transaction.producer_id, transaction.epoch)


def is_committed(transaction: PreparedTransaction, seen: Seen | None) -> bool:
    """Whether the transaction was committed.

    With transaction.version 2 the end gives its id the next epoch, or another producer id if the epochs are
    used up.
    """
    if seen is None or seen.state not in COMMITTED:
        return False
    if seen.producer_id != transaction.producer_id:
        return transaction.is_implicit and seen.epoch == 0
    return seen.epoch in {transaction.epoch, transaction.epoch + 1}
