"""A SASL login over a link, with the steps of `login`. For OAUTHBEARER it may ask an endpoint for a token."""

from __future__ import annotations

from typing import Any

from ottla.client.client_config import SaslMechanism, SecurityConfig
from ottla.client.clock import Deadline
from ottla.client.kerberos import kerberos_exchange
from ottla.client.link import Link
from ottla.client.login import LoginRequest, LoginStep, login
from ottla.client.sasl import SaslExchange, SignedExchange, sasl_exchange
from ottla.client.tokens import signed_request, token_for
from ottla.model.errors import ConnectionLost
from ottla.wire.versions import PeerVersions


def authenticate(
    link: Link, security: SecurityConfig, versions: PeerVersions, deadline: Deadline, host: str = ""
) -> int:
    """Log in to the broker at `host`. Returns the lifetime of the session in ms; 0 means no limit.

    Raises AuthenticationFailed, ConnectionLost.
    """
    steps = login(link.peer, security, versions, lambda: new_exchange(security, host))
    try:
        step = next(steps)
        while True:
            try:
                answer = _carried_out(link, step, deadline)
            except ConnectionLost as error:
                step = steps.throw(error)
            else:
                step = steps.send(answer)
    except StopIteration as end:
        lifetime_ms: int = end.value
        return lifetime_ms


def new_exchange(security: SecurityConfig, host: str = "") -> SaslExchange:
    """Return the exchange of a login. Waits for a token, if the mechanism needs one.

    Raises AuthenticationFailed.
    """
    if security.mechanism is SaslMechanism.GSSAPI:
        return kerberos_exchange(security, host)
    if security.mechanism is SaslMechanism.AWS_MSK_IAM:
        return SignedExchange(signed_request(security, host))
    secret = token_for(security) if security.mechanism is SaslMechanism.OAUTHBEARER else security.password
    return sasl_exchange(security.mechanism, security.username, secret)


def _carried_out(link: Link, step: LoginStep, deadline: Deadline) -> Any:
    if not isinstance(step, LoginRequest):
        return link.raw_exchange(step.token, deadline)
    link.send(step.request, step.version, deadline.left_ms())
    return link.receive(deadline.left_ms()).message
