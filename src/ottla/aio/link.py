"""A socket on an event loop, with the state of the protocol: it receives straight into the memory of frames.

`opening` makes links and finds the broker's versions with them; `connection` is a link that is ready for use.
"""

from __future__ import annotations

import asyncio
import ssl
import struct
from collections import deque
from typing import Any, cast

from ottla.aio.waiting import LoopCondition
from ottla.client.clock import Deadline
from ottla.client.tls import alert_failure
from ottla.client.version_discovery import CHUNK_BYTES
from ottla.model.errors import ConnectionLost, OttlaError, RemoteProtocolError, RequestTimedOut
from ottla.wire.client_connection import ClientConnection, ReceivedResponse
from ottla.wire.frames import Allocator, FrameReceiver
from ottla.wire.schema import Request
from ottla.wire.versions import PeerVersions

_SIZE = struct.Struct(">i")
_SHOWN_MAX = 3


class LoopLink(asyncio.BufferedProtocol):
    """The bytes and the state of one connection."""

    def __init__(self, peer: str, client_id: str, allocate: Allocator) -> None:
        self.peer = peer
        self.failure: OttlaError | None = None  # None while it is open
        self.answers = 0
        self._receiver = FrameReceiver(chunk_bytes=CHUNK_BYTES, allocate=allocate)
        self._wire = ClientConnection(client_id=client_id, receiver=self._receiver)
        self._due: deque[asyncio.Future[ReceivedResponse]] = deque()
        # Waits for a frame that is not an answer to a request.
        self._bare: asyncio.Future[bytes] | None = None
        self._transport: asyncio.Transport | None = None
        self._changed = LoopCondition()
        self._is_lost = False

    # --- the transport calls these

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport: the socket is connected."""
        self._transport = cast(asyncio.Transport, transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return memory to receive into: the socket has bytes."""
        self._receiver.make_room()
        return self._wire.get_buffer(sizehint)

    def buffer_updated(self, nbytes: int) -> None:
        """Process the bytes that have arrived."""
        self._wire.received(nbytes)
        self._take_events()

    def eof_received(self) -> None:
        """Note that the broker closes the connection."""
        if self.failure is None:
            self._wire.eof()
            self._take_events()

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail all that wait: the socket is closed."""
        self._is_lost = True
        alert = alert_failure(self.peer, exc) if isinstance(exc, ssl.SSLError) else None
        why = f": {getattr(exc, 'strerror', None) or exc}" if exc is not None else ""
        self.fail(alert or ConnectionLost(f"{self.peer}: the connection broke{why}{self._lost_requests()}"))
        self._changed.notify_all()

    def _take_events(self) -> None:
        try:
            if self._bare is not None:
                frame = self._receiver.next_frame()
                if frame is not None:
                    bare, self._bare = self._bare, None
                    _resolve(bare, bytes(frame))
                return
            while self.failure is None and (event := self._wire.next_event()) is not None:
                if not isinstance(event, ReceivedResponse):
                    self.fail(ConnectionLost(f"{self.peer}: the broker closed the connection"))
                    return
                self.answers += 1
                _resolve(self._due.popleft(), event)
        except RemoteProtocolError as error:
            self.fail(RemoteProtocolError(f"{self.peer}: {error}"))

    # --- requests

    @property
    def in_flight_count(self) -> int:
        """Number of requests whose answers have not come."""
        return len(self._due)

    @property
    def is_abandoned(self) -> bool:
        """Whether an answer is due whose coroutine was cancelled: other calls would wait for it first."""
        return any(due.cancelled() for due in self._due)

    async def answered(self) -> None:
        """Wait until no answer is due that a coroutine waits for."""
        waiting = [due for due in self._due if not due.done()]
        if waiting:
            await asyncio.wait(waiting)

    def adopt(self, versions: PeerVersions) -> None:
        """Speak these versions from now on."""
        self._wire.adopt(versions)

    def send(self, request: Request[Any], version: int | None) -> asyncio.Future[ReceivedResponse] | None:
        """Write a request. Returns a future for its answer; None if there is none (acks=0)."""
        transport = self._open_transport()
        outgoing = self._wire.send(request, version=version)
        due = None
        if outgoing.expects_response:
            due = asyncio.get_running_loop().create_future()
            due.add_done_callback(_seen)
            self._due.append(due)
        transport.writelines(outgoing.parts)
        return due

    async def exchange(self, request: Request[Any], version: int | None, deadline: Deadline) -> Any:
        """Send a request and wait for the message that answers it. Raises RequestTimedOut."""
        due = self.send(request, version)
        assert due is not None
        return (await self.within(due, deadline.left_ms())).message

    async def bare_exchange(self, token: bytes, deadline: Deadline) -> bytes:
        """Send a bare token and return the answer: SASL before Kafka 1.0. Nothing may be in flight."""
        transport = self._open_transport()
        self._bare = asyncio.get_running_loop().create_future()
        self._bare.add_done_callback(_seen)
        transport.write(_SIZE.pack(len(token)) + token)
        return cast(bytes, await self.within(self._bare, deadline.left_ms()))

    async def within(self, due: asyncio.Future[Any], timeout_ms: float | None) -> Any:
        """Wait for an answer. Raises RequestTimedOut, and what broke the connection."""
        try:
            async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000) as limit:
                return await due
        except TimeoutError:
            if not limit.expired():
                raise
            raise RequestTimedOut(self._no_answer(timeout_ms)) from None

    def _open_transport(self) -> asyncio.Transport:
        if self.failure is not None or self._transport is None:
            raise ConnectionLost(f"{self.peer}: the connection is closed ({self.failure}); open another")
        return self._transport

    # --- the end

    def fail(self, error: OttlaError) -> None:
        """Close the connection for this reason, if it is open; all that wait get the error."""
        if self.failure is None:
            self.failure = error
            self._wire.close()
            waiting: list[asyncio.Future[Any]] = [*self._due, *([self._bare] if self._bare else [])]
            self._due.clear()
            for waiter in waiting:
                if not waiter.done():
                    waiter.set_exception(error)
            if self._transport is not None:
                self._transport.close()

    def abort(self, error: OttlaError) -> None:
        """Close the connection at once for this reason: the peer need not agree, as TLS wants it to."""
        self.fail(error)
        if self._transport is not None:
            self._transport.abort()

    async def wait_closed(self) -> None:
        """Wait until the socket is closed, after `fail`."""
        if self._transport is not None:
            if not await self._changed.until(lambda: self._is_lost, 1.0):
                self._transport.abort()  # the peer does not read what was written
            await self._changed.until(lambda: self._is_lost, 1.0)

    def _no_answer(self, timeout_ms: float | None) -> str:
        due = self._wire.unanswered
        what = f" to {due[0]}" if due else ""
        return f"{self.peer}: no answer{what} in {timeout_ms or 0:.0f} ms"

    def _lost_requests(self) -> str:
        due = self._wire.unanswered
        shown = ", ".join(str(exchange) for exchange in due[:_SHOWN_MAX])
        return f"; without an answer: {shown}{', …' if len(due) > _SHOWN_MAX else ''}" if due else ""


def _resolve(waiter: asyncio.Future[Any], result: object) -> None:
    if not waiter.done():  # otherwise the coroutine that waited was cancelled
        waiter.set_result(result)


def _seen(waiter: asyncio.Future[Any]) -> None:
    """Mark an error as seen, so that asyncio does not log it: its connection reports it."""
    if not waiter.cancelled():
        waiter.exception()
