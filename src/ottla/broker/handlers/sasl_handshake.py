"""SaslHandshake, key 17: choose a SASL mechanism.

Versions: 0 to 1. After 0 tokens come in bare frames, after 1 in SaslAuthenticate.
Behaviour: a mechanism that the listener does not offer is refused with those that it offers, and the
connection is closed. On a listener without a login, and after it where sessions have no end, the answer is
ILLEGAL_SASL_STATE.
"""

from __future__ import annotations

from functools import partial

from ottla.broker.serving.handler import Handler, Inquiry
from ottla.model.error_codes import Code
from ottla.wire.api.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse


def handle(inquiry: Inquiry, request: SaslHandshakeRequest) -> SaslHandshakeResponse | None:
    """Choose the mechanism."""
    gate = inquiry.link.login_gate
    if gate is None:
        return SaslHandshakeResponse(error_code=Code.ILLEGAL_SASL_STATE)
    error = gate.session.handshake(request.mechanism, inquiry.version, inquiry.broker.runtime.loop.time())
    answer = SaslHandshakeResponse(
        error_code=error,
        mechanisms=[] if error is Code.ILLEGAL_SASL_STATE else list(gate.settings.mechanisms),
    )
    if not gate.session.is_over:
        return answer
    gate.after_delay(partial(inquiry.reply_last, answer))
    return None


def refuse(_request: SaslHandshakeRequest, error: Code, _version: int) -> SaslHandshakeResponse:
    """One error for the whole request."""
    return SaslHandshakeResponse(error_code=error)


HANDLER = Handler(handle, refuse)
