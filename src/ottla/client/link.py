"""A transport with the state of the protocol: sends requests, receives responses, translates failures.

`opening` makes links and finds the broker's versions with them; `connection` is a link that is ready for use.
A link that failed is closed; `why_closed` is the reason for later callers.
"""

from __future__ import annotations

import ssl
import struct
from collections import deque
from collections.abc import Callable
from typing import Any

from ottla.client.clock import Clock, Deadline
from ottla.client.tls import alert_failure
from ottla.client.transport import Transport
from ottla.model.errors import (
    ConnectionLost,
    LocalProtocolError,
    OttlaError,
    RemoteProtocolError,
    RequestTimedOut,
)
from ottla.wire.client_connection import ClientConnection, Disconnected, Outgoing, ReceivedResponse
from ottla.wire.frames import FrameReceiver
from ottla.wire.primitives import Buffer
from ottla.wire.schema import Request
from ottla.wire.versions import PeerVersions

_SHOWN_MAX = 3
_SIZE = struct.Struct(">i")


def _nothing(error: OttlaError) -> None:
    """The default of `on_failure`."""


def _is_ours(error: OSError) -> bool:
    """Whether our own deadline has passed. ETIMEDOUT of the system means that the peer is gone."""
    return isinstance(error, TimeoutError) and error.errno is None


class Link:
    """The bytes and the state of one connection. Belongs to one thread."""

    __slots__ = (
        "_arrived",
        "_clock",
        "_receiver",
        "_transport",
        "_wire",
        "answers",
        "in_flight_count",
        "on_failure",
        "peer",
        "why_closed",
    )

    def __init__(
        self, peer: str, transport: Transport, *, client_id: str, receiver: FrameReceiver, clock: Clock
    ) -> None:
        self.peer = peer
        self.why_closed = ""  # "" while it is open
        self.answers = 0  # number of responses returned so far
        self.in_flight_count = 0  # requests whose responses have not been returned
        self.on_failure: Callable[[OttlaError], None] = _nothing
        self._arrived: deque[ReceivedResponse] = (
            deque()
        )  # responses that came while a request was being written
        self._transport = transport
        self._receiver = receiver
        self._wire = ClientConnection(client_id=client_id, receiver=receiver)
        self._clock = clock

    def adopt(self, versions: PeerVersions) -> None:
        """Speak these versions from now on."""
        self._wire.adopt(versions)

    def fileno(self) -> int:
        """The socket's descriptor; -1 when it is closed."""
        return self._transport.socket.fileno()

    def send(self, request: Request[Any], version: int | None, timeout_ms: float | None) -> Outgoing:
        """Encode and write a request. A failure closes the link, unless the request cannot be encoded."""
        if self.why_closed:
            raise self._is_closed()
        outgoing = self._wire.send(request, version=version)
        self._write(outgoing.parts, timeout_ms)
        if outgoing.expects_response:
            self.in_flight_count += 1
        return outgoing

    def _write(self, parts: list[Buffer], timeout_ms: float | None) -> None:
        try:
            self._transport.send(parts, Deadline(self._clock, timeout_ms), self._drain)
        except RemoteProtocolError as error:
            raise self._failed(RemoteProtocolError(f"{self.peer}: {error}")) from error
        except OSError as error:
            if _is_ours(error):
                what = f"{self._wire.unanswered[-1]}" if self._wire.unanswered else "a request"
                why = f"{self.peer}: did not take {what} in {timeout_ms:.0f} ms"
                raise self._failed(RequestTimedOut(why)) from None
            raise self._broken(error) from error
        except BaseException as error:
            self.close(f"{error!r}")  # unknown how much of the request was sent
            raise

    def _drain(self) -> None:
        """Read what the peer sends while it does not read; whole responses are kept for `receive`."""
        count = self._transport.receive_into(self._wire.get_buffer(), None)
        if count == 0:
            raise ConnectionResetError("the broker closed the connection")
        if count is not None:
            self._wire.received(count)
            while isinstance(event := self._wire.next_event(), ReceivedResponse):
                self._arrived.append(event)

    def receive(self, timeout_ms: float | None) -> ReceivedResponse:
        """The next response. Every failure but a timeout and an interruption closes the link."""
        if not self.in_flight_count:
            raise LocalProtocolError(f"{self.peer}: no answer is due; send a request before you receive")
        deadline = Deadline(self._clock, timeout_ms)
        while (answer := self._next(deadline)) is None:
            pass
        return answer

    def poll(self) -> ReceivedResponse | None:
        """The next response if it is complete, else None."""
        return self._next(None)

    def _next(self, deadline: Deadline | None) -> ReceivedResponse | None:
        """Return the next response; None if it is not complete yet and `deadline` is None.

        Waits until the deadline.
        """
        if self.why_closed:
            raise self._is_closed()
        if self._arrived:
            return self._handed_out(self._arrived.popleft())
        try:
            event = self._event(deadline)
        except RemoteProtocolError as error:
            raise self._failed(RemoteProtocolError(f"{self.peer}: {error}")) from error
        except OSError as error:
            if _is_ours(error):
                raise RequestTimedOut(self._no_answer(deadline)) from None
            raise self._broken(error) from error
        except ConnectionLost:
            raise  # interrupted: no byte is lost, and the owner may send a last request before it closes
        except BaseException as error:
            # Ctrl-C between a read and its bookkeeping loses bytes: what follows would be misread.
            self.close(f"{error!r}")
            raise
        return None if event is None else self._handed_out(event)

    def _event(self, deadline: Deadline | None) -> ReceivedResponse | Disconnected | None:
        """Return what arrives next; None if it is not complete yet and `deadline` is None."""
        wire, transport = self._wire, self._transport
        while (event := wire.next_event()) is None:
            count = transport.receive_into(wire.get_buffer(), deadline)
            if count:
                wire.received(count)
            elif count is None:
                return None
            else:
                self._end()
        return event

    def _handed_out(self, event: ReceivedResponse | Disconnected) -> ReceivedResponse:
        if isinstance(event, Disconnected):
            raise self._failed(self._closed_by_peer())
        self.answers += 1
        self.in_flight_count -= 1
        return event

    def _end(self) -> None:
        """Note that the peer closed the connection. Raises ConnectionLost if that was inside a response."""
        self._wire.eof()
        try:
            self._receiver.eof()
        except RemoteProtocolError as error:
            raise self._failed(ConnectionLost(f"{self.peer}: {error}{self._lost_requests()}")) from None

    def raw_exchange(self, token: bytes, deadline: Deadline) -> bytes:
        """Send a bare token and return the answer: SASL before Kafka 1.0. Nothing may be in flight."""
        left_ms = deadline.left_ms()
        self._write([_SIZE.pack(len(token)) + token], left_ms)
        try:
            while (frame := self._receiver.next_frame()) is None:
                count = self._transport.receive_into(self._receiver.get_buffer(), deadline)
                if not count:
                    raise self._failed(self._closed_by_peer())
                self._receiver.received(count)
        except OSError as error:
            if _is_ours(error):
                why = f"{self.peer}: no answer to an authentication token in {left_ms:.0f} ms"
                raise self._failed(RequestTimedOut(why)) from None
            raise self._broken(error) from error
        return bytes(frame)

    # --- the end

    def close(self, why: str = "we closed it") -> None:
        """Close the link, if it is open; `why` is the reason for later callers."""
        if not self.why_closed:
            self.why_closed = why
            self._wire.close()
            self._transport.close()

    def _failed(self, error: OttlaError) -> OttlaError:
        self.close(f"{error}")
        self.on_failure(error)
        return error

    def _broken(self, error: OSError) -> OttlaError:
        said = error if isinstance(error, ssl.SSLError) else self._transport.last_words()
        alert = alert_failure(self.peer, said) if isinstance(said, ssl.SSLError) else None
        if alert is not None:
            return self._failed(alert)
        return self._failed(
            ConnectionLost(
                f"{self.peer}: the connection broke: {error.strerror or error}{self._lost_requests()}"
            )
        )

    def _is_closed(self) -> ConnectionLost:
        return ConnectionLost(f"{self.peer}: the connection is closed ({self.why_closed}); open another")

    def _closed_by_peer(self) -> ConnectionLost:
        return ConnectionLost(f"{self.peer}: the broker closed the connection{self._lost_requests()}")

    def _no_answer(self, deadline: Deadline | None) -> str:
        waited_ms = deadline.timeout_ms if deadline is not None else 0
        due = self._wire.unanswered
        what = f" to {due[0]}" if due else ""
        behind = f" ({len(due) - 1} more wait behind it)" if len(due) > 1 else ""
        return f"{self.peer}: no answer{what} in {waited_ms:.0f} ms{behind}"

    def _lost_requests(self) -> str:
        due = self._wire.unanswered
        if not due:
            return ""
        shown = ", ".join(str(exchange) for exchange in due[:_SHOWN_MAX])
        shown += ", …" if len(due) > _SHOWN_MAX else ""
        return f"; without an answer: {shown}"
