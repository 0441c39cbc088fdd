"""PeerState: what a connection knows about its broker. Both drivers use it.

The versions that the broker speaks, until when a login is valid, how long it wants no requests, and which
answers are due.
"""

from __future__ import annotations

from collections.abc import Callable

from ottla.client.network_errors import NetworkErrors, broker
from ottla.model.errors import LocalProtocolError, OttlaError
from ottla.wire.client_connection import ReceivedResponse
from ottla.wire.schema import Api
from ottla.wire.versions import PeerVersions

SESSION_SHARE = 0.85
"""The share of a login's lifetime in which requests are sent; the rest is for their responses."""

THROTTLE_MS_MAX = 300_000.0
"""The longest pause that a broker can ask for."""


class PeerState:
    """The state of one connection. `peer` is the broker's name for messages."""

    def __init__(
        self,
        peer: str,
        broker_id: int | None,
        versions: PeerVersions,
        errors: NetworkErrors,
        now_ms: Callable[[], float],
        session_lifetime_ms: float,
    ) -> None:
        self.versions = versions
        self._peer = peer
        self._subject = "" if broker_id is None else broker(broker_id)
        self._errors = errors
        self._now_ms = now_ms
        self._chosen: dict[tuple[int, int | None], int] = {}  # API key, at_most → version
        self._not_before_ms = 0.0  # the broker has asked for a pause: a quota is used up
        lifetime_ms = session_lifetime_ms * SESSION_SHARE
        self._session_ends_ms = now_ms() + lifetime_ms if lifetime_ms else None

    def version_for(self, api: Api, at_most: int | None) -> int:
        """The version in which an API is called. Raises LocalProtocolError if there is none in common."""
        key = (api.key, at_most)
        version = self._chosen.get(key)
        if version is None:
            try:
                version = self._chosen[key] = self.versions.version_for(api, at_most=at_most)
            except LocalProtocolError as error:
                raise LocalProtocolError(f"{self._peer}: {error}") from error
        return version

    @property
    def is_session_over(self) -> bool:
        """Whether the login is not valid any more."""
        return self._session_ends_ms is not None and self._now_ms() >= self._session_ends_ms

    def pause_ms(self) -> float:
        """How long to wait before the next request: the broker reads nothing meanwhile (KIP-219)."""
        if not self._not_before_ms:
            return 0.0
        wait_ms = self._not_before_ms - self._now_ms()
        if wait_ms <= 0:
            self._not_before_ms = wait_ms = 0.0
        return wait_ms

    def sent(self, in_flight_count: int, kept_ms: float) -> None:
        """Note that a request was sent.

        Its answer is due now, or after `kept_ms` if the broker may hold it back.
        """
        if in_flight_count == 1:
            self._errors.due_from(self._peer, kept_ms)

    def answered(self, answer: ReceivedResponse, in_flight_count: int) -> ReceivedResponse:
        """Note that an answer arrived, with `in_flight_count` more due; returns the answer."""
        if in_flight_count:
            self._errors.due_from(self._peer)
        else:
            self._errors.not_due_from(self._peer)
        if self._subject:
            self._errors.answered(self._subject)
        throttle_ms = getattr(answer.message, "throttle_time_ms", 0)
        if throttle_ms > 0:
            self._not_before_ms = self._now_ms() + min(throttle_ms, THROTTLE_MS_MAX)
        return answer

    def ended(self) -> None:
        """Note that no answer is due any more."""
        self._errors.not_due_from(self._peer)

    def failed(self, error: OttlaError) -> None:
        """Note that the connection broke with this error."""
        self.ended()
        if self._subject:
            self._errors.failed(self._subject, error)
