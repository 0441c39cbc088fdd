"""Strangers at a listener with TLS: what they hold has a limit, and nobody who is served waits for them."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import NoReturn

import pytest

from ottla.broker.serving import tls_listener
from ottla.broker.serving.tls_listener import Handshakes, TlsListener, bound_sockets

WAIT_S = 30


class Listening:
    """A listener that has no certificate: nobody can finish a handshake."""

    def __init__(self, handshakes: Handshakes, address: tuple[str, int]) -> None:
        self.handshakes = handshakes
        self.address = address

    def stranger(self, said: bytes = b"") -> socket.socket:
        connection = socket.create_connection(self.address)
        connection.sendall(said)
        connection.settimeout(0)
        return connection

    async def until(self, is_so: Callable[[], bool]) -> None:
        async with asyncio.timeout(WAIT_S):
            while not is_so():
                await asyncio.sleep(0)


def nobody() -> NoReturn:
    raise AssertionError("a stranger got a connection of the broker")


@asynccontextmanager
async def listening() -> AsyncIterator[Listening]:
    handshakes = Handshakes(asyncio.get_running_loop())
    sockets = await bound_sockets("127.0.0.1", 0)
    listener = TlsListener(sockets, ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), nobody, handshakes, backlog=16)
    await listener.start_serving()
    try:
        yield Listening(handshakes, sockets[0].getsockname())
    finally:
        listener.close()
        handshakes.close()


def is_cut(connection: socket.socket) -> bool:
    try:
        return connection.recv(100) == b""
    except BlockingIOError:
        return False
    except ConnectionResetError:
        return True


def test_one_connection_is_accepted_in_a_turn_of_the_loop() -> None:
    async def accepted_by_turn() -> list[int]:
        async with listening() as server:
            strangers = [server.stranger() for _ in range(8)]
            counts = [0]
            while counts[-1] < len(strangers):
                await asyncio.sleep(0)
                counts.append(len(server.handshakes))
            for stranger in strangers:
                stranger.close()
        return counts

    counts = asyncio.run(accepted_by_turn())
    assert max(after - before for before, after in pairwise(counts)) == 1


def test_of_too_many_the_oldest_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls_listener, "HANDSHAKES_MAX", 3)

    async def run() -> None:
        async with listening() as server:
            strangers = []
            for number in range(5):
                strangers.append(server.stranger())
                await server.until(lambda: len(server.handshakes) == min(3, len(strangers)))
                if number >= 3:
                    await server.until(lambda: is_cut(strangers[number - 3]))  # noqa: B023 - awaited here
            assert [is_cut(stranger) for stranger in strangers] == [True, True, False, False, False]
            for stranger in strangers:
                stranger.close()

    asyncio.run(run())


@pytest.mark.parametrize("said", [b"", b"\x16\x03\x01\x02", b"\x16\x03\x01\x00\x05\x01\x00"])
def test_who_is_silent_or_stops_is_cut_in_time(said: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls_listener, "HANDSHAKE_S", 0.05)

    async def run() -> None:
        async with listening() as server:
            with server.stranger(said) as stranger:
                await server.until(lambda: is_cut(stranger))
            assert len(server.handshakes) == 0

    asyncio.run(run())


@pytest.mark.parametrize(
    "said", [b"GET / HTTP/1.0\r\n\r\n", b"\x00\x00\x00\x10" + bytes(16), b"\x16\x03\x00\x00\x05" + bytes(5)]
)
def test_who_speaks_something_else_is_refused(said: bytes) -> None:
    async def run() -> None:
        async with listening() as server:
            with server.stranger(said) as stranger:
                await server.until(lambda: is_cut(stranger))
            await server.until(lambda: len(server.handshakes) == 0)

    asyncio.run(run())


def test_who_leaves_in_the_middle_is_forgotten() -> None:
    async def run() -> None:
        async with listening() as server:
            stranger = server.stranger(b"\x16\x03\x01\x02")
            await server.until(lambda: len(server.handshakes) == 1)
            stranger.close()
            await server.until(lambda: len(server.handshakes) == 0)

    asyncio.run(run())
