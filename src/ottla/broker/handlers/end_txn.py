"""EndTxn, key 26: commit or abort a transaction.

Versions: 0 to 5. From 5 on every transaction has an epoch of its own, which the answer tells (KIP-890).
Behaviour: decided by the transaction coordinator, see `ottla.broker.transactions.coordinator`.
"""

from __future__ import annotations

from ottla.broker.serving.handler import Handler, ask_transactions
from ottla.model.error_codes import Code
from ottla.wire.api.end_txn import EndTxnRequest, EndTxnResponse


def refuse(_request: EndTxnRequest, error: Code, _version: int) -> EndTxnResponse:
    """One error for the whole request."""
    return EndTxnResponse(error_code=error)


HANDLER = Handler(ask_transactions, refuse)
