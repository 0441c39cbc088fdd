"""A SASL login over a link, as `login` says. The exchange with a token may ask an endpoint for it."""

from __future__ import annotations

from typing import Any

from ottla.client.client_config import SaslMechanism, SecurityConfig
from ottla.client.clock import Deadline
from ottla.client.link import Link
from ottla.client.login import LoginRequest, LoginStep, login
from ottla.client.sasl import SaslExchange, sasl_exchange
from ottla.client.tokens import token_for
from ottla.model.errors import ConnectionLost
from ottla.wire.versions import PeerVersions


def authenticate(link: Link, security: SecurityConfig, versions: PeerVersions, deadline: Deadline) -> int:
    """Log in. Returns the session lifetime in ms (0: none). Raises AuthenticationFailed, ConnectionLost."""
    steps = login(link.peer, security, versions, lambda: new_exchange(security))
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


def new_exchange(security: SecurityConfig) -> SaslExchange:
    """The exchange of a login. Waits for a token, if the mechanism needs one. Raises AuthenticationFailed."""
    secret = token_for(security) if security.mechanism is SaslMechanism.OAUTHBEARER else security.password
    return sasl_exchange(security.mechanism, security.username, secret)


def _carried_out(link: Link, step: LoginStep, deadline: Deadline) -> Any:
    if not isinstance(step, LoginRequest):
        return link.raw_exchange(step.token, deadline)
    link.send(step.request, step.version, deadline.left_ms())
    return link.receive(deadline.left_ms()).message
