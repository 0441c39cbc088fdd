"""A SASL login as a conversation: what to send next, and what the answers mean. Pure.

    steps = login(peer, security, versions, secret)
    step = next(steps)
    while True: step = steps.send(the answer to step)     # until StopIteration, whose value is the lifetime

After handshake version 1 (brokers since 1.0) tokens are sent in SaslAuthenticate, which says why a login
failed. After version 0 they are sent bare, and a broker that refuses closes the connection.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, NamedTuple

from ottla.client.sasl import SaslExchange
from ottla.client.security_config import SaslMechanism, SecurityConfig
from ottla.model.error_codes import Code
from ottla.model.errors import AuthenticationFailed, ConnectionLost, KafkaError, LocalProtocolError
from ottla.wire.api.sasl_authenticate import SaslAuthenticateRequest
from ottla.wire.api.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from ottla.wire.schema import Request
from ottla.wire.versions import PeerVersions

_BARE_TOKENS = 0
_PASSWORD_HINT = "Check sasl.username and sasl.password, and that the user exists for this mechanism"
_HINTS = {
    SaslMechanism.OAUTHBEARER: "Check the token: who issued it, for which audience and scope, and until when",
    SaslMechanism.GSSAPI: (
        "Check that the broker's keytab has the current keys of its service (sasl.kerberos.service.name) for "
        "the host name that bootstrap.servers has, and that the clocks of both hosts agree"
    ),
    SaslMechanism.AWS_MSK_IAM: "Check the signer's credentials and region",
}


class LoginRequest(NamedTuple):
    """Send a request; its answer is the response."""

    request: Request[Any]
    version: int


class BareToken(NamedTuple):
    """Send bytes as a frame of their own; the answer is the bytes of the next frame."""

    token: bytes


LoginStep = LoginRequest | BareToken
Login = Generator[LoginStep, Any, int]


def login(
    peer: str, security: SecurityConfig, versions: PeerVersions, begin: Callable[[], SaslExchange]
) -> Login:
    """Log in. Returns the session lifetime in ms (0: none). Raises AuthenticationFailed.

    `begin` makes the exchange when the broker has agreed to the mechanism. A ConnectionLost must be thrown
    into the generator, which explains it.
    """
    try:
        version = versions.version_for(SaslHandshakeRequest.API)
        if SaslAuthenticateRequest.API.key not in versions.ranges:
            version = _BARE_TOKENS
    except LocalProtocolError as error:
        raise AuthenticationFailed(f"{peer}: {error}; SASL needs 0.10 or later") from error
    answer = yield LoginRequest(SaslHandshakeRequest(mechanism=security.mechanism.value), version)
    _check_handshake(peer, answer, security)
    exchange = begin()
    token: bytes | None = exchange.first()
    lifetime_ms = 0
    while token is not None:
        if version == _BARE_TOKENS:
            challenge = yield from _bare(peer, token, security)
        else:
            challenge, lifetime_ms = yield from _wrapped(peer, token, security, versions)
        try:
            token = exchange.next(challenge)
        except AuthenticationFailed as error:
            raise AuthenticationFailed(f"{peer}: {security.login_name}: {error}") from None
    return lifetime_ms


def _check_handshake(peer: str, answer: SaslHandshakeResponse, security: SecurityConfig) -> None:
    if answer.error_code == Code.UNSUPPORTED_SASL_MECHANISM:
        raise AuthenticationFailed(
            f"{peer} does not offer sasl.mechanism={security.mechanism}; "
            f"it offers {', '.join(answer.mechanisms) or 'none'}"
        )
    if answer.error_code == Code.ILLEGAL_SASL_STATE:
        raise AuthenticationFailed(
            f"{peer} asks for no login: use another of its listeners, or set security.protocol to "
            f"{security.protocol.value.removeprefix('SASL_')}"
        )
    if answer.error_code:
        raise AuthenticationFailed(f"{peer}: {KafkaError(answer.error_code, 'SaslHandshake')}")


def _wrapped(
    peer: str, token: bytes, security: SecurityConfig, versions: PeerVersions
) -> Generator[LoginStep, Any, tuple[bytes, int]]:
    request = SaslAuthenticateRequest(auth_bytes=token)
    answer = yield LoginRequest(request, versions.version_for(request.API))
    if answer.error_code:
        why = answer.error_message or str(KafkaError(answer.error_code))
        raise AuthenticationFailed(
            f"{peer} refused {security.login_name} with {security.mechanism}: {why}. "
            f"{_HINTS.get(security.mechanism, _PASSWORD_HINT)}"
        )
    return answer.auth_bytes, answer.session_lifetime_ms


def _bare(peer: str, token: bytes, security: SecurityConfig) -> Generator[LoginStep, Any, bytes]:
    try:
        challenge = yield BareToken(token)
    except ConnectionLost as error:
        raise AuthenticationFailed(
            f"{peer} closed the connection while {security.login_name} logged in with "
            f"{security.mechanism}: brokers before 1.0 do that when they refuse a login. "
            f"{_HINTS.get(security.mechanism, _PASSWORD_HINT)}"
        ) from error
    return bytes(challenge)
