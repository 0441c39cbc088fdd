"""One connection to a broker: blocking, owned by one thread, pipelined.

    connection = Connection.open(Address("kafka", 9092), config)
    connection.send(fetch); connection.send(fetch)            # leaves at once, nobody waits
    connection.receive().message; connection.receive().message    # answers, in the order of the requests

A broker answers in order, so answers need no ids: whoever sends counts. `call` is one question with nothing
else in flight. A connection that lost step, timed out in a `call`, or broke is closed; open another.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any, NamedTuple, Self, TypeVar

from ottla.client.clock import MONOTONIC, Clock
from ottla.client.config import ClientConfig
from ottla.client.interruption import Interruption
from ottla.model.address import Address
from ottla.wire.client_connection import Answer
from ottla.wire.frames import Allocator
from ottla.wire.schema import Api, Request, Response
from ottla.wire.versions import PeerVersions

R = TypeVar("R", bound=Response)


class Sent(NamedTuple):
    """A request that is on its way."""

    correlation_id: int
    api: Api
    version: int
    expects_response: bool


class Connection:
    """Made by `open`. Only `interrupt` may be called by other threads than the owner."""

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
    ) -> Self:
        """Connect, with TLS and SASL if the config asks for them, and learn the broker's versions.

        `broker_id`: the address comes from the cluster's metadata, and an error says so. `allocate` gives
        the memory that answers are received into. An `interruption` may be shared by all connections of a
        thread; without one the connection has its own.

        Raises BrokerUnreachable, AuthenticationFailed, RemoteProtocolError (no Kafka broker), ConnectionLost
        (interrupted).
        """
        raise NotImplementedError

    @property
    def address(self) -> Address:
        """Whom it was opened to."""
        raise NotImplementedError

    @property
    def broker_id(self) -> int | None:
        """The broker's id, if it was opened by one."""
        raise NotImplementedError

    @property
    def versions(self) -> PeerVersions:
        """What the broker speaks."""
        raise NotImplementedError

    @property
    def is_open(self) -> bool:
        """Whether requests can be sent. A broker that has just gone away is noticed by the next use."""
        raise NotImplementedError

    @property
    def in_flight_count(self) -> int:
        """Requests whose answers have not been received."""
        raise NotImplementedError

    def version_for(self, api: Api, *, at_most: int | None = None) -> int:
        """The version in which an API is called. Raises LocalProtocolError if there is none in common."""
        raise NotImplementedError

    def send(self, request: Request[Any], *, version: int | None = None, at_most: int | None = None) -> Sent:
        """Send a request and do not wait for its answer.

        It goes out in `version`, or in the highest common one, not above `at_most`. Raises LocalProtocolError
        (nothing was sent, the connection is as before), ConnectionLost, RequestTimedOut (the broker takes
        nothing; the connection is closed).
        """
        raise NotImplementedError

    def receive(self, timeout_ms: float | None = None) -> Answer:
        """The next answer; `timeout_ms` None is request.timeout.ms.

        Raises RequestTimedOut: the connection stays open and the answer may come yet. Raises ConnectionLost
        or RemoteProtocolError: it is closed. Record sets are views of the received memory, not copies.
        """
        raise NotImplementedError

    def poll(self) -> Answer | None:
        """The next answer if it has arrived; never waits. Call it until None when `fileno` is readable."""
        raise NotImplementedError

    def call(
        self,
        request: Request[R],
        *,
        version: int | None = None,
        at_most: int | None = None,
        timeout_ms: float | None = None,
    ) -> R:
        """Send, and wait for the answer; nothing may be in flight. A timeout closes the connection."""
        raise NotImplementedError

    def fileno(self) -> int:
        """For select and poll over several connections."""
        raise NotImplementedError

    def interrupt(self) -> None:
        """From any thread: what the owner waits for ends with ConnectionLost, at once."""
        raise NotImplementedError

    def close(self) -> None:
        """By the owner. Answers that are due are lost. May be called twice."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
