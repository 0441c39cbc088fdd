"""One connection of the load generator for requests of any kind, each decoded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from benchmarks.broker.frames import CLIENT_ID
from benchmarks.broker.load import Address, connected
from ottla.model.closing import Closing
from ottla.wire.client_connection import ClientConnection, ReceivedResponse
from ottla.wire.schema import Request


class Line(Closing):
    """A connection that asks in versions that the caller names."""

    def __init__(self, address: Address) -> None:
        self.socket = connected(address)
        self._wire = ClientConnection(client_id=CLIENT_ID)
        self._address = address

    def send(self, request: Request[Any], version: int) -> None:
        """Send a request, and do not wait."""
        for part in self._wire.send(request, version=version).parts:
            self.socket.sendall(part)

    def receive(self) -> Any:
        """Wait for the next answer. Raises ConnectionError if the server closes."""
        while (answer := self._answer()) is None:
            self._wait()
        return answer

    def arrived(self) -> Iterator[Any]:
        """Wait for bytes, and return the answers that are whole then."""
        self._wait()
        while (answer := self._answer()) is not None:
            yield answer

    def _wait(self) -> None:
        count = self.socket.recv_into(self._wire.get_buffer())
        self._wire.received(count) if count else self._wire.eof()

    def _answer(self) -> Any:
        event = self._wire.next_event()
        if event is not None and not isinstance(event, ReceivedResponse):
            raise ConnectionError(f"{self._address} closed the connection instead of answering")
        return event and event.message

    def ask(self, request: Request[Any], version: int) -> Any:
        """Send a request and wait for its answer."""
        self.send(request, version)
        return self.receive()

    def close(self) -> None:
        """Hang up."""
        self.socket.close()
