"""GetTelemetrySubscriptions, key 71: which metrics of a client the cluster wants, and how often (KIP-714)."""

from __future__ import annotations

from ottla.wire.schema import (
    Request,
    Response,
    array,
    boolean,
    field,
    int8,
    int16,
    int32,
    request,
    response,
    string,
    uuid,
)


@request(key=71, versions=0, flexible=0)
class GetTelemetrySubscriptionsRequest(Request["GetTelemetrySubscriptionsResponse"]):
    client_instance_id: bytes = field(uuid)


@response(GetTelemetrySubscriptionsRequest)
class GetTelemetrySubscriptionsResponse(Response):
    throttle_time_ms: int = field(int32)
    error_code: int = field(int16)
    client_instance_id: bytes = field(uuid)
    subscription_id: int = field(int32)
    accepted_compression_types: list[int] = field(array(int8))
    push_interval_ms: int = field(int32)
    telemetry_max_bytes: int = field(int32)
    delta_temporality: bool = field(boolean)
    requested_metrics: list[str] = field(array(string))
