"""The rules for requests: which error a request gets, by the state of its transaction.

    AddPartitionsToTxn, EndTxn   the producer id is another          INVALID_PRODUCER_ID_MAPPING
                                 the epoch is another                PRODUCER_FENCED
    EndTxn                       a transaction is open               decided now
                                 ended the same way before           answered again, without an effect
                                 ended the other way, or never begun INVALID_TXN_STATE
    InitProducerId               without an expected producer        the next epoch; what is open is aborted
                                 the expected epoch is the present   the next epoch (KIP-360)
                                 the expected epoch is the last one  the present epoch: a repeated request
                                 anything else                       PRODUCER_FENCED

From transaction.version 2 on (EndTxn 5) every end raises the epoch. So a repeated EndTxn has the epoch
before, and one with the present epoch is of a transaction that has not begun, which may only be aborted.
"""

from __future__ import annotations

from ottla.broker.transactions.coordinator.state import TransactionState
from ottla.broker.transactions.coordinator.transaction import (
    BUMPING_VERSION,
    EPOCH_MAX,
    NO_PRODUCER,
    Transaction,
)
from ottla.model.error_codes import Code
from ottla.wire.api.end_txn import EndTxnRequest
from ottla.wire.api.init_producer_id import InitProducerIdRequest

BUMPING_END_SINCE = 5


def producer_error(transaction: Transaction | None, producer_id: int, producer_epoch: int) -> Code:
    """Return why a producer may not continue a transaction, or NONE."""
    if transaction is None or transaction.producer_id != producer_id:
        return Code.INVALID_PRODUCER_ID_MAPPING
    return Code.NONE if transaction.producer_epoch == producer_epoch else Code.PRODUCER_FENCED


def end_error(transaction: Transaction | None, request: EndTxnRequest, version: int) -> Code | None:
    """Return the answer to EndTxn, or None if the transaction is to be decided now."""
    bumps = version >= BUMPING_END_SINCE
    is_repeated = bumps and transaction is not None and _has_ended(transaction, request)
    error = producer_error(transaction, request.producer_id, request.producer_epoch)
    if transaction is None or (error and not is_repeated):
        return error
    if transaction.state is TransactionState.ONGOING:
        return None
    if bumps and not is_repeated:
        return Code.INVALID_TXN_STATE if request.committed else None
    same = TransactionState.COMPLETE_COMMIT if request.committed else TransactionState.COMPLETE_ABORT
    return Code.NONE if transaction.state is same else Code.INVALID_TXN_STATE


def _has_ended(transaction: Transaction, request: EndTxnRequest) -> bool:
    """Whether a producer of transaction.version 2 asks for the end of its last transaction again.

    Also if that was aborted by its timeout: the producer may abort it, too, and go on with the next epoch.
    """
    if transaction.version < BUMPING_VERSION or transaction.state is TransactionState.ONGOING:
        return False
    if transaction.producer_id == request.producer_id:
        return EPOCH_MAX > transaction.producer_epoch == request.producer_epoch + 1
    is_previous = transaction.previous_producer_id == request.producer_id
    return is_previous and request.producer_epoch == EPOCH_MAX - 1 and transaction.producer_epoch == 0


def start_error(transaction: Transaction, request: InitProducerIdRequest) -> Code:
    """Return why a producer may not start, or NONE. A producer that expects no id and epoch always may."""
    if request.producer_id == NO_PRODUCER:
        return Code.NONE
    epoch = request.producer_epoch
    if request.producer_id == transaction.producer_id:
        is_known = epoch in (transaction.producer_epoch, transaction.last_epoch)
    else:
        is_known = request.producer_id == transaction.previous_producer_id and is_repeated_start(
            transaction, request
        )
    return Code.NONE if is_known and epoch >= 0 else Code.PRODUCER_FENCED


def is_repeated_start(transaction: Transaction, request: InitProducerIdRequest) -> bool:
    """Whether a producer that expects its last epoch has got the present one already."""
    epoch = request.producer_epoch
    return request.producer_id != NO_PRODUCER and epoch >= 0 and epoch == transaction.last_epoch


# Answers that only newer versions of each request know, and what older ones get instead.
_FENCED_SINCE = {"InitProducerId": 4, "AddPartitionsToTxn": 2, "AddOffsetsToTxn": 2, "EndTxn": 2}


def for_version(error: Code, api: str, version: int) -> Code:
    """Return the error as a version of a request knows it."""
    if error is Code.PRODUCER_FENCED and version < _FENCED_SINCE[api]:
        return Code.INVALID_PRODUCER_EPOCH
    return error
