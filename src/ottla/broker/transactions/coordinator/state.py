"""The states of a transactional id, as one table; it is drawn in docs/state-machines.md.

Theory of operation. A transactional id has one producer at a time: a producer id and an epoch, which
InitProducerId raises so that a former producer is fenced. Its transaction is Ongoing from the first partition
that it names. EndTxn, a timeout or a new producer decide it: once PrepareCommit or PrepareAbort is in the
log, the outcome never changes. Then every partition of the transaction gets a marker, and when all have
theirs the transaction is complete. A coordinator that loads a decided transaction writes all markers again: a
second marker does no harm.

PrepareEpochFence is the moment between raising the epoch of an Ongoing transaction and its abort. Both are
stored as one record, so nobody sees it. Dead is the end of an id that expired.
The names are the ones that ListTransactions and DescribeTransactions send.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType


class TransactionState(StrEnum):
    """The states of a transactional id. The position in this list is the number in the record."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    DEAD = "Dead"
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"


class TransactionEvent(StrEnum):
    """The events that change the state."""

    PRODUCER_STARTED = "a producer starts"
    PARTITIONS_ADDED = "partitions are added"
    COMMITTED = "the producer commits"
    ABORTED = "the producer aborts"
    FENCED = "a timeout or a new producer"
    MARKED = "all markers are written"
    EXPIRED = "the id expires"


_EMPTY, _ONGOING, _COMMIT, _ABORT, _COMMITTED, _ABORTED, _DEAD, _FENCE = TransactionState
_AT_REST = {
    TransactionEvent.PRODUCER_STARTED: _EMPTY,
    TransactionEvent.PARTITIONS_ADDED: _ONGOING,
    # A producer of transaction.version 2 may abort before the first partition, to get another epoch.
    TransactionEvent.ABORTED: _ABORT,
    TransactionEvent.EXPIRED: _DEAD,
}

TRANSITIONS: Mapping[TransactionState, Mapping[TransactionEvent, TransactionState]] = MappingProxyType(
    {
        _EMPTY: _AT_REST,
        _ONGOING: {
            TransactionEvent.PARTITIONS_ADDED: _ONGOING,
            TransactionEvent.COMMITTED: _COMMIT,
            TransactionEvent.ABORTED: _ABORT,
            TransactionEvent.FENCED: _FENCE,
        },
        _FENCE: {TransactionEvent.ABORTED: _ABORT},
        _COMMIT: {TransactionEvent.MARKED: _COMMITTED},
        _ABORT: {TransactionEvent.MARKED: _ABORTED},
        _COMMITTED: _AT_REST,
        _ABORTED: _AT_REST,
        _DEAD: {},
    }
)

DECIDED = frozenset({_COMMIT, _ABORT})
"""The outcome is in the log; markers are being written."""
AT_REST = frozenset({_EMPTY, _COMMITTED, _ABORTED})
"""No transaction is open."""
