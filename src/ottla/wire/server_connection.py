"""The broker's side of one connection: bytes → calls, responses → bytes in order. No socket, no clock.

Theory of operation. Calls are numbered as they arrive. Handlers may answer in any order, a long poll last
of all, but bytes leave strictly in the order of the calls: an answer waits here until all before it have
left. A call with no answer on the wire (Produce with acks=0) takes its number too and is answered like any
other, so handlers need not know; nothing is emitted for it.

A call that has not left counts as in flight, whether it waits for its handler or behind another, since
either way it holds memory. At the limit `next_event` gives nothing more and `is_full` tells the driver to
stop reading, which slows down a peer that sends faster than it is served.

    OPEN     calls come in, answers go out
    ENDING   the peer has closed; calls that had arrived are still handed out (acks=0 and gone is common)
    CLOSED   over; late answers are dropped, because a long poll cannot know that its peer has left

A request with thousands of elements takes long to decode. It is handed out as a `LongCall`, which has its
number; the driver decodes it where there is time for that (`call_of`, in any thread).

A driver may take the frames of calls that it recognizes by their bytes (`ShortCut`): they are counted and
their answers ordered like the others, but it reads and writes them itself. That is what a broker does with
the simplest produce requests, for which decoding costs as much as all the rest.

ApiVersions in a version that is not served is answered here, in format v0 with error 35 and the range
that is (KIP-511). Any other call that is not served is a RemoteProtocolError: the driver closes, as
Kafka does, for there is no format in which the peer would understand a refusal.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from ottla.model.error_codes import Code
from ottla.model.errors import LocalProtocolError, RemoteProtocolError
from ottla.wire.api.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.exchange import expects_response
from ottla.wire.frames import SIZE_ROOM, FrameReceiver, seal
from ottla.wire.headers import RequestHeader, decode_request_header, encode_response_header, request_body
from ottla.wire.primitives import Buffer, LongRequest
from ottla.wire.registry import api
from ottla.wire.schema import Api, Request, Response, decode_at_once, decode_long, encode
from ottla.wire.transitions import advance
from ottla.wire.version_range import VersionRange

IN_FLIGHT_MAX = 100
"""How many calls may be in flight.

Idempotent producers pipeline 5, librdkafka with acks=0 far more; each may hold one batch in memory.
"""


class ServerState(StrEnum):
    """The states of a connection."""

    OPEN = "open"
    ENDING = "closed by the peer"
    CLOSED = "closed"


class ServerInput(StrEnum):
    """The events that change the state."""

    CALL = "call"
    RESPOND = "respond"
    EOF = "end of stream"
    DRAINED = "last call handed out"
    FAULT = "protocol error"
    CLOSE = "close"


_CLOSED = ServerState.CLOSED  # to look it up in its enum takes as long as a call

TRANSITIONS: Mapping[ServerState, Mapping[ServerInput, ServerState]] = {
    ServerState.OPEN: {
        ServerInput.CALL: ServerState.OPEN,
        ServerInput.RESPOND: ServerState.OPEN,
        ServerInput.EOF: ServerState.ENDING,
        ServerInput.FAULT: ServerState.CLOSED,
        ServerInput.CLOSE: ServerState.CLOSED,
    },
    ServerState.ENDING: {
        ServerInput.CALL: ServerState.ENDING,
        ServerInput.RESPOND: ServerState.ENDING,
        ServerInput.EOF: ServerState.ENDING,
        ServerInput.DRAINED: ServerState.CLOSED,
        ServerInput.FAULT: ServerState.CLOSED,
        ServerInput.CLOSE: ServerState.CLOSED,
    },
    # Error paths close what is closed, and a transport may report its end after that: both harmless.
    ServerState.CLOSED: {
        ServerInput.RESPOND: ServerState.CLOSED,
        ServerInput.EOF: ServerState.CLOSED,
        ServerInput.CLOSE: ServerState.CLOSED,
    },
}


@dataclass(frozen=True, slots=True)
class ServedApis:
    """The versions that a broker accepts, by API key. Made once and shared by all its connections.

    What the ApiVersions handler advertises may differ (Kafka 4 advertises Produce from 0 but serves it from
    3). An API is loaded by its first call.
    """

    ranges: Mapping[int, VersionRange]

    def find(self, header: RequestHeader) -> Api | None:
        """Return the API of a call; None for ApiVersions in a version that is not served.

        Raises RemoteProtocolError for anything else that is not served.
        """
        served = self.ranges.get(header.key)
        if served is not None and header.version in served:
            return api(header.key)
        if served is not None and header.key == ApiVersionsRequest.API.key:
            return None
        what = api(header.key).name if served is not None else "an API"
        has = f"versions {served} are" if served is not None else "the key is not"
        raise RemoteProtocolError(
            f"client {header.client_id!r} called {what} with key {header.key} in version {header.version}; "
            f"{has} served here"
        )


ShortCut = Callable[[memoryview, int], bool]
"""Called with a frame and its sequence number. Returns True if it takes the call, which `finish`
then ends.
"""


class ReceivedRequest(NamedTuple):
    """A request to be answered by `respond`. `sequence` is its number on this connection.

    Record sets in `message` are writable views of the received `frame`. A tuple, because one is made for
    every request and a frozen dataclass takes twice as long.
    """

    sequence: int
    api: Api
    version: int
    correlation_id: int
    client_id: str | None
    message: Request[Any]
    expects_response: bool
    frame: memoryview


class LongCall(NamedTuple):
    """A request that takes long to decode: `ServerConnection.call_of` does it."""

    sequence: int
    frame: memoryview


@dataclass(frozen=True, slots=True)
class ClientDisconnected:
    """The peer closed the connection between two frames, and everything that it sent has been handed out."""


class ServerConnection:
    """One connection from a client. Not thread-safe: it belongs to the broker's loop."""

    def __init__(
        self,
        *,
        served: ServedApis,
        in_flight_max: int = IN_FLIGHT_MAX,
        receiver: FrameReceiver | None = None,
        short_cut: ShortCut | None = None,
    ) -> None:
        self._served = served
        self._in_flight_max = in_flight_max
        self._receiver = receiver or FrameReceiver()
        self._short_cut = short_cut
        self._state = ServerState.OPEN
        self._sequence_in = 0  # of the next call to arrive
        self._sequence_out = 0  # of the next answer to leave
        self._answers: dict[int, list[Buffer]] = {}  # those that wait for an earlier one
        self._output: list[Buffer] = []
        self._frame_sizes: deque[int] = deque()  # of the calls in flight, oldest first
        self.output_bytes = 0  # in `take_output`
        self.unanswered_bytes = 0  # of frames whose answers have not left

    @property
    def state(self) -> ServerState:
        """The state of the connection."""
        return self._state

    @property
    def in_flight_count(self) -> int:
        """The number of calls that were handed out and whose answers were not written yet."""
        return self._sequence_in - self._sequence_out

    @property
    def is_full(self) -> bool:
        """Whether the driver should stop reading; `next_event` continues when the next answer was written."""
        return self._sequence_in - self._sequence_out >= self._in_flight_max

    @property
    def partial_bytes(self) -> int:
        """Bytes that were received and not handed out: mostly of an incomplete frame."""
        return self._receiver.partial_bytes

    def get_buffer(self, hint: int = -1) -> memoryview:
        """Return free memory to receive into; see `FrameReceiver.get_buffer`."""
        return self._receiver.get_buffer(hint)

    def received(self, count: int) -> None:
        """Note that the driver wrote `count` bytes into the last buffer."""
        self._receiver.received(count)

    def eof(self) -> None:
        """Note that the peer closed.

        What had arrived is still returned by `next_event`, then ClientDisconnected.
        """
        self._advance(ServerInput.EOF)

    def close(self) -> None:
        """Close the connection. Later answers are dropped, and the memory for requests is released."""
        self._advance(ServerInput.CLOSE)
        self._receiver.release()

    def next_event(self) -> ReceivedRequest | LongCall | ClientDisconnected | None:
        """Return the next call or the end of the connection; None until more is received or, if full,
        answered.

        May add output (see `take_output`). Raises RemoteProtocolError if the peer broke the protocol or
        asked for an API or version that is not served; the connection is CLOSED then.
        """
        try:
            while self._state is not _CLOSED and not self.is_full:
                frame = self._receiver.next_frame()
                if frame is None:
                    return self._end() if self._state is ServerState.ENDING else None
                if self._short_cut is not None and self._short_cut(frame, self._sequence_in):
                    self._sequence_in += 1
                    self._hold(frame)
                    continue
                call = self._call(frame)
                if call is not None:
                    return call
        except RemoteProtocolError:
            self._advance(ServerInput.FAULT)
            raise
        return None

    def respond(self, call: ReceivedRequest, message: Response) -> None:
        """Answer a call, in any order. A call that expects no response is ended in the same way.

        Raises LocalProtocolError for a second answer, for one of another type and for values that the
        call's version cannot carry; the call is then still open.
        """
        after = advance(TRANSITIONS, self._state, ServerInput.RESPOND)
        if after is ServerState.CLOSED:
            return
        if call.sequence in self._answers or not self._sequence_out <= call.sequence < self._sequence_in:
            raise LocalProtocolError(
                f"{call.api.name} v{call.version} #{call.correlation_id} was answered before, or elsewhere"
            )
        self.finish(call.sequence, encoded_answer(call, message))

    def take_output(self) -> list[Buffer]:
        """Return what is to be written now, in this order; it belongs to the driver from then on."""
        output, self._output = self._output, []
        self.output_bytes = 0
        return output

    def call_of(self, frame: memoryview, sequence: int) -> ReceivedRequest:
        """Return the call of a frame that the short cut took and cannot answer, or of a long call.

        Any thread may call it. Raises RemoteProtocolError.
        """
        call = self._decoded(frame, sequence, decode_long)
        if not isinstance(call, ReceivedRequest):
            raise LocalProtocolError(f"call {sequence} is none that a short cut may take")
        return call

    def _call(self, frame: memoryview) -> ReceivedRequest | LongCall | None:
        sequence = self._sequence_in
        decoded: ReceivedRequest | LongCall | RequestHeader
        try:
            decoded = self._decoded(frame, sequence, decode_at_once)
        except LongRequest:
            decoded = LongCall(sequence, frame)
        self._count_call()
        self._hold(frame)
        if not isinstance(decoded, RequestHeader):
            return decoded
        self.finish(sequence, self._refusal(decoded))
        return None

    def _decoded(
        self,
        frame: memoryview,
        sequence: int,
        decode: Callable[[type[Request[Any]], int, memoryview], Request[Any]],
    ) -> ReceivedRequest | RequestHeader:
        """Return the call, or only its header if ApiVersions is called in a version that is not served."""
        header, rest = decode_request_header(frame)
        api = self._served.find(header)
        if api is None:
            return header
        # Bytes after the message are ignored, as Kafka does: librdkafka leaves some in Metadata v9+.
        message = decode(api.request, header.version, request_body(api, header.version, rest))
        return ReceivedRequest(
            sequence,
            api,
            header.version,
            header.correlation_id,
            header.client_id,
            message,
            expects_response(message),
            frame,
        )

    def _refusal(self, header: RequestHeader) -> list[Buffer]:
        served = self._served.ranges[header.key]
        offer = ApiVersion(api_key=header.key, min_version=served.oldest, max_version=served.newest)
        refusal = ApiVersionsResponse(error_code=Code.UNSUPPORTED_VERSION, api_keys=[offer])
        return _encoded(header.correlation_id, 0, refusal)

    def _count_call(self) -> None:
        self._advance(ServerInput.CALL)
        self._sequence_in += 1

    def finish(self, sequence: int, parts: list[Buffer]) -> None:
        """End a call with the bytes of its answer. For calls that were handed out, `respond` does it."""
        if sequence == self._sequence_out and not self._answers:
            self._let_leave(parts)
            return
        self._answers[sequence] = parts
        while (ready := self._answers.pop(self._sequence_out, None)) is not None:
            self._let_leave(ready)

    def _hold(self, frame: memoryview) -> None:
        self._frame_sizes.append(len(frame))
        self.unanswered_bytes += len(frame)

    def _let_leave(self, parts: list[Buffer]) -> None:
        self._output += parts
        self.output_bytes += len(parts[0]) if len(parts) == 1 else sum(map(len, parts))
        self._sequence_out += 1
        self.unanswered_bytes -= self._frame_sizes.popleft()

    def _end(self) -> ClientDisconnected:
        self._receiver.eof()
        self._advance(ServerInput.DRAINED)
        return ClientDisconnected()

    def _advance(self, what: ServerInput) -> None:
        self._state = advance(TRANSITIONS, self._state, what)
        if self._state is ServerState.CLOSED:
            # A long poll may keep this object, but must not keep the calls that waited for it.
            self._answers.clear()


def encoded_answer(call: ReceivedRequest, message: Response) -> list[Buffer]:
    """Return the bytes of an answer, for `ServerConnection.finish`. Any thread may call it.

    Raises LocalProtocolError for an answer of another type or that the call's version cannot carry.
    """
    if type(message) is not call.api.response:
        raise LocalProtocolError(f"{type(message).__name__} is no answer to {call.api.name}")
    return _encoded(call.correlation_id, call.version, message) if call.expects_response else []


def _encoded(correlation_id: int, version: int, message: Response) -> list[Buffer]:
    header = encode_response_header(message.API, version, correlation_id)
    return seal(encode(message, version, SIZE_ROOM + header))
