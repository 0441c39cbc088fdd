"""InitProducerId, key 22: an id for an idempotent producer.

Versions: 0 to 5. 6 belongs to two-phase commit and is not served.
Behaviour: see `ottla.broker.producer_ids`. There are no transactions yet: a transactional id is refused.
"""

from __future__ import annotations

from ottla.broker.producer_ids import init_producer_id
from ottla.broker.serving import Handler, Inquiry
from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError, StorageError
from ottla.wire.api.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.versions import VersionRange


def handle(inquiry: Inquiry, request: InitProducerIdRequest) -> InitProducerIdResponse:
    """A new id."""
    try:
        return init_producer_id(request, inquiry.cluster.producer_ids)
    except StorageError as error:
        # Kafka's word for "later": a storage error would be the end of a Java producer.
        raise KafkaError(Code.COORDINATOR_NOT_AVAILABLE, str(error)) from error


def refuse(_request: InitProducerIdRequest, error: Code, _version: int) -> InitProducerIdResponse:
    """One error for the whole request."""
    return InitProducerIdResponse(error_code=error, producer_id=-1, producer_epoch=-1)


HANDLER = Handler(InitProducerIdRequest, VersionRange(0, 5), handle, refuse)
