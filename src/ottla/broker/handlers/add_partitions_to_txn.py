"""AddPartitionsToTxn, key 24: a transaction is about to write to partitions.

Versions: 0 to 5. Up to 3 producers ask; from 4 on brokers, for several transactions, and may only verify.
Behaviour: partitions that do not exist are refused, and then none is added; the rest is decided by the
transaction coordinator, see `ottla.broker.transactions.coordinator`.
"""

from __future__ import annotations

from ottla.broker.serving.handler import Handler, Inquiry
from ottla.broker.transactions.coordinator.producers import SEVERAL_SINCE, add_refused
from ottla.model.error_codes import Code
from ottla.wire.api.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse


def handle(inquiry: Inquiry, request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnResponse | None:
    """Refuse what does not exist, and ask the coordinator for the rest."""
    refused = add_refused(request, Code.OPERATION_NOT_ATTEMPTED, inquiry.version)
    partitions = inquiry.broker.store.partitions
    if inquiry.version < SEVERAL_SINCE:
        unknown = [
            result
            for topic in refused.results_by_topic_v3_and_below
            for result in topic.results_by_partition
            if not 0 <= result.partition_index < len(partitions.get(topic.name, ()))
        ]
        if unknown:
            for result in unknown:
                result.partition_error_code = Code.UNKNOWN_TOPIC_OR_PARTITION
            return refused
    inquiry.ask_transactions(request)
    return None


HANDLER = Handler(handle, add_refused)
