"""A server that does what a test says, in threads of its own: for peers that do not behave."""

from __future__ import annotations

import socket
import ssl
import struct
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

from ottla.client.client_config import ClientConfig
from ottla.model.address import Address
from ottla.wire.schema import Response, encode

Handler = Callable[[socket.socket], None]


class RawServer:
    """Calls `handler` with each connection; the connection is closed when that returns."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._threads: list[threading.Thread] = []
        self._open: set[socket.socket] = set()
        self.accepted = 0
        self.released = threading.Event()  # set at the end: handlers that wait for ever wait for it
        self.failures: list[BaseException] = []
        self._accepting = threading.Thread(target=self._accept)

    @classmethod
    def silent(cls, tls: ssl.SSLContext | None = None) -> Self:
        """One that takes connections and neither reads nor writes, but for the handshake of TLS."""
        server = cls(lambda _: None)
        server._handler = lambda connection: server._wait(connection, tls)
        return server

    def _wait(self, connection: socket.socket, tls: ssl.SSLContext | None) -> None:
        if tls is None:
            self.released.wait()
            return
        with tls.wrap_socket(connection, server_side=True):
            self.released.wait()

    @property
    def address(self) -> Address:
        return Address(*self._socket.getsockname())

    def config(self, **properties: object) -> ClientConfig:
        """Of a client that takes it for Kafka 0.9, so that nothing is asked at first."""
        return ClientConfig.from_properties(
            {"bootstrap.servers": str(self.address), "broker.version": "0.9", **properties}
        )

    def __enter__(self) -> Self:
        self._accepting.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.released.set()
        # A thread in accept() is not woken by a close.
        self._socket.shutdown(socket.SHUT_RDWR)
        self._accepting.join()
        self._socket.close()
        for thread in self._threads:
            thread.join()
        assert not self.failures, self.failures

    def _accept(self) -> None:
        while not self.released.is_set():
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            self.accepted += 1
            thread = threading.Thread(target=self._handle, args=(connection,))
            self._threads.append(thread)
            thread.start()

    def _handle(self, connection: socket.socket) -> None:
        with connection:
            try:
                self._handler(connection)
            except (ConnectionError, EOFError):
                pass  # the client has had enough, as is its right
            except BaseException as error:  # noqa: BLE001 - raised by the test's own thread
                self.failures.append(error)


def exactly(connection: socket.socket, count: int) -> bytes:
    """So many bytes of the stream. EOFError if it ends before."""
    data = bytearray(count)
    room = memoryview(data)
    while room:
        size = connection.recv_into(room)
        if not size:
            raise EOFError
        room = room[size:]
    return bytes(data)


def next_request(connection: socket.socket) -> tuple[int, int]:
    """Key and correlation id of the next request."""
    body = exactly(connection, struct.unpack(">i", exactly(connection, 4))[0])
    key, _, correlation_id = struct.unpack_from(">hhi", body)
    return key, correlation_id


def framed(correlation_id: int, message: Response, version: int) -> bytes:
    """The bytes of an answer with a header without tags."""
    body = struct.pack(">i", correlation_id) + b"".join(encode(message, version))
    return struct.pack(">i", len(body)) + body
