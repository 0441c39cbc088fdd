"""SaslAuthenticate, key 36: one token of a SASL exchange.

Version notes: 1 says when the client must authenticate again.
"""

from __future__ import annotations

from ottla.wire.schema import Request, Response, blob, field, int16, int64, request, response, string


@request(key=36, versions=2, flexible=2)
class SaslAuthenticateRequest(Request["SaslAuthenticateResponse"]):
    auth_bytes: bytes = field(blob)


@response(SaslAuthenticateRequest)
class SaslAuthenticateResponse(Response):
    error_code: int = field(int16)
    error_message: str | None = field(string, nullable_since=0)
    auth_bytes: bytes = field(blob)
    session_lifetime_ms: int = field(int64, since=1, ignorable=True)
