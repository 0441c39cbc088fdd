"""GetTelemetrySubscriptions, key 71: which metrics of a client the cluster wants.

Versions: 0. ApiVersions does not list it, as that of a Kafka without a plugin for metrics: clients then do
not ask.
Behaviour: to one that asks all the same the answer is that of such a Kafka: no metrics are wanted.
"""

from __future__ import annotations

from ottla.broker.serving.handler import Handler, Inquiry
from ottla.model.error_codes import Code
from ottla.wire.api.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)

NO_ID = bytes(16)
SUBSCRIPTION_ID = 0
PUSH_INTERVAL_MS = 300_000
METRICS_BYTES_MAX = 1 << 20
COMPRESSION_TYPES = (4, 3, 1, 2)
"""zstd, lz4, gzip, snappy: those of record batches."""


def handle(_inquiry: Inquiry, request: GetTelemetrySubscriptionsRequest) -> GetTelemetrySubscriptionsResponse:
    """Want nothing. A client without an id gets one."""
    import uuid  # here: a start does not need it

    return GetTelemetrySubscriptionsResponse(
        client_instance_id=uuid.uuid4().bytes
        if request.client_instance_id == NO_ID
        else request.client_instance_id,
        subscription_id=SUBSCRIPTION_ID,
        accepted_compression_types=list(COMPRESSION_TYPES),
        push_interval_ms=PUSH_INTERVAL_MS,
        telemetry_max_bytes=METRICS_BYTES_MAX,
        delta_temporality=True,
    )


def refuse(
    _request: GetTelemetrySubscriptionsRequest, error: Code, _version: int
) -> GetTelemetrySubscriptionsResponse:
    """One error for the whole request."""
    return GetTelemetrySubscriptionsResponse(error_code=error)


HANDLER = Handler(handle, refuse)
