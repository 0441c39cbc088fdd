"""DescribeTransactions, key 65: the state of transactional ids.

Versions: 0.
Behaviour: decided by the transaction coordinator, see `ottla.broker.transactions.coordinator`.
"""

from __future__ import annotations

from ottla.broker.serving.handler import Handler, ask_transactions
from ottla.broker.transactions.coordinator.listing import refused
from ottla.model.error_codes import Code
from ottla.wire.api.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse


def refuse(request: DescribeTransactionsRequest, error: Code, _version: int) -> DescribeTransactionsResponse:
    """One error for every id."""
    return DescribeTransactionsResponse(
        transaction_states=[refused(name, error) for name in request.transactional_ids]
    )


HANDLER = Handler(ask_transactions, refuse)
