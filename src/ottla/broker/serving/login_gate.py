"""Which frames of a connection are accepted, if its listener needs a login.

Before the login only ApiVersions and SASL are answered, requests are small, and there is little time. A login
that fails is answered after a delay, and then the connection is closed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from ottla.broker.security.principal import Principal
from ottla.broker.security.sasl_session import SaslSession, SaslState, TokenAnswer
from ottla.broker.security.unauthenticated import UNAUTHENTICATED_BYTES_MAX, UnauthenticatedPeers
from ottla.broker.settings.security_settings import SaslSettings
from ottla.model.errors import OttlaError, RemoteProtocolError
from ottla.wire.primitives import Buffer
from ottla.wire.server_connection import ShortCut

LOGIN_S = 30.0
"""How long a client may take from its connection to the end of its login."""
_KEY_BYTES = 2
_LIMIT = f" (all together {UNAUTHENTICATED_BYTES_MAX >> 20} MB at most)"


class GuardedConnection(Protocol):
    """The connection that the gate guards."""

    principal: Principal

    def finish(self, sequence: int, answer: Buffer) -> None:
        """Answer a call."""

    def drop(self, error: OttlaError) -> None:
        """Close, and log why."""

    def close(self) -> None:
        """Close."""

    def admit(self) -> None:
        """Note that the client has logged in: its requests may be as large as those of others."""


class LoginGate:
    """The gate of one connection. Owned by the loop."""

    def __init__(
        self,
        session: SaslSession,
        settings: SaslSettings,
        unauthenticated: UnauthenticatedPeers,
        lane: ShortCut,
        connection: GuardedConnection,
    ) -> None:
        self.session = session
        self.settings = settings
        self._unauthenticated = unauthenticated
        self._lane = lane
        self._connection = connection
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = self._loop.call_later(LOGIN_S, self._too_late)

    def take(self, frame: memoryview, sequence: int) -> bool:
        """Let a frame in (False, or by the lane), or answer it if it is a bare token.

        Raises RemoteProtocolError for one that may not be answered now.
        """
        session = self.session
        if session.state is SaslState.BARE_TOKENS:
            self._take_bare(frame, sequence)
            return True
        session.check(int.from_bytes(frame[:_KEY_BYTES], "big"), self._loop.time())
        return session.state is SaslState.OPEN and self._lane(frame, sequence)

    def token(self, token: bytes) -> TokenAnswer:
        """Take a token of the client."""
        answer = self.session.token(token, self._loop.time())
        if self.session.state is SaslState.OPEN:
            self._connection.principal = self.session.principal
            self._connection.admit()
            self.forget()
        return answer

    def after_delay(self, close: Callable[[], None]) -> None:
        """Answer a failed login and close, after a delay that makes guessing slow."""
        self.forget()
        self._timer = self._loop.call_later(self.settings.failure_delay_ms / 1000, close)

    def holds(self, size: int) -> None:
        """Note that the connection has a buffer of this size for its requests."""
        if self._timer is not None:
            self._unauthenticated.hold(self, size)

    def turn_away(self) -> None:
        """Close: peers that have not logged in hold too much memory, and this one the most."""
        self._connection.drop(RemoteProtocolError(f"it holds too much before its login{_LIMIT}"))

    def forget(self) -> None:
        """End the timer: the login is done, or the connection is gone."""
        self._unauthenticated.forget(self)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _take_bare(self, frame: memoryview, sequence: int) -> None:
        answer = self.token(bytes(frame))
        if answer.error:
            self.after_delay(self._connection.close)
            return
        data = len(answer.token).to_bytes(4, "big") + answer.token
        self._loop.call_soon(self._connection.finish, sequence, data)  # the call counts after `take` returns

    def _too_late(self) -> None:
        self._timer = None
        self._connection.drop(RemoteProtocolError(f"it did not log in within {LOGIN_S:.0f} s"))
