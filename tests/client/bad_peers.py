"""Peers that no client can work with: servers in threads, by name, and what clients say about each."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import NamedTuple

from tests.client.raw_server import RawServer, next_request

API_VERSIONS, METADATA, PRODUCE = 18, 3, 0


class BadPeer(NamedTuple):
    """`serve()` yields the address; `cause` is a pattern for what clients say.

    `timeout_ms` is for api.version.request.timeout.ms: short only for a peer that uses it up.
    """

    serve: Callable[[], AbstractContextManager[str]]
    cause: str
    timeout_ms: int = 30_000


def answering(answer: Callable[[int, int], bytes]) -> BadPeer:
    """A peer that answers each request with what `answer(API key, correlation id)` returns."""

    def handle(connection: socket.socket) -> None:
        while True:
            connection.sendall(answer(*next_request(connection)))

    return _handling(handle)


def _handling(handle: Callable[[socket.socket], None]) -> BadPeer:
    @contextmanager
    def serve() -> Iterator[str]:
        with RawServer(handle) as server:
            yield str(server.address)

    return BadPeer(serve, "")


def _frame(number: int, body: bytes) -> bytes:
    return struct.pack(">ii", len(body) + 4, number) + body


@contextmanager
def _refusing() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = "{}:{}".format(*taken.getsockname())
    yield address


@contextmanager
def _silent() -> Iterator[str]:
    with RawServer.silent() as server:
        yield str(server.address)


def _web(connection: socket.socket) -> None:
    connection.recv(1000)
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")


def _hang_up(connection: socket.socket) -> None:
    next_request(connection)


def _versions(version: int, *, error: int = 0, of: int = METADATA) -> bytes:
    """The body of ApiVersions v0: one API in one version."""
    return struct.pack(">hihhh", error, 1, of, version, version)


def _describe_hugely(connection: socket.socket) -> None:
    """Refuse the newest ApiVersions, tell the versions of an old broker, announce Metadata of 99 MB."""
    for body in (_versions(0, error=35, of=API_VERSIONS), _versions(4)):
        connection.sendall(_frame(next_request(connection)[1], body))
    _, number = next_request(connection)
    connection.sendall(struct.pack(">ii", 99_000_000, number) + bytes(1000))


def _come_from_the_future(connection: socket.socket) -> None:
    """Speak Metadata in a version that nobody knows."""
    for body in (_versions(0, error=35, of=API_VERSIONS), _versions(99)):
        connection.sendall(_frame(next_request(connection)[1], body))
    connection.recv(1)


BAD_PEERS = {
    "refusing": BadPeer(_refusing, r"cannot be reached: Connection refused"),
    "silent": BadPeer(_silent, r"takes connections and answers nothing", timeout_ms=50),
    "closing": _handling(_hang_up)._replace(cause=r"is no Kafka broker that we know.*Metadata: closed"),
    "web": _handling(_web)._replace(cause=r"the port of a web server"),
    "tls": answering(lambda *_: b"\x15\x03\x03\x00\x02\x02\x46")._replace(
        cause=r"a TLS alert: the port wants"
    ),
    "garbage": answering(lambda _, number: _frame(number, b"\xff" * 16))._replace(
        cause=r"ApiVersionsResponse v\d"
    ),
    "frame of 2 GB": answering(lambda *_: struct.pack(">i", 2_000_000_000))._replace(
        cause=r"announced a frame of 2000000000 bytes, above the limit"
    ),
    "answer of 99 MB": _handling(_describe_hugely)._replace(
        cause=r"an answer of 99,000,000 bytes, above the limit"
    ),
    "answers of others": answering(lambda _, number: _frame(number + 7, _versions(0)))._replace(
        cause=r"answers out of order"
    ),
    "unknown version": _handling(_come_from_the_future)._replace(cause=r"Metadata.*99"),
}
