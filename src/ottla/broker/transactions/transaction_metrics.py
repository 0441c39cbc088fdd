"""The metrics of transactions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from ottla.broker.storage.topic_store import TopicStore
from ottla.broker.transactions.coordinator import TransactionCoordinator
from ottla.broker.transactions.coordinator.state import AT_REST
from ottla.broker.transactions.coordinator.transaction import Transaction
from ottla.model.exposition import Metric
from ottla.model.topic_partition import TopicAndPartition

MS_PER_S = 1000


def collected(
    store: TopicStore, coordinators: Mapping[int, TransactionCoordinator], now_ms: int
) -> Iterator[Metric]:
    """Yield the metrics of all coordinators of the process, by broker."""
    labels = {broker_id: {"broker": broker_id} for broker_id in coordinators}
    transactions = {
        broker_id: list(coordinator.transactions()) for broker_id, coordinator in coordinators.items()
    }
    states = [
        ({**labels[broker_id], "state": state}, count)
        for broker_id, some in transactions.items()
        for state, count in sorted(Counter(transaction.state.value for transaction in some).items())
    ]
    oldest = [
        (labels[broker_id], max((now_ms - began_ms for began_ms in _begun(some)), default=0) / MS_PER_S)
        for broker_id, some in transactions.items()
    ]
    counts = [(labels[broker_id], coordinator.counts) for broker_id, coordinator in coordinators.items()]
    yield Metric(
        "ottla_transactions", "gauge", "Transactional ids, by the state of their transaction.", states
    )
    yield Metric("ottla_transactions_oldest_open_seconds", "gauge", "Age of the oldest open one.", oldest)
    for name, text, values in (
        ("committed", "Transactions that were committed.", [(of, count.committed) for of, count in counts]),
        ("aborted", "Transactions that were aborted.", [(of, count.aborted) for of, count in counts]),
        ("timed_out", "Those that took too long.", [(of, count.timed_out) for of, count in counts]),
    ):
        yield Metric(f"ottla_transactions_{name}_total", "counter", text, values)
    awaited = {
        (transaction.producer_id, item)
        for some in transactions.values()
        for transaction in some
        for item in transaction.partitions
    }
    hanging = sum(1 for open_transaction in _open_in_partitions(store) if open_transaction not in awaited)
    yield Metric(
        "ottla_transactions_hanging",
        "gauge",
        "Open in a partition, and no coordinator will end it.",
        [({}, hanging)],
    )


def _begun(transactions: Iterable[Transaction]) -> Iterator[int]:
    """Yield when each open transaction began."""
    return (transaction.started_ms for transaction in transactions if transaction.state not in AT_REST)


def _open_in_partitions(store: TopicStore) -> Iterator[tuple[int, TopicAndPartition]]:
    """Yield the producer and the partition of every open transaction."""
    for partition in store.all_partitions():
        if partition.producers.first_unstable < 0:
            continue
        for entry in partition.producers.entries():
            if entry.transaction_offset >= 0:
                yield entry.producer_id, TopicAndPartition(partition.topic, partition.index)
