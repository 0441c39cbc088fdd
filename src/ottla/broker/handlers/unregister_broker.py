"""UnregisterBroker, key 64: forget a broker that will not come back.

Versions: 0.
Behaviour: a broker of the process cannot be forgotten while the process runs, and no other is known.
"""

from __future__ import annotations

from ottla.broker.serving.handler import Handler, Inquiry
from ottla.model.error_codes import Code
from ottla.wire.api.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse


def handle(inquiry: Inquiry, request: UnregisterBrokerRequest) -> UnregisterBrokerResponse:
    """Say why the broker is not forgotten."""
    if request.broker_id in inquiry.broker.leaders.brokers:
        reason = f"broker {request.broker_id} runs in this process, and is known as long as that runs"
        return UnregisterBrokerResponse(error_code=Code.INVALID_REQUEST, error_message=reason)
    reason = f"there is no broker {request.broker_id}"
    return UnregisterBrokerResponse(error_code=Code.BROKER_ID_NOT_REGISTERED, error_message=reason)


def refuse(_request: UnregisterBrokerRequest, error: Code, _version: int) -> UnregisterBrokerResponse:
    """One error for the whole request."""
    return UnregisterBrokerResponse(error_code=error, error_message=error.text)


HANDLER = Handler(handle, refuse)
