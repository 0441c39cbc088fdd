"""SaslAuthenticate, key 36: one token of a login.

Versions: 0 to 2. From 1 on the last answer says how long the session lasts (KIP-368).
Behaviour: a login that fails is answered after connection.failed.authentication.delay.ms, and the connection
is closed. Outside of a login the answer is ILLEGAL_SASL_STATE.
"""

from __future__ import annotations

from functools import partial

from ottla.broker.security.sasl_session import SaslState
from ottla.broker.serving.handler import Handler, Inquiry
from ottla.model.error_codes import Code
from ottla.wire.api.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse


def handle(inquiry: Inquiry, request: SaslAuthenticateRequest) -> SaslAuthenticateResponse | None:
    """Take the token."""
    gate = inquiry.link.login_gate
    if gate is None or gate.session.state is SaslState.OPEN:
        return refuse(request, Code.ILLEGAL_SASL_STATE, inquiry.version)
    answer = gate.token(bytes(request.auth_bytes))
    response = SaslAuthenticateResponse(
        error_code=answer.error,
        error_message=answer.text,
        auth_bytes=answer.token,
        session_lifetime_ms=answer.lifetime_ms,
    )
    if not answer.error:
        return response
    gate.after_delay(partial(inquiry.reply_last, response))
    return None


def refuse(_request: SaslAuthenticateRequest, error: Code, _version: int) -> SaslAuthenticateResponse:
    """One error for the whole request."""
    text = error.text
    if error is Code.ILLEGAL_SASL_STATE:
        text = "SaslAuthenticate request received after successful authentication"
    return SaslAuthenticateResponse(error_code=error, error_message=text)


HANDLER = Handler(handle, refuse)
