"""A blocking client of a few lines over our own wire: one connection, one call at a time, any version.

with Client("127.0.0.1", port) as client:
    response = client.call(MetadataRequest(topics=None), 9)
"""

from __future__ import annotations

import socket
from typing import Any, TypeVar, cast

from ottla.model.closing import Closing
from ottla.wire.client_connection import ClientConnection, ReceivedResponse
from ottla.wire.schema import Request, Response

R = TypeVar("R", bound=Response)

TIMEOUT_S = 120
"""Far above what any call takes: a test that waits so long has failed."""


class Client(Closing):
    def __init__(self, host: str, port: int, client_id: str = "test", timeout_s: float = TIMEOUT_S) -> None:
        self._address = (host, port)
        self._client_id = client_id
        self._timeout_s = timeout_s
        self.connect()

    def connect(self) -> None:
        """Begin anew, on a connection of its own."""
        self._socket = socket.create_connection(self._address, self._timeout_s)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._wire = ClientConnection(client_id=self._client_id)

    @classmethod
    def of(cls, bootstrap: str, client_id: str = "test") -> Client:
        """To the first of the brokers in a bootstrap string."""
        host, port = bootstrap.split(",")[0].rsplit(":", 1)
        return cls(host, int(port), client_id)

    def call(self, request: Request[R], version: int | None = None) -> R:
        """The answer in the version that is named, or else in the newest that we know."""
        self.send(request, version)
        return cast(R, self.receive())

    def send(self, request: Request[Any], version: int | None = None) -> None:
        """Only ask; `receive` gets the answers in order."""
        newest = request.API.version_newest
        for part in self._wire.send(request, version=newest if version is None else version).parts:
            self._socket.sendall(part)

    def receive(self) -> Response:
        """The next answer. Raises ConnectionResetError if the broker hangs up instead."""
        while (event := self._wire.next_event()) is None:
            count = self._socket.recv_into(self._wire.get_buffer())
            if count:
                self._wire.received(count)
            else:
                self._wire.eof()
        if not isinstance(event, ReceivedResponse):
            raise ConnectionResetError(f"{self._address}: no answer: {event}")
        return event.message

    def bare(self, token: bytes) -> bytes:
        """Send a frame that is no request, and return the frame that answers it."""
        self._socket.sendall(len(token).to_bytes(4, "big") + token)
        size = int.from_bytes(self._exactly(4), "big")
        return self._exactly(size)

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            part = self._socket.recv(size - len(data))
            if not part:
                raise ConnectionResetError(f"{self._address}: closed")
            data += part
        return data

    def close(self) -> None:
        self._wire.close()
        self._socket.close()
