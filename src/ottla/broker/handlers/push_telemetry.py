"""PushTelemetry, key 72: metrics of a client.

Versions: 0. ApiVersions does not list it, as that of a Kafka without a plugin for metrics: clients then
send none.
Behaviour: metrics are taken and dropped, as by such a Kafka; what was not wanted, or is too large, is
refused.
"""

from __future__ import annotations

from ottla.broker.handlers.get_telemetry_subscriptions import (
    COMPRESSION_TYPES,
    METRICS_BYTES_MAX,
    NO_ID,
    SUBSCRIPTION_ID,
)
from ottla.broker.serving.handler import Handler, Inquiry
from ottla.model.error_codes import Code
from ottla.wire.api.push_telemetry import PushTelemetryRequest, PushTelemetryResponse


def handle(_inquiry: Inquiry, request: PushTelemetryRequest) -> PushTelemetryResponse:
    """Check the request, and drop the metrics."""
    return PushTelemetryResponse(error_code=_error(request))


def _error(request: PushTelemetryRequest) -> Code:
    if request.client_instance_id == NO_ID:
        return Code.INVALID_REQUEST
    if request.subscription_id != SUBSCRIPTION_ID:
        return Code.UNKNOWN_SUBSCRIPTION_ID
    if request.compression_type not in (0, *COMPRESSION_TYPES):
        return Code.UNSUPPORTED_COMPRESSION_TYPE
    return Code.TELEMETRY_TOO_LARGE if len(request.metrics) > METRICS_BYTES_MAX else Code.NONE


def refuse(_request: PushTelemetryRequest, error: Code, _version: int) -> PushTelemetryResponse:
    """One error for the whole request."""
    return PushTelemetryResponse(error_code=error)


HANDLER = Handler(handle, refuse)
