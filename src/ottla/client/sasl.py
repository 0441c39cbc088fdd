"""SASL without input or output: PLAIN (RFC 4616) and SCRAM (RFC 5802, RFC 7677).

    exchange = sasl_exchange(SaslMechanism.SCRAM_SHA_256, "ann", "secret")
    token = exchange.first()
    while token is not None:
        token = exchange.next(the server's answer to token)

The standard library has what SCRAM is made of, so it needs no package. Names and passwords are not
normalised, as Kafka does not do it either.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
from typing import Protocol

from ottla.client.client_config import SaslMechanism
from ottla.model.errors import AuthenticationFailed

ITERATIONS_MIN = 4096
"""The minimum of RFC 7677 and of Kafka. Fewer would let a false broker guess passwords cheaply."""

ITERATIONS_MAX = 1_000_000
"""About a second of work. A broker that demands more is false, or wants to keep us busy."""

_NONCE_BYTES = 24


class SaslExchange(Protocol):
    """The client side of a SASL mechanism."""

    def first(self) -> bytes:
        """The first token."""

    def next(self, challenge: bytes) -> bytes | None:
        """The answer to a token of the server; None when the login is done. Raises AuthenticationFailed."""


def sasl_exchange(mechanism: SaslMechanism, username: str, password: str) -> SaslExchange:
    """Return the exchange of a mechanism; for OAUTHBEARER the password is the token."""
    if mechanism is SaslMechanism.OAUTHBEARER:
        return TokenExchange(password)
    if mechanism is SaslMechanism.PLAIN:
        return PlainExchange(username, password)
    algorithm = {SaslMechanism.SCRAM_SHA_256: "sha256", SaslMechanism.SCRAM_SHA_512: "sha512"}[mechanism]
    return ScramExchange(algorithm, username, password, nonce=secrets.token_urlsafe(_NONCE_BYTES))


class PlainExchange:
    """Sends the password itself; only TLS hides it."""

    def __init__(self, username: str, password: str) -> None:
        self._token = f"\0{username}\0{password}".encode()

    def first(self) -> bytes:
        """User name and password."""
        return self._token

    def next(self, challenge: bytes) -> bytes | None:  # noqa: ARG002 - the server has nothing to say
        """Return None: the login is done."""
        return None


class TokenExchange:
    """Shows a token (RFC 7628); only TLS hides it."""

    def __init__(self, token: str) -> None:
        self._token = token

    def first(self) -> bytes:
        """The token."""
        return f"n,,\x01auth=Bearer {self._token}\x01\x01".encode()

    def next(self, challenge: bytes) -> bytes | None:
        """Return None if the login is done; after an error of the broker, the message that lets it refuse."""
        return b"\x01" if challenge else None


class SignedExchange:
    """Shows a request that AWS's keys have signed (AWS_MSK_IAM); the broker answers with its request's id."""

    def __init__(self, signed: bytes) -> None:
        self._signed = signed

    def first(self) -> bytes:
        """The signed request, as JSON."""
        return self._signed

    def next(self, challenge: bytes) -> bytes | None:
        """Return None: the login is done."""
        if not challenge:
            raise AuthenticationFailed("the broker did not confirm the signed request")
        return None


class ScramExchange:
    """Both sides prove that they know the password, which is not sent.

    The names of messages are those of RFC 5802: client-first, server-first, client-final, server-final.
    """

    def __init__(self, algorithm: str, username: str, password: str, *, nonce: str) -> None:
        self._algorithm = algorithm
        self._password = password.encode()
        self._nonce = nonce
        escaped = username.replace("=", "=3D").replace(",", "=2C")
        self._client_first_bare = f"n={escaped},r={nonce}"
        self._signature: bytes | None = None  # what the server must answer in the end

    def first(self) -> bytes:
        """client-first: no channel binding, our name, our nonce."""
        return f"n,,{self._client_first_bare}".encode()

    def next(self, challenge: bytes) -> bytes | None:
        """Return client-final after server-first; None after a valid server-final."""
        text = challenge.decode("utf-8", "replace")
        fields = dict(part.split("=", 1) for part in text.split(",") if "=" in part)
        if "e" in fields:
            raise AuthenticationFailed(f"the broker refused the login: {fields['e'][:200]}")
        if self._signature is None:
            return self._final(text, fields)
        if not hmac.compare_digest(_decoded(fields.get("v", "")), self._signature):
            raise AuthenticationFailed(
                "the broker did not prove that it knows our password: it is not who it claims to be"
            )
        return None

    def _final(self, server_first: str, fields: dict[str, str]) -> bytes:
        nonce, salt = fields.get("r", ""), _decoded(fields.get("s", ""))
        count = fields.get("i", "")
        if not nonce.startswith(self._nonce) or len(nonce) == len(self._nonce) or not salt:
            raise AuthenticationFailed("the broker's SCRAM answer does not belong to our request")
        iterations = int(count) if count.isdecimal() and len(count) <= 10 else 0
        if not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
            raise AuthenticationFailed(
                f"the broker asks for {count[:20] or 'no'} SCRAM iterations: "
                f"{ITERATIONS_MIN} to {ITERATIONS_MAX} are accepted; set it again with such a number"
            )
        salted = hashlib.pbkdf2_hmac(self._algorithm, self._password, salt, iterations)
        client_key = self._mac(salted, b"Client Key")
        without_proof = f"c=biws,r={nonce}"
        signed = f"{self._client_first_bare},{server_first},{without_proof}".encode()
        mask = self._mac(hashlib.new(self._algorithm, client_key).digest(), signed)
        proof = bytes(left ^ right for left, right in zip(client_key, mask, strict=True))
        self._signature = self._mac(self._mac(salted, b"Server Key"), signed)
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()

    def _mac(self, key: bytes, data: bytes) -> bytes:
        return hmac.digest(key, data, self._algorithm)


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        return b""
