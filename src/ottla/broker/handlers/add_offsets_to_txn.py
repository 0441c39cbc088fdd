"""AddOffsetsToTxn, key 25: a transaction is about to commit offsets of a group.

Versions: 0 to 4.
Behaviour: decided by the transaction coordinator, see `ottla.broker.transactions.coordinator`. The offsets
topic is created if it does not exist.
"""

from __future__ import annotations

from ottla.broker.serving.handler import Handler, Inquiry
from ottla.model.error_codes import Code
from ottla.model.topic_partition import OFFSETS_TOPIC
from ottla.wire.api.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse


def handle(inquiry: Inquiry, request: AddOffsetsToTxnRequest) -> None:
    """Ask the coordinator."""
    inquiry.broker.topics.find_or_create(OFFSETS_TOPIC)
    inquiry.ask_transactions(request)


def refuse(_request: AddOffsetsToTxnRequest, error: Code, _version: int) -> AddOffsetsToTxnResponse:
    """One error for the whole request."""
    return AddOffsetsToTxnResponse(error_code=error)


HANDLER = Handler(handle, refuse)
