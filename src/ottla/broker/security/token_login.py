"""OAUTHBEARER (RFC 7628): the client shows a token, and the keys of its issuer say whether it is sound.

A bad token is answered with a status, and refused at the client's next message, as the RFC has it.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ottla.broker.security.mechanisms import LoginRefused, SaslStep, invalid
from ottla.broker.settings.security_settings import OAuthSettings
from ottla.model.errors import ConfigError
from ottla.security.json_web_token import (
    Expected,
    TokenIdentity,
    TokenRefused,
    check_signature,
    check_unsigned,
    identity,
    parse_jwks,
    parse_token,
)

log = logging.getLogger(__name__)

INVALID = '{"status":"invalid_token"}'
FETCH_S = 10.0
KEYS_BYTES_MAX = 1 << 20
_MESSAGE = re.compile(
    rb"n,(?:a=([^,]*))?,\x01auth=[Bb]earer ([-A-Za-z0-9._~+/]+=*)\x01(?:[A-Za-z]+=[^\x01]*\x01)*\x01"
)


class SigningKeys:
    """The keys of an issuer. They are read again by a thread. Raises ConfigError."""

    def __init__(self, settings: OAuthSettings, now_s: Callable[[], float]) -> None:
        self._url = settings.jwks_url or ""
        self._refresh_s = settings.jwks_refresh_ms / 1000
        self._now_s = now_s
        self._read_s = now_s()
        self._keys = self._read()

    @property
    def keys(self) -> list[dict[str, Any]]:
        """Return the keys that were read last.

        If they are old, they are read again in a thread, for the next call.
        """
        if self._now_s() - self._read_s > self._refresh_s:
            self._read_s = self._now_s()
            threading.Thread(target=self._refresh, name="ottla-jwks", daemon=True).start()
        return self._keys

    def _refresh(self) -> None:
        try:
            self._keys = self._read()
        except ConfigError as error:
            log.error("the keys in force stay: %s", error)

    def _read(self) -> list[dict[str, Any]]:
        import urllib.request  # here: a start does not need it

        where = f"sasl.oauthbearer.jwks.endpoint.url={self._url}"
        try:
            if self._url.startswith("file:"):
                text = Path(urllib.request.url2pathname(self._url.removeprefix("file:").removeprefix("//")))
                return parse_jwks(text.read_bytes()[:KEYS_BYTES_MAX], where)
            if not self._url.startswith(("https://", "http://")):
                raise ConfigError(f"{where}: it must begin with file:, https: or http:")
            with urllib.request.urlopen(self._url, timeout=FETCH_S) as answer:
                return parse_jwks(answer.read(KEYS_BYTES_MAX), where)
        except OSError as error:
            raise ConfigError(f"{where}: the keys cannot be read: {error}") from None


class TokenLogin:
    """One login. Without keys only tokens without a signature are accepted."""

    def __init__(
        self, settings: OAuthSettings, keys: SigningKeys | None, clock_s: Callable[[], float]
    ) -> None:
        self._expected = Expected(settings.name_claim, settings.issuer, settings.audiences, settings.skew_s)
        self._keys = keys
        self._clock_s = clock_s
        self._is_refused = False

    def next(self, token: bytes) -> SaslStep:
        """Take the token; after a bad one, the client's confirmation."""
        if self._is_refused:
            raise LoginRefused(INVALID)
        match = _MESSAGE.fullmatch(token)
        if match is None:
            raise invalid("OAUTHBEARER")
        try:
            who = self._identity(match[2].decode())
        except TokenRefused as error:
            log.info("a token is refused: %s", error)
            self._is_refused = True
            return SaslStep(INVALID.encode())
        if match[1] and match[1].decode("utf-8", "replace") != who.name:
            raise LoginRefused(
                "Authentication failed: Client requested an authorization id that is different from the "
                "token's principal name"
            )
        return SaslStep(user=who.name, lifetime_ms=max(1, int((who.ends_s - self._clock_s()) * 1000)))

    def _identity(self, text: str) -> TokenIdentity:
        token = parse_token(text)
        if self._keys is None:
            check_unsigned(token)
        else:
            check_signature(token, self._keys.keys)
        return identity(token, self._expected, self._clock_s())
