"""One connection to a broker: blocking, owned by one thread, pipelined.

    connection = Connection.open(Address("kafka", 9092), config)
    connection.send(fetch); connection.send(fetch)                # does not wait for responses
    connection.receive().message; connection.receive().message    # responses, in the order of the requests

A broker answers in order, so the caller matches responses to requests by counting. `call` sends one request,
with nothing else in flight, and returns its response. A connection that breaks, gets a wrong response, or
times out in `call` is closed: open another one.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple, Self, TypeVar, cast

from ottla.client.client_config import ClientConfig
from ottla.client.clock import MONOTONIC, Clock, Deadline
from ottla.client.interruption import Interruption
from ottla.client.link import Link
from ottla.client.network_errors import NetworkErrors, broker
from ottla.client.opening import Opened, Opener
from ottla.client.peer_state import PeerState
from ottla.client.version_discovery import unanswered
from ottla.client.version_memory import VersionMemory
from ottla.model.address import Address
from ottla.model.closing import Closing
from ottla.model.errors import ConnectionLost, LocalProtocolError, OttlaError, RequestTimedOut
from ottla.wire.client_connection import ReceivedResponse
from ottla.wire.exchange import expects_response
from ottla.wire.frames import Allocator
from ottla.wire.schema import Api, Request, Response
from ottla.wire.versions import PeerVersions

R = TypeVar("R", bound=Response)


class Sent(NamedTuple):
    """A request that was sent."""

    correlation_id: int
    api: Api
    version: int
    expects_response: bool


class Connection(Closing):
    """Made by `open`. Belongs to one thread; others may only call `interrupt`."""

    def __init__(
        self, opener: Opener, opened: Opened, errors: NetworkErrors, *, owns_interruption: bool
    ) -> None:
        self._address, self._broker_id = opener.address, opener.broker_id
        self._link: Link = opened.link
        self._config = opener.config
        self._clock = opener.clock
        self._interruption = opener.interruption
        self._owns_interruption = owns_interruption
        self._request_timeout_ms = opener.config.request_timeout_ms
        self._answers_at_opening = opened.link.answers
        self._state = PeerState(
            opened.link.peer,
            opener.broker_id,
            opened.versions,
            errors,
            opener.clock.now_ms,
            opened.session_lifetime_ms,
        )

    @classmethod
    def open(
        cls,
        address: Address,
        config: ClientConfig,
        *,
        broker_id: int | None = None,
        allocate: Allocator = bytearray,
        interruption: Interruption | None = None,
        clock: Clock = MONOTONIC,
        memory: VersionMemory | None = None,
        errors: NetworkErrors | None = None,
        deadline: Deadline | None = None,
    ) -> Self:
        """Connect, with TLS and SASL if the config says so, and learn the broker's versions.

        `broker_id`: the address comes from the cluster's metadata, and errors say so. `allocate` returns
        memory to receive into. An `interruption` may be shared by all connections of a thread; without it
        the connection has its own. A `memory` saves probing old brokers again. `errors` gets the failures of
        a broker with an id, and what is due from it. A `deadline` limits all of it; without one, each step
        has the time that the settings give it.

        Raises BrokerUnreachable, AuthenticationFailed, RemoteProtocolError (no Kafka broker), ConnectionLost
        (interrupted).
        """
        opener = Opener(
            address=address,
            config=config,
            broker_id=broker_id,
            allocate=allocate,
            interruption=interruption or Interruption(),
            clock=clock,
            memory=memory or VersionMemory(),
            deadline=deadline or Deadline(clock, None),
        )
        errors = errors or NetworkErrors(clock.now_ms)
        began_ms = clock.now_ms()
        errors.due_from(opener.peer)
        try:
            opened = opener.open()
        except BaseException as error:
            if isinstance(error, OttlaError):
                _report(opener, errors, error, began_ms)
            if interruption is None:
                opener.interruption.close()
            raise
        finally:
            errors.not_due_from(opener.peer)
        opened.link.on_failure = partial(_failed, opener, opened.link, errors)
        return cls(opener, opened, errors, owns_interruption=interruption is None)

    def _answered(self, answer: ReceivedResponse) -> ReceivedResponse:
        return self._state.answered(answer, self._link.in_flight_count)

    def _wait_if_throttled(self) -> None:
        """Wait as long as the last response asks for: the broker reads nothing meanwhile (KIP-219)."""
        wait_ms = self._state.pause_ms()
        if wait_ms:
            self._clock.pause(wait_ms, self._interruption.event)
            self._interruption.check()

    @property
    def address(self) -> Address:
        """The address of the broker."""
        return self._address

    @property
    def broker_id(self) -> int | None:
        """The broker's id; None if the connection was opened by address only."""
        return self._broker_id

    @property
    def versions(self) -> PeerVersions:
        """The versions that the broker speaks."""
        return self._state.versions

    @property
    def is_open(self) -> bool:
        """Whether requests can be sent. That a broker has gone is only noticed by the next call."""
        return not self._link.why_closed

    @property
    def in_flight_count(self) -> int:
        """Number of requests whose responses have not been received."""
        return self._link.in_flight_count

    def is_usable(self) -> bool:
        """Whether it is open, the broker has not closed it, and the login is valid. Does not wait.

        With requests in flight, only whether it is open: receiving their responses shows the rest.
        """
        if not self.is_open or self.in_flight_count:
            return self.is_open
        if self._state.is_session_over:
            return False
        try:
            self._link.poll()
        except OttlaError:
            return False
        return True

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
    ) -> Sent:
        """Send a request, after a pause if the broker has asked for one, and do not wait for its response.

        Sent in `version`, or in the highest common version up to `at_most`. The broker may hold the response
        back for `kept_ms`: a long poll, or a join that waits for other members. Raises LocalProtocolError
        (nothing was sent, the connection is as before), ConnectionLost, RequestTimedOut (the broker accepts
        nothing; the connection is closed).
        """
        if version is None:
            version = self.version_for(request.API, at_most=at_most)
        self._wait_if_throttled()
        outgoing = self._link.send(request, version, self._request_timeout_ms)
        if outgoing.expects_response:
            self._state.sent(self._link.in_flight_count, kept_ms)
        exchange = outgoing.exchange
        return Sent(exchange.correlation_id, exchange.api, exchange.version, outgoing.expects_response)

    def receive(self, timeout_ms: float | None = None) -> ReceivedResponse:
        """The next response; `timeout_ms=None` means request.timeout.ms.

        Raises RequestTimedOut: the connection stays open, and the response may still come. Raises
        ConnectionLost or RemoteProtocolError: the connection is closed, unless it was interrupted. Record
        sets are views of the received memory, not copies.
        """
        try:
            return self._answered(
                self._link.receive(self._request_timeout_ms if timeout_ms is None else timeout_ms)
            )
        except RequestTimedOut as error:
            self._link.on_failure(error)
            raise
        except ConnectionLost as error:
            raise self._explained(error) from error.__cause__

    def poll(self) -> ReceivedResponse | None:
        """The next response if it has arrived, else None; never waits. Call it until it returns None."""
        try:
            answer = self._link.poll()
            return self._answered(answer) if answer is not None else None
        except ConnectionLost as error:
            raise self._explained(error) from error.__cause__

    def call(
        self,
        request: Request[R],
        *,
        version: int | None = None,
        at_most: int | None = None,
        timeout_ms: float | None = None,
        kept_ms: float = 0.0,
    ) -> R:
        """Send a request and wait for its response; nothing may be in flight.

        A timeout or Ctrl-C closes the connection.
        """
        if not expects_response(request):
            raise LocalProtocolError(f"{request.API.name} has no answer (acks=0): send it, do not call it")
        if self.in_flight_count and self.is_open:
            raise LocalProtocolError(
                f"{self._link.peer}: {self.in_flight_count} answers are due before that of "
                f"{request.API.name}; receive them first"
            )
        self.send(request, version=version, at_most=at_most, kept_ms=kept_ms)
        try:
            return cast(R, self.receive(timeout_ms).message)
        # A timeout or Ctrl-C: the late answer would be taken for that of the next request.
        except BaseException as error:
            if self.is_open:
                self._link.close(str(error) or type(error).__name__)
            raise

    def _explained(self, error: ConnectionLost) -> ConnectionLost:
        """Return the error with a hint at SASL: such a listener answers ApiVersions, and closes at the next
        request.
        """
        security = self._config.security.protocol
        if self._link.answers > self._answers_at_opening or security.has_sasl or self._interruption.is_set:
            return error
        return unanswered(error, security)

    def fileno(self) -> int:
        """The descriptor for select and poll; -1 when the connection is closed."""
        return self._link.fileno()

    def interrupt(self) -> None:
        """Make the owner, if it waits, raise ConnectionLost at once. From any thread.

        This concerns all connections that share the interruption.
        """
        self._interruption.interrupt()

    def close(self) -> None:
        """To be called by the owner. Responses in flight are lost. May be called twice."""
        self._link.close()
        self._state.ended()
        if self._owns_interruption:
            self._interruption.close()


def _failed(opener: Opener, link: Link, errors: NetworkErrors, error: OttlaError) -> None:
    """Report a broken connection or a late answer, unless no answer was due."""
    opener.memory.forget(opener.address)
    errors.not_due_from(opener.peer)
    if link.in_flight_count or not isinstance(error, ConnectionLost):
        _report(opener, errors, error)


def _report(opener: Opener, errors: NetworkErrors, error: OttlaError, since_ms: float | None = None) -> None:
    if opener.broker_id is not None and not opener.interruption.is_set:
        errors.failed(broker(opener.broker_id), error, since_ms)
