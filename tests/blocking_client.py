"""A blocking client of a few lines: one connection, one call at a time, the highest version both have.

    with BlockingClient("127.0.0.1", 9092) as client:
        answer = client.call(MetadataRequest(topics=None))

It finds no leaders and retries nothing: for tools and tests that know whom they ask.
"""

from __future__ import annotations

import socket
from types import TracebackType
from typing import Any, Self, TypeVar, cast

from ottla import __version__
from ottla.wire.client_connection import Answer, ClientConnection
from ottla.wire.negotiation import Discovery, Link, Question
from ottla.wire.schema import Api, Request, Response

R = TypeVar("R", bound=Response)

TIMEOUT_S = 30.0


class BlockingClient:
    """Connects at once, and asks for the broker's versions. Not thread-safe.

    Raises OSError where the network fails, RemoteProtocolError where the peer is no Kafka broker.
    """

    def __init__(
        self, host: str, port: int, *, client_id: str = "ottla", timeout_s: float = TIMEOUT_S
    ) -> None:
        self._address = (host, port)
        self._client_id = client_id
        self._timeout_s = timeout_s
        self._connect()
        try:
            self._discover()
        except BaseException:
            self.close()
            raise

    def _connect(self) -> None:
        self._wire = ClientConnection(client_id=self._client_id)
        self._socket = socket.create_connection(self._address, self._timeout_s)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def _discover(self) -> None:
        discovery = Discovery(software_version=__version__)
        plan = discovery.start()
        is_fresh = True
        while isinstance(plan, Question):
            if plan.link is Link.NEW and not is_fresh:
                self.close()
                self._connect()
            is_fresh = False
            try:
                plan = discovery.answered(self._ask(plan.request, plan.version))
            except TimeoutError:
                plan = discovery.silent()
            except ConnectionError:
                plan = discovery.closed()
        self._wire.adopt(plan.versions)

    def version_for(self, api: Api) -> int:
        """The version in which an API will be called. Raises LocalProtocolError if the broker has none."""
        return self._wire.version_for(api)

    def call(self, request: Request[R], *, version: int | None = None) -> R:
        """Ask, and wait for the answer."""
        return cast(R, self._ask(request, version))

    def _ask(self, request: Request[Any], version: int | None) -> Response:
        for part in self._wire.send(request, version=version).parts:
            self._socket.sendall(part)
        while (event := self._wire.next_event()) is None:
            count = self._socket.recv_into(self._wire.get_buffer())
            if count:
                self._wire.received(count)
            else:
                self._wire.eof()
        if not isinstance(event, Answer):
            raise ConnectionResetError(f"{self._address}: closed the connection instead of an answer")
        return event.message

    def close(self) -> None:
        """End the connection."""
        self._wire.close()
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
