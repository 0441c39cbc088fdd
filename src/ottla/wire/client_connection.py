"""The client's side of one connection: requests → bytes, bytes → answers. No socket, no clock.

Theory of operation. A broker answers strictly in the order of the requests, so what is in flight is a queue,
and the correlation id of every answer must be that of the queue's head. Anything else means that the two
sides are out of step. Continuing would give one caller the data of another, so the connection ends. Produce
with acks=0 never enters the queue, as it has no answer.

    NEW      no versions known: only requests in a version that the caller names (see `negotiation`)
    READY    versions adopted: requests go out in the highest common version
    ENDING   the peer has closed; answers that had arrived are still handed out
    CLOSED   over; `unanswered` lists the requests that were lost

Driver, blocking:                                     with asyncio: get_buffer and received are those
    for part in connection.send(request).parts:       of BufferedProtocol, eof that of eof_received
        sock.sendall(part)
    while (event := connection.next_event()) is None:
        count = sock.recv_into(connection.get_buffer())
        connection.received(count) if count else connection.eof()
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from ottla.model.error_codes import Code
from ottla.model.errors import LocalProtocolError, RemoteProtocolError
from ottla.wire.exchange import Exchange, expects_response, following
from ottla.wire.frames import SIZE_ROOM, FrameReceiver, seal
from ottla.wire.headers import API_VERSIONS_KEY, decode_correlation_id, encode_request_header, response_body
from ottla.wire.primitives import Buffer
from ottla.wire.schema import Api, Request, Response, decode_prefix, encode
from ottla.wire.transitions import advance
from ottla.wire.versions import PeerVersions

FETCH_KEY = 1
ANSWER_BYTES_MAX = 32 * 1024 * 1024
"""The largest answer without records: Metadata of 700,000 partitions with three replicas."""

IN_FLIGHT_MAX = 64
"""A fetcher has one request in flight and a producer five.

More than this means that the driver does not read.
"""


class ClientState(StrEnum):
    """The states of a connection."""

    NEW = "versions unknown"
    READY = "ready"
    ENDING = "closed by the peer"
    CLOSED = "closed"


class ClientInput(StrEnum):
    """The events that change the state."""

    ASK = "send in a given version"
    SEND = "send in the best version"
    ADOPT = "adopt versions"
    ANSWER = "answer"
    EOF = "end of stream"
    DRAINED = "last answer handed out"
    FAULT = "protocol error"
    CLOSE = "close"


TRANSITIONS: Mapping[ClientState, Mapping[ClientInput, ClientState]] = {
    ClientState.NEW: {
        ClientInput.ASK: ClientState.NEW,
        ClientInput.ADOPT: ClientState.READY,
        ClientInput.ANSWER: ClientState.NEW,
        ClientInput.EOF: ClientState.ENDING,
        ClientInput.FAULT: ClientState.CLOSED,
        ClientInput.CLOSE: ClientState.CLOSED,
    },
    ClientState.READY: {
        ClientInput.ASK: ClientState.READY,
        ClientInput.SEND: ClientState.READY,
        ClientInput.ANSWER: ClientState.READY,
        ClientInput.EOF: ClientState.ENDING,
        ClientInput.FAULT: ClientState.CLOSED,
        ClientInput.CLOSE: ClientState.CLOSED,
    },
    ClientState.ENDING: {
        ClientInput.ANSWER: ClientState.ENDING,
        ClientInput.EOF: ClientState.ENDING,
        ClientInput.DRAINED: ClientState.CLOSED,
        ClientInput.FAULT: ClientState.CLOSED,
        ClientInput.CLOSE: ClientState.CLOSED,
    },
    # Error paths close what is closed, and a transport may report its end after that: both harmless.
    ClientState.CLOSED: {ClientInput.EOF: ClientState.CLOSED, ClientInput.CLOSE: ClientState.CLOSED},
}


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A request on its way: `parts` are to be written in this order, all of them, once."""

    exchange: Exchange
    parts: list[Buffer]
    expects_response: bool


class ReceivedResponse(NamedTuple):
    """A response. `version` is that of the message: 0 where an ApiVersions question was refused (KIP-511).

    Record sets in `message` are views of the received frame, not copies.
    """

    correlation_id: int
    api: Api
    version: int
    message: Response


@dataclass(frozen=True, slots=True)
class Disconnected:
    """The peer closed the connection between two frames; these requests have got no answer."""

    unanswered: tuple[Exchange, ...]


class ClientConnection:
    """One connection to a broker. Not thread-safe: it belongs to the thread that reads the socket."""

    def __init__(
        self,
        *,
        client_id: str | None,
        versions: PeerVersions | None = None,
        in_flight_max: int = IN_FLIGHT_MAX,
        receiver: FrameReceiver | None = None,
    ) -> None:
        self._client_id = client_id
        self._versions = versions
        self._in_flight_max = in_flight_max
        self._receiver = receiver or FrameReceiver()
        self._state = ClientState.NEW if versions is None else ClientState.READY
        self._in_flight: deque[Exchange] = deque()
        self._correlation_id = 0

    @property
    def state(self) -> ClientState:
        """The state of the connection."""
        return self._state

    @property
    def unanswered(self) -> tuple[Exchange, ...]:
        """The requests that wait for an answer, oldest first; after CLOSED, those that will never get one."""
        return tuple(self._in_flight)

    @property
    def is_full(self) -> bool:
        """Whether an answer must arrive before another request may be sent."""
        return len(self._in_flight) >= self._in_flight_max

    def adopt(self, versions: PeerVersions) -> None:
        """Use these versions from now on."""
        self._advance(ClientInput.ADOPT)
        self._versions = versions

    def version_for(self, api: Api, *, at_most: int | None = None) -> int:
        """Return the highest version of `api` that both sides have; see `PeerVersions.version_for`."""
        if self._versions is None:
            raise LocalProtocolError(f"{api.name}: the peer's versions are not known yet; adopt() them first")
        return self._versions.version_for(api, at_most=at_most)

    def send(self, request: Request[Any], *, version: int | None = None) -> Outgoing:
        """Encode a request and count it as in flight.

        Raises LocalProtocolError, leaving everything as it was, if the state, the peer's versions, the
        number in flight or the version's fields do not allow it.
        """
        api = request.API
        after = advance(TRANSITIONS, self._state, ClientInput.SEND if version is None else ClientInput.ASK)
        if self.is_full:
            raise LocalProtocolError(
                f"{api.name}: {len(self._in_flight)} requests are in flight, the limit; read answers first"
            )
        chosen = self._checked_version(api, version)
        exchange = Exchange(api, chosen, self._correlation_id)
        header = encode_request_header(api, chosen, self._correlation_id, self._client_id)
        parts = seal(encode(request, chosen, SIZE_ROOM + header))
        outgoing = Outgoing(exchange, parts, expects_response(request))
        self._state = after
        self._correlation_id = following(self._correlation_id)
        if outgoing.expects_response:
            self._in_flight.append(exchange)
        return outgoing

    def get_buffer(self, hint: int = -1) -> memoryview:
        """Return free memory to receive into; see `FrameReceiver.get_buffer`."""
        return self._receiver.get_buffer(hint)

    def received(self, count: int) -> None:
        """Note that the driver wrote `count` bytes into the last buffer."""
        self._receiver.received(count)

    def eof(self) -> None:
        """Note that the peer closed. What had arrived is still returned by `next_event`, then
        Disconnected.
        """
        self._advance(ClientInput.EOF)

    def close(self) -> None:
        """Close the connection: after a timeout, or when it is not needed. Late answers are ignored."""
        self._advance(ClientInput.CLOSE)

    def next_event(self) -> ReceivedResponse | Disconnected | None:
        """Return the next response or the end of the connection; None until more is received.

        Raises RemoteProtocolError if the peer broke the protocol; the connection is CLOSED then, and
        `unanswered` lists the requests that were lost.
        """
        if self._state is ClientState.CLOSED:
            return None
        try:
            self._check_size()
            frame = self._receiver.next_frame()
            if frame is not None:
                return self._answer(frame)
            return self._end() if self._state is ClientState.ENDING else None
        except RemoteProtocolError:
            self._advance(ClientInput.FAULT)
            raise

    def _check_size(self) -> None:
        """Refuse an answer by its announced size: decoding one without records takes a second per MB."""
        size = self._receiver.announced_bytes
        if size > ANSWER_BYTES_MAX and self._in_flight and self._in_flight[0].api.key != FETCH_KEY:
            raise RemoteProtocolError(
                f"{self._in_flight[0]}: an answer of {size:,} bytes, above the limit of {ANSWER_BYTES_MAX:,}"
            )

    def _checked_version(self, api: Api, version: int | None) -> int:
        if self._versions is None and version is not None:
            return version  # a question to an unknown peer
        chosen = self.version_for(api, at_most=version)
        if version is not None and chosen != version:
            raise LocalProtocolError(f"{api.name} v{version}: the highest common version is {chosen}")
        return chosen

    def _answer(self, frame: memoryview) -> ReceivedResponse:
        correlation_id = decode_correlation_id(frame)
        if not self._in_flight:
            raise RemoteProtocolError(
                f"an answer with correlation id {correlation_id} came, but no request waits for an answer"
            )
        due = self._in_flight[0]
        if correlation_id != due.correlation_id:
            raise RemoteProtocolError(self._out_of_step(due, correlation_id))
        body = response_body(due.api, due.version, frame)
        version = 0 if _is_refusal(due, body) else due.version
        # Bytes after the message are ignored, as every client does.
        message, _ = decode_prefix(due.api.response, version, body)
        self._advance(ClientInput.ANSWER)
        self._in_flight.popleft()
        return ReceivedResponse(correlation_id, due.api, version, message)

    def _out_of_step(self, due: Exchange, correlation_id: int) -> str:
        others = [str(request) for request in self._in_flight if request.correlation_id == correlation_id]
        owner = f"which belongs to {others[0]}" if others else "which no request has"
        return f"answers out of order: {due} is due, but correlation id {correlation_id} came, {owner}"

    def _end(self) -> Disconnected:
        self._receiver.eof()
        self._advance(ClientInput.DRAINED)
        return Disconnected(self.unanswered)

    def _advance(self, what: ClientInput) -> None:
        self._state = advance(TRANSITIONS, self._state, what)


def _is_refusal(exchange: Exchange, body: memoryview) -> bool:
    """Whether an ApiVersions request was refused; such an answer is always in v0 (KIP-511).

    The error code comes first in every version, so it can be read before the format is known.
    """
    if exchange.api.key != API_VERSIONS_KEY or len(body) < 2:
        return False
    return bool(struct.unpack_from(">h", body)[0] == Code.UNSUPPORTED_VERSION)
