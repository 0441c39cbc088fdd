"""One connection to a broker: blocking, owned by one thread, pipelined.

    connection = Connection.open(Address("kafka", 9092), config)
    connection.send(fetch); connection.send(fetch)            # leaves at once, nobody waits
    connection.receive().message; connection.receive().message    # answers, in the order of the requests

A broker answers in order, so answers need no ids: whoever sends counts. `call` is one question with nothing
else in flight. A connection that lost step, timed out in a `call`, or broke is closed; open another.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any, NamedTuple, Self, TypeVar, cast

from ottla.client.clock import MONOTONIC, Clock
from ottla.client.config import ClientConfig
from ottla.client.interruption import Interruption
from ottla.client.link import Link
from ottla.client.opening import Opened, Opener
from ottla.client.version_memory import VersionMemory
from ottla.model.address import Address
from ottla.model.errors import ConnectionLost, LocalProtocolError, OttlaError
from ottla.wire.client_connection import Answer
from ottla.wire.exchange import expects_response
from ottla.wire.frames import Allocator
from ottla.wire.schema import Api, Request, Response
from ottla.wire.versions import PeerVersions

R = TypeVar("R", bound=Response)

SESSION_SHARE = 0.85
"""How much of a login's lifetime a connection is used for: the rest is for answers that are due."""


class Sent(NamedTuple):
    """A request that is on its way."""

    correlation_id: int
    api: Api
    version: int
    expects_response: bool


class Connection:
    """Made by `open`. Only `interrupt` may be called by other threads than the owner."""

    def __init__(self, opener: Opener, opened: Opened, *, owns_interruption: bool) -> None:
        self._address, self._broker_id = opener.address, opener.broker_id
        self._link: Link = opened.link
        self._versions = opened.versions
        self._config = opener.config
        self._clock = opener.clock
        self._interruption = opener.interruption
        self._owns_interruption = owns_interruption
        self._request_timeout_ms = opener.config.request_timeout_ms
        self._chosen: dict[tuple[int, int | None], int] = {}  # API key, at_most → version
        self._answers_at_opening = opened.link.answers
        lifetime_ms = opened.session_lifetime_ms * SESSION_SHARE
        self._session_ends_ms = self._clock.now_ms() + lifetime_ms if lifetime_ms else None

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
    ) -> Self:
        """Connect, with TLS and SASL if the config asks for them, and learn the broker's versions.

        `broker_id`: the address comes from the cluster's metadata, and an error says so. `allocate` gives
        the memory that answers are received into. An `interruption` may be shared by all connections of a
        thread; without one the connection has its own. A `memory` saves asking brokers that cannot tell.

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
        )
        try:
            opened = opener.open()
        except BaseException:
            if interruption is None:
                opener.interruption.close()
            raise
        opened.link.on_failure = lambda: opener.memory.forget(address)
        return cls(opener, opened, owns_interruption=interruption is None)

    @property
    def address(self) -> Address:
        """Whom it was opened to."""
        return self._address

    @property
    def broker_id(self) -> int | None:
        """The broker's id, if it was opened by one."""
        return self._broker_id

    @property
    def versions(self) -> PeerVersions:
        """What the broker speaks."""
        return self._versions

    @property
    def is_open(self) -> bool:
        """Whether requests can be sent. A broker that has just gone away is noticed by the next use."""
        return not self._link.why_closed

    @property
    def in_flight_count(self) -> int:
        """Requests whose answers have not been received."""
        return self._link.in_flight_count

    def is_usable(self) -> bool:
        """Whether it is open, the broker has not hung up, and the login lasts; looks, and does not wait.

        With answers due, only whether it is open: the owner finds the rest out by receiving them.
        """
        if not self.is_open or self.in_flight_count:
            return self.is_open
        if self._session_ends_ms is not None and self._clock.now_ms() >= self._session_ends_ms:
            return False
        try:
            self._link.poll()
        except OttlaError:
            return False
        return True

    def version_for(self, api: Api, *, at_most: int | None = None) -> int:
        """The version in which an API is called. Raises LocalProtocolError if there is none in common."""
        key = (api.key, at_most)
        version = self._chosen.get(key)
        if version is None:
            version = self._chosen[key] = self._versions.version_for(api, at_most=at_most)
        return version

    def send(self, request: Request[Any], *, version: int | None = None, at_most: int | None = None) -> Sent:
        """Send a request and do not wait for its answer.

        It goes out in `version`, or in the highest common one, not above `at_most`. Raises LocalProtocolError
        (nothing was sent, the connection is as before), ConnectionLost, RequestTimedOut (the broker takes
        nothing; the connection is closed).
        """
        if version is None:
            version = self.version_for(request.API, at_most=at_most)
        outgoing = self._link.send(request, version, self._request_timeout_ms)
        exchange = outgoing.exchange
        return Sent(exchange.correlation_id, exchange.api, exchange.version, outgoing.expects_response)

    def receive(self, timeout_ms: float | None = None) -> Answer:
        """The next answer; `timeout_ms` None is request.timeout.ms.

        Raises RequestTimedOut: the connection stays open and the answer may come yet. Raises ConnectionLost
        or RemoteProtocolError: it is closed. Record sets are views of the received memory, not copies.
        """
        try:
            return self._link.receive(self._request_timeout_ms if timeout_ms is None else timeout_ms)
        except ConnectionLost as error:
            raise self._explained(error) from error.__cause__

    def poll(self) -> Answer | None:
        """The next answer if it has arrived; never waits. Call it until None when `fileno` is readable."""
        try:
            return self._link.poll()
        except ConnectionLost as error:
            raise self._explained(error) from error.__cause__

    def call(
        self,
        request: Request[R],
        *,
        version: int | None = None,
        at_most: int | None = None,
        timeout_ms: float | None = None,
    ) -> R:
        """Send, and wait for the answer; nothing may be in flight. A timeout or Ctrl-C closes it."""
        if not expects_response(request):
            raise LocalProtocolError(f"{request.API.name} has no answer (acks=0): send it, do not call it")
        if self.in_flight_count and self.is_open:
            raise LocalProtocolError(
                f"{self._link.peer}: {self.in_flight_count} answers are due before that of "
                f"{request.API.name}; receive them first"
            )
        self.send(request, version=version, at_most=at_most)
        try:
            return cast(R, self.receive(timeout_ms).message)
        except BaseException as error:  # a timeout, Ctrl-C: nobody would take the late answer
            if self.is_open:
                self._link.close(str(error) or type(error).__name__)
            raise

    def _explained(self, error: ConnectionLost) -> ConnectionLost:
        """A listener that wants a login answers ApiVersions, and hangs up on the first real request."""
        security = self._config.security.protocol
        if self._link.answers > self._answers_at_opening or security.has_sasl or self._interruption.is_set:
            return error
        return ConnectionLost(
            f"{error}. It has told its versions and answered nothing else: if this goes on, the listener may "
            f"want a login (security.protocol is {security} here, not SASL_PLAINTEXT or SASL_SSL)"
        )

    def fileno(self) -> int:
        """For select and poll over several connections; -1 when it is closed."""
        return self._link.fileno()

    def interrupt(self) -> None:
        """From any thread: what the owner waits for ends with ConnectionLost, at once.

        Of all connections that share the interruption.
        """
        self._interruption.interrupt()

    def close(self) -> None:
        """By the owner. Answers that are due are lost. May be called twice."""
        self._link.close()
        if self._owns_interruption:
            self._interruption.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
