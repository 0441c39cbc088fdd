"""SaslHandshake, key 17: choose a SASL mechanism.

Version notes: after 0 the tokens travel in bare frames, after 1 in SaslAuthenticate.
"""

from __future__ import annotations

from ottla.wire.schema import Request, Response, array, field, int16, request, response, string


@request(key=17, versions=1, flexible=None)
class SaslHandshakeRequest(Request["SaslHandshakeResponse"]):
    mechanism: str = field(string)


@response(SaslHandshakeRequest)
class SaslHandshakeResponse(Response):
    error_code: int = field(int16)
    mechanisms: list[str] = field(array(string))
