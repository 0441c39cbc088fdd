"""The broker's side of SASL's mechanisms, without input or output: PLAIN, SCRAM, OAUTHBEARER.

    exchange = ScramLogin(...)
    step = exchange.next(the client's token)      until step.user is the user's name

A token that does not prove who sends it raises `LoginRefused`, whose text the client may see: it never says
whether the user exists.
"""

from __future__ import annotations

import base64
import binascii
import hmac
from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

from ottla.model.errors import OttlaError
from ottla.security.scram import (
    ALGORITHMS,
    ITERATIONS_MIN,
    ScramCredential,
    name_of,
    proof_is_sound,
    server_signature,
)

TOKEN_BYTES_MAX = 1 << 16
"""The longest token of PLAIN and SCRAM. A JWT may be longer; the size of the request is its limit."""


class LoginRefused(OttlaError):
    """A client did not prove who it is. The text is for the client."""


class SaslStep(NamedTuple):
    """What to send.

    When the login is done: the user, and how long the login is valid (`lifetime_ms`, 0: no limit).
    """

    token: bytes = b""
    user: str | None = None
    lifetime_ms: int = 0


class Login(Protocol):
    """The login of one client."""

    def next(self, token: bytes) -> SaslStep:
        """Take the client's next token. Raises LoginRefused."""


FindScram = Callable[[str, str], ScramCredential | None]
"""(mechanism, user) → the credential."""


def invalid(mechanism: str, what: str = "authentication") -> LoginRefused:
    """Return a refusal that does not say more than that."""
    return LoginRefused(
        f"Authentication failed during {what} due to invalid credentials with SASL mechanism {mechanism}"
    )


class PlainLogin:
    """The client sends the password itself (RFC 4616); only TLS hides it."""

    def __init__(self, users: Mapping[str, str]) -> None:
        self._users = users

    def next(self, token: bytes) -> SaslStep:
        """Accept [authorization id] NUL user NUL password."""
        parts = token.split(b"\0")
        if len(token) > TOKEN_BYTES_MAX or len(parts) != 3 or not parts[1] or not parts[2]:
            raise invalid("PLAIN")
        wanted_as, user, password = parts
        try:
            name = user.decode()
        except UnicodeDecodeError:
            raise invalid("PLAIN") from None
        expected = self._users.get(name)
        # Compared in any case, so that the time does not tell whether the user exists.
        is_right = hmac.compare_digest(password, (expected or "").encode())
        if expected is None or not is_right:
            raise LoginRefused("Authentication failed: Invalid username or password")
        if wanted_as not in (b"", user):
            raise LoginRefused(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        return SaslStep(user=name)


class ScramLogin:
    """Both sides prove that they know the password, which is not sent (RFC 5802)."""

    def __init__(self, mechanism: str, find: FindScram, nonce: str) -> None:
        self._mechanism = mechanism
        self._algorithm = ALGORITHMS[mechanism]
        self._find = find
        self._nonce = nonce
        self._user = ""
        self._credential: ScramCredential | None = None
        self._full_nonce = ""
        self._messages = ""  # client-first-bare, server-first

    def next(self, token: bytes) -> SaslStep:
        """Take client-first, then client-final."""
        try:
            text = token.decode()
        except UnicodeDecodeError:
            raise invalid(self._mechanism) from None
        if len(token) > TOKEN_BYTES_MAX:
            raise invalid(self._mechanism)
        return self._final(text) if self._full_nonce else self._first(text)

    def _first(self, text: str) -> SaslStep:
        binding, _, rest = text.partition(",")
        wanted_as, _, bare = rest.partition(",")
        fields = _fields(bare)
        user = name_of(fields.get("n", ""))
        client_nonce = fields.get("r", "")
        if binding != "n" or not user or not client_nonce or not bare.startswith("n="):
            raise invalid(self._mechanism)
        if wanted_as not in ("", f"a={fields['n']}"):
            raise LoginRefused(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        credential = self._find(self._mechanism, user)
        self._user, self._credential = user, credential
        self._full_nonce = client_nonce + self._nonce
        if credential is None:
            # The answer is the same as for a user that exists: only the last step fails, without saying why.
            salt, iterations = hmac.digest(self._nonce.encode(), user.encode(), "sha256"), ITERATIONS_MIN
        else:
            salt, iterations = credential.salt, credential.iterations
        server_first = f"r={self._full_nonce},s={base64.b64encode(salt).decode()},i={iterations}"
        self._messages = f"{bare},{server_first}"
        return SaslStep(server_first.encode())

    def _final(self, text: str) -> SaslStep:
        without_proof, separator, proof_text = text.rpartition(",p=")
        fields = _fields(without_proof)
        try:
            proof = base64.b64decode(proof_text, validate=True)
        except binascii.Error:
            raise invalid(self._mechanism) from None
        if not separator or fields.get("r") != self._full_nonce or fields.get("c") != "biws":
            raise invalid(self._mechanism)
        signed = f"{self._messages},{without_proof}".encode()
        known = self._credential
        if known is None or not proof_is_sound(self._algorithm, known, signed, proof):
            raise invalid(self._mechanism)
        signature = server_signature(self._algorithm, known, signed)
        return SaslStep(b"v=" + base64.b64encode(signature), self._user)


def _fields(text: str) -> dict[str, str]:
    fields: dict[str, str] = {}
    for part in text.split(","):
        name, _, value = part.partition("=")
        fields.setdefault(name, value)
    return fields
