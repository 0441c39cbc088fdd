"""UnregisterBroker, key 64: forget a broker that will not come back."""

from __future__ import annotations

from ottla.wire.schema import Request, Response, field, int16, int32, request, response, string


@request(key=64, versions=0, flexible=0)
class UnregisterBrokerRequest(Request["UnregisterBrokerResponse"]):
    broker_id: int = field(int32)


@response(UnregisterBrokerRequest)
class UnregisterBrokerResponse(Response):
    throttle_time_ms: int = field(int32)
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable_since=0)
