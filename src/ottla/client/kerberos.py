"""GSSAPI, which is Kerberos (RFC 4752), with the package `gssapi`. Messages are not wrapped after the login.

The context makes and checks the tokens of tickets. This module does what SASL adds after them: both sides
agree on a security layer (here none), and the client says who it is.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Protocol

from ottla.client.sasl import SaslExchange
from ottla.client.security_config import SecurityConfig
from ottla.model.errors import AuthenticationFailed, ConfigError

NO_LAYER = 1
_OFFER_BYTES = 4
_LOGIN_HINT = "Get a ticket with kinit, or set sasl.kerberos.keytab and sasl.kerberos.principal"


class KerberosContext(Protocol):
    """The part of gssapi.SecurityContext that is used."""

    complete: bool

    def step(self, token: bytes | None = None) -> bytes | None:
        """Process the broker's token, and return ours."""

    def wrap(self, message: bytes, *, encrypt: bool) -> Any:
        """Sign a message."""

    def unwrap(self, message: bytes) -> Any:
        """Check a message."""


def kerberos_exchange(security: SecurityConfig, host: str) -> SaslExchange:
    """The exchange with the broker at `host`. Raises ConfigError if the package is missing."""
    assert security.kerberos is not None
    try:
        gssapi = import_module("gssapi")
    except ImportError as error:
        raise ConfigError(
            "sasl.mechanism=GSSAPI needs the package gssapi: pip install 'ottla[kerberos]'"
        ) from error
    login = security.kerberos
    try:
        service = gssapi.Name(f"{login.service}@{host}", gssapi.NameType.hostbased_service)
        who = gssapi.Name(login.principal, gssapi.NameType.user) if login.principal else None
        store = {"client_keytab": login.keytab} if login.keytab else None
        credentials = gssapi.Credentials(name=who, usage="initiate", store=store) if who or store else None
        context = gssapi.SecurityContext(name=service, creds=credentials, usage="initiate")
    except Exception as error:
        raise AuthenticationFailed(f"Kerberos, {login.service}@{host}: {error}. {_LOGIN_HINT}") from error
    return KerberosExchange(context)


class KerberosExchange:
    """The tokens of the context, then our answer to the security layers that the broker offers: none."""

    def __init__(self, context: KerberosContext) -> None:
        self._context = context
        self._has_answered = False

    def first(self) -> bytes:
        """The context's first token."""
        return self._step(None)

    def next(self, challenge: bytes) -> bytes | None:
        """The next token; None when the login is done. Raises AuthenticationFailed."""
        if not self._context.complete:
            return self._step(challenge)
        if self._has_answered:
            return None
        self._has_answered = True
        return self._layer(challenge)

    def _step(self, challenge: bytes | None) -> bytes:
        try:
            return self._context.step(challenge) or b""
        except Exception as error:
            raise AuthenticationFailed(f"Kerberos: {error}. {_LOGIN_HINT}") from error

    def _layer(self, challenge: bytes) -> bytes:
        try:
            offer: bytes = self._context.unwrap(challenge).message
            if len(offer) != _OFFER_BYTES or not offer[0] & NO_LAYER:
                raise AuthenticationFailed("Kerberos: the broker insists on a layer of its own; use TLS")
            signed: bytes = self._context.wrap(bytes([NO_LAYER, 0, 0, 0]), encrypt=False).message
        except AuthenticationFailed:
            raise
        except Exception as error:
            raise AuthenticationFailed(f"Kerberos: {error}") from error
        return signed
