"""InitProducerId, key 22: an id for an idempotent producer, an id and an epoch for a transactional one.

Versions: 0 to 5. 6 belongs to two-phase commit; Kafka 4.4 calls it unstable and does not list it either.
Behaviour: see `producer_state.producer_ids`. With a transactional id the transaction coordinator decides, see
`ottla.broker.transactions.coordinator`.
"""

from __future__ import annotations

from ottla.broker.producer_state.producer_ids import init_producer_id
from ottla.broker.serving.handler import Handler, Inquiry
from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError, StorageError
from ottla.wire.api.init_producer_id import InitProducerIdRequest, InitProducerIdResponse


def handle(inquiry: Inquiry, request: InitProducerIdRequest) -> InitProducerIdResponse | None:
    """A new id, or what the coordinator decides."""
    if (request.producer_id == -1) != (request.producer_epoch == -1) or request.transactional_id == "":
        return refuse(request, Code.INVALID_REQUEST, inquiry.version)
    if request.transactional_id is not None:
        inquiry.ask_transactions(request)
        return None
    try:
        return init_producer_id(inquiry.broker.store.producer_ids)
    except StorageError as error:
        # Kafka's error for "try again": a storage error would end a Java producer.
        raise KafkaError(Code.COORDINATOR_NOT_AVAILABLE, str(error)) from error


def refuse(_request: InitProducerIdRequest, error: Code, _version: int) -> InitProducerIdResponse:
    """One error for the whole request."""
    return InitProducerIdResponse(error_code=error, producer_id=-1, producer_epoch=-1)


HANDLER = Handler(handle, refuse)
