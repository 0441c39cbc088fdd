"""SASL on one connection, without input or output: which requests are allowed when, and their answers.

    START          ApiVersions and SaslHandshake
    TOKENS         after handshake version 1: SaslAuthenticate
    BARE_TOKENS    after handshake version 0: tokens in frames of their own
    OPEN           logged in: everything, until the session ends; a handshake logs in again (KIP-368)
    AGAIN          as TOKENS, while the old session still counts
    FAILED         nothing

The time is given in seconds of a clock that never goes back, nonces are given too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from ottla.broker.security.mechanisms import Login, LoginRefused, SaslStep, invalid
from ottla.broker.security.principal import ANONYMOUS, USER, Principal
from ottla.broker.settings.security_settings import SaslSettings
from ottla.model.error_codes import Code
from ottla.model.errors import RemoteProtocolError
from ottla.wire.transitions import advance

HANDSHAKE_KEY, VERSIONS_KEY, AUTHENTICATE_KEY = 17, 18, 36
AGAIN_AFTER_S = 1.0
"""A client may log in again at most once in this time, as in Kafka. The first login does not count."""
STEPS_MAX = 10
"""Tokens of one login; SCRAM needs two."""


class SaslState(StrEnum):
    """The states of a login."""

    START = "start"
    TOKENS = "tokens"
    BARE_TOKENS = "bare tokens"
    OPEN = "open"
    AGAIN = "tokens again"
    FAILED = "failed"


class SaslInput(StrEnum):
    """The events of a login."""

    HANDSHAKE = "handshake"
    BARE_HANDSHAKE = "handshake version 0"
    CHALLENGE = "token accepted"
    DONE = "last token accepted"
    REFUSE = "refused"


_ANSWERS = {SaslInput.REFUSE: SaslState.FAILED, SaslInput.DONE: SaslState.OPEN}
TRANSITIONS: Mapping[SaslState, Mapping[SaslInput, SaslState]] = {
    SaslState.START: {
        SaslInput.HANDSHAKE: SaslState.TOKENS,
        SaslInput.BARE_HANDSHAKE: SaslState.BARE_TOKENS,
        SaslInput.REFUSE: SaslState.FAILED,
    },
    SaslState.TOKENS: {SaslInput.CHALLENGE: SaslState.TOKENS, **_ANSWERS},
    SaslState.BARE_TOKENS: {SaslInput.CHALLENGE: SaslState.BARE_TOKENS, **_ANSWERS},
    SaslState.OPEN: {SaslInput.HANDSHAKE: SaslState.AGAIN, SaslInput.REFUSE: SaslState.FAILED},
    SaslState.AGAIN: {SaslInput.CHALLENGE: SaslState.AGAIN, **_ANSWERS},
    SaslState.FAILED: {},
}
ALLOWED: Mapping[SaslState, frozenset[int]] = {
    SaslState.START: frozenset({VERSIONS_KEY, HANDSHAKE_KEY}),
    SaslState.TOKENS: frozenset({AUTHENTICATE_KEY}),
    SaslState.AGAIN: frozenset({AUTHENTICATE_KEY}),
    SaslState.BARE_TOKENS: frozenset(),
    SaslState.FAILED: frozenset(),
}
"""The API keys that a state lets through; OPEN lets everything through while the session lasts."""


class TokenAnswer(NamedTuple):
    """The answer to a token. With an error the connection is closed after it."""

    error: Code = Code.NONE
    text: str | None = None
    token: bytes = b""
    lifetime_ms: int = 0


@dataclass(frozen=True, slots=True)
class Logins:
    """How a listener makes the logins of its mechanisms."""

    settings: SaslSettings
    login: Callable[[str], Login]


class SaslSession:
    """The login of one connection. Owned by the loop. `principal` is the user after the login."""

    def __init__(self, logins: Logins) -> None:
        self._logins = logins
        self.state = SaslState.START
        self.principal: Principal = ANONYMOUS
        self._mechanism = ""
        self._login: Login | None = None
        self._steps = 0
        self._again_s = float("-inf")
        self._ends_s: float | None = None

    @property
    def is_over(self) -> bool:
        """Whether the login failed: nothing more is answered."""
        return self.state is SaslState.FAILED

    def check(self, key: int, now_s: float) -> None:
        """Raise RemoteProtocolError if a request may not be answered now."""
        if self.state is not SaslState.OPEN:
            if key not in ALLOWED[self.state]:
                raise RemoteProtocolError(f"API key {key} is not allowed while the login is: {self.state}")
        elif self._ends_s is not None and now_s > self._ends_s and key != HANDSHAKE_KEY:
            raise RemoteProtocolError(
                f"the session of {self.principal} has ended, and it did not log in again"
            )

    def handshake(self, mechanism: str, version: int, now_s: float) -> Code:
        """Choose a mechanism. After an error the connection is closed, except for ILLEGAL_SASL_STATE."""
        is_again = self.state is SaslState.OPEN
        if is_again and (self._ends_s is None or now_s - self._again_s < AGAIN_AFTER_S or version == 0):
            return Code.ILLEGAL_SASL_STATE
        if mechanism not in self._logins.settings.mechanisms:
            self._advance(SaslInput.REFUSE)
            return Code.UNSUPPORTED_SASL_MECHANISM
        if is_again and mechanism != self._mechanism:
            self._login = None  # the next token is refused, as in Kafka
        else:
            self._login = self._logins.login(mechanism)
            self._mechanism = mechanism
        if is_again:
            self._again_s = now_s
        self._steps = 0
        self._advance(SaslInput.HANDSHAKE if version else SaslInput.BARE_HANDSHAKE)
        return Code.NONE

    def token(self, token: bytes, now_s: float) -> TokenAnswer:
        """Take a token of the client."""
        is_again = self.state is SaslState.AGAIN
        self._steps += 1
        try:
            if self._login is None or self._steps > STEPS_MAX:
                what = "re-authentication" if is_again else "authentication"
                raise invalid(self._mechanism, what)
            step = self._login.next(token)
            if step.user is None:
                self._advance(SaslInput.CHALLENGE)
                return TokenAnswer(token=step.token)
            user = Principal(USER, step.user)
            if is_again and user != self.principal:
                raise LoginRefused(
                    f"Cannot change principals during re-authentication from {self.principal} to {user}"
                )
        except LoginRefused as error:
            self._advance(SaslInput.REFUSE)
            return TokenAnswer(Code.SASL_AUTHENTICATION_FAILED, str(error))
        self.principal = user
        self._advance(SaslInput.DONE)
        self._login = None
        return TokenAnswer(token=step.token, lifetime_ms=self._begin(step, now_s))

    def _begin(self, step: SaslStep, now_s: float) -> int:
        """Begin the session, and return how long it lasts in ms; 0: no limit."""
        limits_ms = (self._logins.settings.reauth_ms.get(self._mechanism, 0), step.lifetime_ms)
        lifetime_ms = min((limit for limit in limits_ms if limit > 0), default=0)
        self._ends_s = now_s + lifetime_ms / 1000 if lifetime_ms else None
        return lifetime_ms

    def _advance(self, what: SaslInput) -> None:
        self.state = advance(TRANSITIONS, self.state, what)
