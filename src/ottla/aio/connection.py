"""One connection to a broker on an event loop: pipelined, shared by all coroutines of a client.

    connection = await LoopConnection.open(Address("kafka", 9092), config)
    response = await connection.call(request)

A broker answers in order, so answers belong to the oldest request. If a coroutine is cancelled while it
waits, its answer is dropped when it arrives. Until then the connection is not used for new calls, which would
wait for that answer too. A call that times out closes the connection.
"""

from __future__ import annotations

import asyncio
from typing import Any, Self, TypeVar, cast

from ottla.aio.link import LoopLink
from ottla.aio.opening import LoopOpener
from ottla.client.client_config import ClientConfig
from ottla.client.clock import MONOTONIC, Deadline
from ottla.client.network_errors import NetworkErrors, broker
from ottla.client.peer_state import PeerState
from ottla.client.version_discovery import unanswered
from ottla.client.version_memory import VersionMemory
from ottla.model.address import Address
from ottla.model.errors import ConnectionLost, LocalProtocolError, OttlaError, RequestTimedOut
from ottla.wire.client_connection import ReceivedResponse
from ottla.wire.exchange import expects_response
from ottla.wire.frames import Allocator
from ottla.wire.schema import Api, Request, Response
from ottla.wire.versions import PeerVersions

R = TypeVar("R", bound=Response)


class LoopConnection:
    """Made by `open`: a link that is logged in and knows the versions of the broker."""

    def __init__(
        self,
        link: LoopLink,
        address: Address,
        broker_id: int | None,
        config: ClientConfig,
        errors: NetworkErrors,
        versions: PeerVersions,
        lifetime_ms: float,
    ) -> None:
        self.address = address
        self.broker_id = broker_id
        self._link = link
        self._config = config
        self._state = PeerState(link.peer, broker_id, versions, errors, MONOTONIC.now_ms, lifetime_ms)
        self._answers_at_opening = link.answers
        self._is_closed = False

    @classmethod
    async def open(
        cls,
        address: Address,
        config: ClientConfig,
        *,
        broker_id: int | None = None,
        allocate: Allocator = bytearray,
        memory: VersionMemory | None = None,
        errors: NetworkErrors | None = None,
        deadline: Deadline | None = None,
    ) -> Self:
        """Connect, with TLS and SASL if the config says so, and learn the broker's versions.

        Raises BrokerUnreachable, AuthenticationFailed, RemoteProtocolError, ConnectionLost.
        """
        memory = memory or VersionMemory()
        errors = errors or NetworkErrors(MONOTONIC.now_ms)
        opener = LoopOpener(address, config, broker_id, allocate, deadline or Deadline(MONOTONIC, None))
        began_ms = MONOTONIC.now_ms()
        errors.due_from(opener.peer)
        try:
            link, versions, lifetime_ms = await opener.open(memory)
        except OttlaError as error:
            if broker_id is not None:
                errors.failed(broker(broker_id), error, began_ms)
            raise
        finally:
            errors.not_due_from(opener.peer)
        memory.keep(address, versions)
        return cls(link, address, broker_id, config, errors, versions, lifetime_ms)

    @property
    def versions(self) -> PeerVersions:
        """The versions that the broker speaks."""
        return self._state.versions

    @property
    def is_open(self) -> bool:
        """Whether requests can be sent."""
        return self._link.failure is None

    @property
    def in_flight_count(self) -> int:
        """Number of requests whose answers have not come."""
        return self._link.in_flight_count

    def is_usable(self) -> bool:
        """Whether it is open, the login is valid, and no answer is due whose coroutine was cancelled."""
        return self.is_open and not self._state.is_session_over and not self._link.is_abandoned

    def version_for(self, api: Api, *, at_most: int | None = None) -> int:
        """The version in which an API is called. Raises LocalProtocolError if there is none in common."""
        return self._state.version_for(api, at_most)

    def send(
        self,
        request: Request[Any],
        *,
        version: int | None = None,
        at_most: int | None = None,
        kept_ms: float = 0.0,
    ) -> asyncio.Future[ReceivedResponse] | None:
        """Write a request. Returns a future for `answer`; None if there is no answer (acks=0).

        The broker may hold the answer back for `kept_ms`: a long poll, a join. Raises LocalProtocolError,
        ConnectionLost.
        """
        if version is None:
            version = self.version_for(request.API, at_most=at_most)
        due = self._link.send(request, version)
        if due is not None:
            self._state.sent(self._link.in_flight_count, kept_ms)
        return due

    async def answer(
        self, due: asyncio.Future[ReceivedResponse], timeout_ms: float | None = None
    ) -> ReceivedResponse:
        """Wait for an answer, request.timeout.ms by default.

        Raises RequestTimedOut, ConnectionLost or RemoteProtocolError: the connection is closed then.
        """
        limit_ms = self._config.request_timeout_ms if timeout_ms is None else timeout_ms
        try:
            await self._link.within(due, limit_ms)
        except RequestTimedOut as error:
            raise self._failed(error) from None
        except OttlaError:
            pass  # `taken` raises it
        return self.taken(due)

    def taken(self, due: asyncio.Future[ReceivedResponse]) -> ReceivedResponse:
        """Return the answer that has arrived. Raises what broke the connection."""
        try:
            answer = due.result()
        except OttlaError as error:
            raise self._failed(self._explained(error)) from error.__cause__
        return self._state.answered(answer, self._link.in_flight_count)

    async def unthrottled(self) -> None:
        """Wait as long as the last response asks for: the broker reads nothing meanwhile (KIP-219)."""
        wait_ms = self._state.pause_ms()
        if wait_ms > 0:
            await asyncio.sleep(wait_ms / 1000)

    def _failed(self, error: OttlaError) -> OttlaError:
        self._link.fail(error)
        self._state.failed(error)
        return error

    async def call(
        self,
        request: Request[R],
        *,
        version: int | None = None,
        at_most: int | None = None,
        timeout_ms: float | None = None,
        kept_ms: float = 0.0,
    ) -> R:
        """Send a request and wait for its response."""
        if not expects_response(request):
            raise LocalProtocolError(f"{request.API.name} has no answer (acks=0): send it, do not call it")
        await self.unthrottled()
        due = self.send(request, version=version, at_most=at_most, kept_ms=kept_ms)
        assert due is not None
        return cast(R, (await self.answer(due, timeout_ms)).message)

    def _explained(self, error: OttlaError) -> OttlaError:
        security = self._config.security.protocol
        is_first = self._link.answers == self._answers_at_opening
        if not is_first or self._is_closed or security.has_sasl or type(error) is not ConnectionLost:
            return error
        return unanswered(error, security)

    async def retire(self) -> None:
        """Close it when no coroutine waits for an answer any more."""
        try:
            await self._link.answered()
        finally:
            await self.close()

    async def close(self) -> None:
        """Close the connection; answers in flight are lost. May be called twice."""
        self._is_closed = True
        self._link.fail(ConnectionLost(f"{self._link.peer}: this client is being closed"))
        self._state.ended()
        await self._link.wait_closed()
