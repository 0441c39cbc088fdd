"""A SASL login over a link: SaslHandshake selects the mechanism, then both sides exchange tokens.

After handshake version 1 (brokers since 1.0) tokens are sent in SaslAuthenticate, which says why a login
failed. After version 0 they are sent bare, and a broker that refuses closes the connection.
"""

from __future__ import annotations

from typing import TypeVar, cast

from ottla.client.client_config import SaslMechanism, SecurityConfig
from ottla.client.clock import Deadline
from ottla.client.link import Link
from ottla.client.sasl import sasl_exchange
from ottla.client.tokens import token_for
from ottla.model.error_codes import Code
from ottla.model.errors import AuthenticationFailed, ConnectionLost, KafkaError, LocalProtocolError
from ottla.wire.api.sasl_authenticate import SaslAuthenticateRequest
from ottla.wire.api.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from ottla.wire.schema import Request, Response
from ottla.wire.versions import PeerVersions

R = TypeVar("R", bound=Response)

_BARE_TOKENS = 0


def authenticate(link: Link, security: SecurityConfig, versions: PeerVersions, deadline: Deadline) -> int:
    """Log in. Returns the session lifetime in ms (0: none). Raises AuthenticationFailed, ConnectionLost."""
    handshake = SaslHandshakeRequest(mechanism=security.mechanism.value)
    try:
        version = versions.version_for(SaslHandshakeRequest.API)
        if SaslAuthenticateRequest.API.key not in versions.ranges:
            version = _BARE_TOKENS
    except LocalProtocolError as error:
        raise AuthenticationFailed(f"{link.peer}: {error}; SASL needs 0.10 or later") from error
    answer = _call(link, handshake, version, deadline)
    _check_handshake(link, answer, security)
    secret = token_for(security) if security.mechanism is SaslMechanism.OAUTHBEARER else security.password
    exchange = sasl_exchange(security.mechanism, security.username, secret)
    token: bytes | None = exchange.first()
    lifetime_ms = 0
    while token is not None:
        if version == _BARE_TOKENS:
            challenge = _bare(link, token, security, deadline)
        else:
            challenge, lifetime_ms = _wrapped(link, token, security, versions, deadline)
        try:
            token = exchange.next(challenge)
        except AuthenticationFailed as error:
            raise AuthenticationFailed(f"{link.peer}: user {security.username!r}: {error}") from None
    return lifetime_ms


def _call(link: Link, request: Request[R], version: int, deadline: Deadline) -> R:
    link.send(request, version, deadline.left_ms())
    return cast(R, link.receive(deadline.left_ms()).message)


def _check_handshake(link: Link, answer: SaslHandshakeResponse, security: SecurityConfig) -> None:
    if answer.error_code == Code.UNSUPPORTED_SASL_MECHANISM:
        raise AuthenticationFailed(
            f"{link.peer} does not offer sasl.mechanism={security.mechanism}; "
            f"it offers {', '.join(answer.mechanisms) or 'none'}"
        )
    if answer.error_code == Code.ILLEGAL_SASL_STATE:
        raise AuthenticationFailed(
            f"{link.peer} asks for no login: use another of its listeners, or set security.protocol to "
            f"{security.protocol.value.removeprefix('SASL_')}"
        )
    if answer.error_code:
        raise AuthenticationFailed(f"{link.peer}: {KafkaError(answer.error_code, 'SaslHandshake')}")


def _wrapped(
    link: Link, token: bytes, security: SecurityConfig, versions: PeerVersions, deadline: Deadline
) -> tuple[bytes, int]:
    request = SaslAuthenticateRequest(auth_bytes=token)
    answer = _call(link, request, versions.version_for(request.API), deadline)
    if answer.error_code:
        why = answer.error_message or str(KafkaError(answer.error_code))
        raise AuthenticationFailed(
            f"{link.peer} refused user {security.username!r} with {security.mechanism}: {why}. "
            "Check sasl.username and sasl.password, and that the user exists for this mechanism"
        )
    return answer.auth_bytes, answer.session_lifetime_ms


def _bare(link: Link, token: bytes, security: SecurityConfig, deadline: Deadline) -> bytes:
    try:
        return link.raw_exchange(token, deadline)
    except ConnectionLost as error:
        raise AuthenticationFailed(
            f"{link.peer} closed the connection while user {security.username!r} logged in with "
            f"{security.mechanism}: brokers before 1.0 do that when the password is wrong"
        ) from error
