"""DescribeTransactions and ListTransactions: the answers about transactional ids."""

from __future__ import annotations

from collections.abc import Iterable

from ottla.broker.transactions.coordinator.state import TransactionState
from ottla.broker.transactions.coordinator.transaction import Transaction
from ottla.model.error_codes import Code
from ottla.model.topic_partition import TopicAndPartition, by_topic
from ottla.wire.api.describe_transactions import DescribedTransaction, TransactionTopic
from ottla.wire.api.list_transactions import (
    ListedTransaction,
    ListTransactionsRequest,
    ListTransactionsResponse,
)


def described(
    transactional_id: str, transaction: Transaction, partitions: Iterable[TopicAndPartition]
) -> DescribedTransaction:
    """Return the state of an id. `partitions` are those that have no marker yet."""
    return DescribedTransaction(
        transactional_id=transactional_id,
        transaction_state=transaction.state.value,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_start_time_ms=transaction.started_ms,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        topics=[
            TransactionTopic(topic=topic, partitions=numbers)
            for topic, numbers in by_topic(partitions).items()
        ],
    )


def refused(transactional_id: str, error: Code) -> DescribedTransaction:
    """Return the answer about an id that cannot be described."""
    return DescribedTransaction(error_code=error, transactional_id=transactional_id)


def listed(
    transactions: Iterable[tuple[str, Transaction]], request: ListTransactionsRequest, now_ms: int
) -> ListTransactionsResponse:
    """Return the ids that pass all filters. An empty filter lets all pass."""
    known = {state.value for state in TransactionState}
    passing = {
        name: transaction for name, transaction in transactions if _passes(transaction, request, now_ms)
    }
    try:
        names = _matching(list(passing), request.transactional_id_pattern)
    except ValueError:
        return ListTransactionsResponse(error_code=Code.INVALID_REGULAR_EXPRESSION)
    rows = [
        ListedTransaction(
            transactional_id=name,
            producer_id=passing[name].producer_id,
            transaction_state=passing[name].state.value,
        )
        for name in names
    ]
    unknown = [state for state in request.state_filters if state not in known]
    return ListTransactionsResponse(unknown_state_filters=unknown, transaction_states=rows)


def _matching(names: list[str], pattern: str | None) -> list[str]:
    """Return the names that a pattern matches as a whole. Raises ValueError if it is not one.

    By RE2, as in Kafka: a pattern of Python can take for ever.
    """
    if not pattern:
        return names
    import pyarrow  # here, since few need it
    from pyarrow import compute

    whole = rf"\A(?:{pattern})\z"
    mask = compute.match_substring_regex(pyarrow.array(names, pyarrow.string()), whole)
    return [name for name, matches in zip(names, mask.to_pylist(), strict=True) if matches]


def _passes(transaction: Transaction, request: ListTransactionsRequest, now_ms: int) -> bool:
    if request.producer_id_filters and transaction.producer_id not in request.producer_id_filters:
        return False
    if request.state_filters and transaction.state.value not in request.state_filters:
        return False
    duration_ms = now_ms - transaction.started_ms
    return request.duration_filter < 0 or duration_ms > request.duration_filter
