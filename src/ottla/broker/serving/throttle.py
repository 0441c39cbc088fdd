"""The quotas of one connection: answers say how long the client should wait, and it is not read meanwhile.

As in Kafka (KIP-219) an answer is not delayed. A fetch that would be too much is answered without records.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop, TimerHandle
from collections.abc import Callable
from time import perf_counter
from typing import Any, Protocol, cast

from ottla.broker.security.principal import Principal
from ottla.broker.serving.client_quotas import FETCH, MUTATIONS, PRODUCE, REQUEST, ClientQuotas
from ottla.broker.serving.fetch_sessions import FINAL_EPOCH, FIRST_EPOCH, NO_SESSION, FetchSessions
from ottla.wire.api.fetch import FetchRequest, FetchResponse
from ottla.wire.api.produce import ProduceRequest
from ottla.wire.schema import Response
from ottla.wire.server_connection import ReceivedRequest

PERCENT = 100.0
_EXEMPT = {17, 18, 36}
"""SaslHandshake, ApiVersions and SaslAuthenticate: a client must be able to log in."""


class ThrottledConnection(Protocol):
    """The connection to mute: `flush` serves what has arrived meanwhile."""

    principal: Principal

    def flush(self) -> None:
        """Write what is ready, and serve calls that waited for that."""

    def update_reading(self) -> None:
        """Read from the peer, or stop reading, as things are now."""

    def close(self) -> None:
        """Close after what is ready has been written."""


class Throttle:
    """Owned by the loop."""

    __slots__ = ("_began", "_connection", "_loop", "_quotas", "_sessions", "_timer", "is_muted")

    def __init__(
        self,
        quotas: ClientQuotas,
        sessions: FetchSessions,
        loop: AbstractEventLoop,
        connection: ThrottledConnection,
    ) -> None:
        self._quotas = quotas
        self._sessions = sessions
        self._loop = loop
        self._connection = connection
        self._began = 0.0
        self._timer: TimerHandle | None = None
        self.is_muted = False

    def begin(self) -> None:
        """Note that a call is handled from now on."""
        self._began = perf_counter()

    def settled(self, call: ReceivedRequest, response: Response) -> Response:
        """Count an answer, and return the answer to send.

        If the client used too much, the connection is muted.
        """
        limits = self._quotas.limits
        if not limits.has_clients or call.api.key in _EXEMPT:
            return response
        now_ms = self._loop.time() * 1000
        waits = {REQUEST: self._used(REQUEST, call, self._spent_percent(), now_ms)}
        waits[MUTATIONS] = getattr(response, "throttle_time_ms", 0)  # set by handlers that change partitions
        size = 0
        if call.api.key == ProduceRequest.API.key:
            waits[PRODUCE] = self._used(PRODUCE, call, len(call.frame), now_ms)
        elif isinstance(response, FetchResponse):
            size = _size(response)
            waits[FETCH] = self._used(FETCH, call, size, now_ms)
        name = max(waits, key=lambda quota: waits[quota])
        if not waits[name]:
            return response
        if isinstance(response, FetchResponse):
            self._take_back(call, size, now_ms)
            response = self._emptied(cast(FetchRequest, call.message), response)
        if hasattr(response, "throttle_time_ms"):
            response.throttle_time_ms = waits[name]
        self._quotas.count(name, waits[name])
        self.mute(waits[name], self._connection.flush)
        return response

    def pause(self, call: ReceivedRequest) -> None:
        """Count the time of a call whose handler has returned without an answer."""
        if self._quotas.limits.is_set(REQUEST):
            self._used(REQUEST, call, self._spent_percent(), self._loop.time() * 1000)

    def mute(self, wait_ms: int, then: Callable[[], None]) -> None:
        """Read nothing for `wait_ms`, then continue."""
        end = self._loop.time() + wait_ms / 1000
        if self._timer is not None:
            end = max(end, self._timer.when())
            self._timer.cancel()
        self.is_muted = True
        self._timer = self._loop.call_at(end, self._unmute, then)
        self._connection.update_reading()

    def _unmute(self, then: Callable[[], None]) -> None:
        self._timer, self.is_muted = None, False
        then()

    def end(self) -> None:
        """The connection is gone."""
        if self._timer is not None:
            self._timer.cancel()

    def _used(self, name: str, call: ReceivedRequest, value: float, now_ms: float) -> int:
        if not self._quotas.limits.is_set(name):
            return 0
        quota = self._quotas.applied(name, self._connection.principal.name, call.client_id or "")
        return 0 if quota is None else self._quotas.record(name, quota, value, now_ms)

    def _take_back(self, call: ReceivedRequest, size: int, now_ms: float) -> None:
        quota = self._quotas.applied(FETCH, self._connection.principal.name, call.client_id or "")
        if quota is not None:
            self._quotas.take_back(FETCH, quota, size, now_ms)

    def _spent_percent(self) -> float:
        """The time since the call was begun, or counted last, as a percentage of a second."""
        now = perf_counter()
        spent, self._began = now - (self._began or now), 0.0
        return spent * PERCENT

    def _emptied(self, request: FetchRequest, response: FetchResponse) -> FetchResponse:
        """Return the answer without records, and without a new session: the client asks for
        everything again.
        """
        session_id = response.session_id
        if request.session_epoch in (FIRST_EPOCH, FINAL_EPOCH):
            self._sessions.drop(session_id)
            session_id = NO_SESSION
        return FetchResponse(session_id=session_id)


def _size(response: FetchResponse) -> int:
    """The bytes of an answer, without the few of its frame."""
    sizes: list[Any] = [answer.records for topic in response.responses for answer in topic.partitions]
    return sum(len(records or b"") for records in sizes)
