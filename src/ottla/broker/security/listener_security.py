"""What the connections of one listener share about security: TLS, logins, and who a certificate names."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.broker.security.principal import ANONYMOUS, CertificateNames, Principal
from ottla.broker.security.unauthenticated import UnauthenticatedPeers
from ottla.broker.settings.listeners import Listener

if TYPE_CHECKING:  # loaded by listeners that need them
    import ssl

    from ottla.broker.security.mechanisms import FindScram, Login
    from ottla.broker.security.sasl_session import Logins, SaslSession
    from ottla.broker.security.tls_contexts import FollowedContext
    from ottla.broker.security.token_login import SigningKeys

_NONCE_BYTES = 24


class ListenerSecurity:
    """Made when the broker starts to listen. Raises ConfigError for stores that cannot be read."""

    def __init__(self, listener: Listener, find_scram: FindScram, now_s: Callable[[], float]) -> None:
        self.listener = listener
        self.unauthenticated = UnauthenticatedPeers()
        self._find_scram = find_scram
        self._names = CertificateNames(listener.tls.principal_rules) if listener.tls else None
        self._followed: FollowedContext | None = None
        self._logins: Logins | None = None
        self._keys: SigningKeys | None = None
        if listener.tls:
            from ottla.broker.security.tls_contexts import FollowedContext

            self._followed = FollowedContext(listener.tls, now_s)
        if listener.sasl:
            from ottla.broker.security.sasl_session import Logins
            from ottla.broker.security.token_login import SigningKeys

            self._logins = Logins(listener.sasl, self._login)
            if "OAUTHBEARER" in listener.sasl.mechanisms and listener.sasl.oauth.jwks_url:
                self._keys = SigningKeys(listener.sasl.oauth, now_s)

    @property
    def tls(self) -> ssl.SSLContext | None:
        """The context to listen with; None without TLS."""
        return self._followed.context if self._followed else None

    def session(self) -> SaslSession | None:
        """Return the login of a new connection; None if the listener needs no login."""
        if self._logins is None:
            return None
        from ottla.broker.security.sasl_session import SaslSession

        return SaslSession(self._logins)

    def certified(self, connection: ssl.SSLSocket | None) -> Principal | None:
        """Return the user that a peer's certificate names: ANONYMOUS without one, None if no rule fits."""
        if connection is None or self._names is None:
            return ANONYMOUS
        return self._names.principal(connection.getpeercert())

    def _login(self, mechanism: str) -> Login:
        from ottla.broker.security.mechanisms import PlainLogin, ScramLogin
        from ottla.broker.security.token_login import TokenLogin

        assert self.listener.sasl is not None
        if mechanism == "PLAIN":
            return PlainLogin(self.listener.sasl.users)
        if mechanism == "OAUTHBEARER":
            return TokenLogin(self.listener.sasl.oauth, self._keys, time.time)
        return ScramLogin(mechanism, self._find_scram, secrets.token_urlsafe(_NONCE_BYTES))
