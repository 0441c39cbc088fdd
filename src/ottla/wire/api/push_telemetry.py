"""PushTelemetry, key 72: metrics of a client, as the cluster has asked for them (KIP-714)."""

from __future__ import annotations

from ottla.wire.schema import (
    Request,
    Response,
    blob,
    boolean,
    field,
    int8,
    int16,
    int32,
    request,
    response,
    uuid,
)


@request(key=72, versions=0, flexible=0)
class PushTelemetryRequest(Request["PushTelemetryResponse"]):
    client_instance_id: bytes = field(uuid)
    subscription_id: int = field(int32)
    terminating: bool = field(boolean)
    compression_type: int = field(int8)
    metrics: bytes = field(blob)


@response(PushTelemetryRequest)
class PushTelemetryResponse(Response):
    throttle_time_ms: int = field(int32)
    error_code: int = field(int16)
