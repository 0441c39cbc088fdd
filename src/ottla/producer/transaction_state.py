"""The states of a transactional producer, as one table, and which partitions a transaction may write. Pure.

Theory of operation. `init_transactions` gets an id and an epoch from the transaction coordinator, which
refuses every older producer of the same transactional.id from then on. Between `begin` and the end of a
transaction records are taken. If one of them fails, the transaction has failed: nothing more is sent, and it
can only be aborted. `commit` first waits until everything is acknowledged; `abort` drops what is not sent and
waits for what is in flight. Only then the coordinator is told. If it does not answer, the state stays, and
the same call may be repeated: the coordinator knows its first answer. `hand_over` waits as `commit` does, and
tells the coordinator nothing: another process gets the transaction's identity and ends it
(`prepared_transaction`).

There are two protocols. With the older one the coordinator must know a partition before it is written to
(AddPartitionsToTxn). With transaction.version 2 (KIP-890) brokers tell the coordinator themselves, and every
end of a transaction gives the producer a new epoch.

A producer may come from the older protocol to the newer one between two transactions, because its cluster
was upgraded. Its next transaction must not have the epoch of the last one: EndTxn is answered before the
markers are written, and a partition where that transaction is still open takes a record with its epoch for
a part of it, asks no coordinator, and the marker that comes then decides about the record (KAFKA-18227). So
`begin` gets another epoch first, which the coordinator gives when all markers are written.

The table is drawn in docs/state-machines.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import TypeAlias

from ottla.model.errors import ConfigError, OttlaError, ProducerFenced, TransactionAborted

TopicPartition: TypeAlias = tuple[str, int]


class ProducerTransactionState(StrEnum):
    """The states of a transactional producer."""

    UNINITIALIZED = "not initialized"
    READY = "no transaction"
    OPEN = "open"
    FAILED = "failed"
    COMMITTING = "committing"
    ABORTING = "aborting"
    FENCED = "fenced"


class ProducerTransactionEvent(StrEnum):
    """What changes the state."""

    INITIALIZED = "the coordinator gave an id and an epoch"
    BEGIN = "begin()"
    FAIL = "a record or a step failed"
    COMMIT = "commit(), all is acknowledged"
    ABORT = "abort()"
    HAND_OVER = "hand_over(), all is acknowledged"
    ENDED = "the coordinator has ended it"
    FENCE = "the coordinator refuses the producer"


_S, _E = ProducerTransactionState, ProducerTransactionEvent

TRANSITIONS: Mapping[
    ProducerTransactionState, Mapping[ProducerTransactionEvent, ProducerTransactionState]
] = MappingProxyType(
    {
        _S.UNINITIALIZED: {_E.INITIALIZED: _S.READY, _E.FENCE: _S.FENCED},
        _S.READY: {_E.BEGIN: _S.OPEN, _E.FENCE: _S.FENCED},
        _S.OPEN: {
            _E.COMMIT: _S.COMMITTING,
            _E.ABORT: _S.ABORTING,
            _E.HAND_OVER: _S.UNINITIALIZED,
            _E.FAIL: _S.FAILED,
            _E.FENCE: _S.FENCED,
        },
        _S.FAILED: {_E.ABORT: _S.ABORTING, _E.FENCE: _S.FENCED},
        _S.COMMITTING: {
            _E.COMMIT: _S.COMMITTING,
            _E.ENDED: _S.READY,
            _E.FAIL: _S.FAILED,
            _E.FENCE: _S.FENCED,
        },
        _S.ABORTING: {_E.ABORT: _S.ABORTING, _E.ENDED: _S.READY, _E.FENCE: _S.FENCED},
        _S.FENCED: {},
    }
)

_REMEDIES = {
    _S.UNINITIALIZED: "no transaction is open; begin one",
    _S.READY: "no transaction is open; begin one",
    _S.OPEN: "a transaction is open; commit or abort it",
    _S.COMMITTING: "the outcome of the last commit() is not known; call it again",
    _S.ABORTING: "the last abort() was not answered; call it again",
}


class TransactionMachine:
    """The state, and why it is FAILED or FENCED."""

    def __init__(self) -> None:
        self.state = ProducerTransactionState.UNINITIALIZED
        self._cause: OttlaError | None = None

    def advance(self, event: ProducerTransactionEvent, cause: OttlaError | None = None) -> None:
        """Move to the next state. Raises `refusal` if the table has no such step; then nothing has
        changed.
        """
        after = TRANSITIONS[self.state].get(event)
        if after is None:
            raise self.refusal(event.value)
        self.state = after
        if event in {ProducerTransactionEvent.FAIL, ProducerTransactionEvent.FENCE}:
            self._cause = cause

    def refusal(self, call: str) -> OttlaError:
        """Return the error for a call that the state does not allow."""
        if self.state is ProducerTransactionState.FENCED:
            return self._with_cause(ProducerFenced(f"{self._cause}"))
        if self.state is ProducerTransactionState.FAILED:
            return self._with_cause(
                TransactionAborted(f"the transaction can only be aborted, because of: {self._cause}")
            )
        return ConfigError(f"{call}: {_REMEDIES[self.state]}")

    def _with_cause(self, error: OttlaError) -> OttlaError:
        error.__cause__ = self._cause
        return error


@dataclass(slots=True)
class PartitionGate:
    """Which partitions may be written to now. `registered` is None if brokers register them themselves."""

    is_open: bool = False
    is_started: bool = False  # the coordinator may know of the transaction
    registered: set[TopicPartition] | None = field(default_factory=set)

    def open(self, *, registers: bool) -> None:
        """Begin a transaction; `registers`: with the older protocol."""
        self.is_open, self.is_started = True, False
        self.registered = set() if registers else None

    def admits(self, topic_partition: TopicPartition) -> bool:
        """Whether batches of the partition may be sent."""
        return self.is_open and (self.registered is None or topic_partition in self.registered)

    def wants(self, topic_partition: TopicPartition) -> bool:
        """Whether the coordinator must be told about the partition first."""
        return self.is_open and self.registered is not None and topic_partition not in self.registered
