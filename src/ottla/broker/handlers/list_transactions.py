"""ListTransactions, key 66: the transactional ids that this broker coordinates.

Versions: 0 to 2. The pattern of 2 is one of RE2, as in Kafka.
Behaviour: decided by the transaction coordinator, see `ottla.broker.transactions.coordinator`.
"""

from __future__ import annotations

from ottla.broker.serving.handler import Handler, ask_transactions
from ottla.model.error_codes import Code
from ottla.wire.api.list_transactions import ListTransactionsRequest, ListTransactionsResponse


def refuse(_request: ListTransactionsRequest, error: Code, _version: int) -> ListTransactionsResponse:
    """One error for the whole request."""
    return ListTransactionsResponse(error_code=error)


HANDLER = Handler(ask_transactions, refuse)
