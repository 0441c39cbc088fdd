"""A client's connection: the driver between a socket and `wire.ServerConnection`.

Calls are served as they arrive, and the answers that are ready leave in one write. Only Produce is pipelined:
while a call waits (a long poll, a join), the next one waits too, as with Kafka, so that no client can have a
hundred answers of 50 MB prepared. Reading stops while the peer does not take its answers, or while too many
calls are unanswered. Memory has a total (`memory`): at its limit connections that hold much are not read.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Hashable
from functools import partial
from typing import TYPE_CHECKING, TypeVar, cast

from ottla.broker.security.principal import ANONYMOUS
from ottla.broker.serving.answer_writer import UNSENT_BYTES_HIGH, AnswerWriter
from ottla.broker.serving.connection_context import ConnectionContext
from ottla.broker.serving.express_lane import ExpressLane
from ottla.broker.serving.handler import Cancellable, DividedCall, DropConnection, Handler, Inquiry, refusal
from ottla.broker.serving.throttle import Throttle
from ottla.broker.storage.memory import SMALL_BYTES
from ottla.model.error_codes import Code
from ottla.model.errors import LocalProtocolError, OttlaError, RemoteProtocolError
from ottla.wire.api.produce import ProduceRequest
from ottla.wire.frames import FrameReceiver
from ottla.wire.primitives import Buffer
from ottla.wire.schema import Response
from ottla.wire.server_connection import (
    ClientDisconnected,
    LongCall,
    ReceivedRequest,
    ServerConnection,
    encoded_answer,
)

if TYPE_CHECKING:
    from ottla.broker.serving.login_gate import LoginGate

log = logging.getLogger(__name__)

T = TypeVar("T")

CHUNK_BYTES_MIN = 4096
CHUNK_BYTES_MAX = 1 << 18
"""The limits of the receive buffer. It grows when it is filled: few reads if busy, one page if idle."""


class BrokerConnection(asyncio.BufferedProtocol):
    """One client of one broker. All of it runs on the loop."""

    def __init__(self, context: ConnectionContext) -> None:
        self._broker = context.broker
        self._loop = context.broker.runtime.loop
        self._traffic = context.traffic
        self._faults = context.faults
        self._output = context.output
        self._handler = context.handler
        self._handle_of = context.handle_of
        self._security = context.security
        self.listener = context.security.listener.name
        self.principal = ANONYMOUS
        self.login_gate: LoginGate | None = None
        self._receiver = FrameReceiver(frame_bytes_max=context.request_bytes_max)
        self._express = ExpressLane(context.broker, context.faults, context.traffic, self)
        short_cut = context.lane_of(self._express)
        session, sasl = context.security.session(), context.security.listener.sasl
        if session is not None and sasl is not None:
            from ottla.broker.serving.login_gate import LoginGate

            self.login_gate = LoginGate(session, sasl, context.security.unauthenticated, short_cut, self)
            short_cut = self.login_gate.take
        self._wire = ServerConnection(
            served=context.broker.served, receiver=self._receiver, short_cut=short_cut
        )
        # The unanswered call that holds back the next ones.
        self._waiting_for: ReceivedRequest | LongCall | None = None
        self._is_serving = False
        self._is_reading = True
        self._is_paused = False  # the peer does not take its answers
        self._is_holding = False  # more bytes came while a call waits
        self._chunk_bytes = CHUNK_BYTES_MIN
        self._room = 0
        self._held_bytes = 0  # what `traffic` knows of our unanswered requests
        self.throttle = Throttle(self._broker.quotas, self._broker.sessions, self._loop, self)
        self.answers = AnswerWriter(context.broker.memory, self._loop)
        self.last_active = 0.0
        self.parked: Cancellable | None = None
        self.on_leave: dict[Hashable, Callable[[], None]] = {}
        self.peer_host = ""
        self.is_cut = False
        self.has_left = False

    # --- the transport's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.answers.connected(cast(asyncio.Transport, transport))
        peer = transport.get_extra_info("peername")
        self.peer_host = str(peer[0]) if peer else ""
        self.last_active = self._loop.time()
        self._traffic.admit(self)
        certified = self._security.certified(transport.get_extra_info("ssl_object"))
        if certified is None:
            self.drop(RemoteProtocolError("no rule of ssl.principal.mapping.rules fits its certificate"))
        elif self.login_gate is None:
            self.principal = certified

    def admit(self) -> None:
        """Note that the client has logged in: its requests may be as large as those of others."""
        self._receiver.allow(self._broker.store.config.request_bytes_max)

    def connection_lost(self, _error: Exception | None) -> None:
        self.has_left = True
        if self.login_gate is not None:
            self.login_gate.forget()
        self._wire.close()
        self.throttle.end()
        if self.parked is not None:
            self.parked.cancel()
        for callback in self.on_leave.values():
            callback()
        self._hold(0)
        self.answers.lost()
        self._traffic.forget(self)

    def get_buffer(self, _sizehint: int) -> memoryview:
        buffer = self._wire.get_buffer(self._chunk_bytes)
        self._room = len(buffer)
        return buffer

    def buffer_updated(self, count: int) -> None:
        self._wire.received(count)
        self._traffic.bytes_in += count
        self.last_active = self._loop.time()
        if count == self._room and self._chunk_bytes < CHUNK_BYTES_MAX:
            self._chunk_bytes *= 4
        self._is_holding = self._waiting_for is not None
        self._serve()
        if self.login_gate is not None:
            self.login_gate.holds(self._receiver.held_bytes)

    def eof_received(self) -> bool:
        self._wire.eof()
        self._serve()
        return self.answers.closes_late

    def pause_writing(self) -> None:
        self._is_paused = True
        self.answers.count()
        self.update_reading()

    def resume_writing(self) -> None:
        self._is_paused = False
        self.answers.count()
        self._serve()

    # --- the broker's side

    def sends_files(self) -> bool:
        """Whether records may be left in their files."""
        return self.answers.sends_files(self)

    def answer(self, call: ReceivedRequest, response: Response) -> None:
        """Answer a call that had to wait. Ready answers are written at the end of the turn, or by `flush`."""
        self._respond(call, response)
        if call is self._waiting_for:
            self._waiting_for = None
        self._output.add(self)

    def answer_large(self, call: ReceivedRequest, response: Response) -> None:
        """Answer a call that had to wait. A thread encodes the answer."""
        if self._broker.runtime.is_closed:
            return
        encoding = self._in_thread(encoded_answer, call, self.throttle.settled(call, response))
        encoding.add_done_callback(partial(self._encoded, call))

    def _encoded(self, call: ReceivedRequest, done: asyncio.Future[list[Buffer]]) -> None:
        if (error := done.exception()) is not None:
            self._give_up(call, error)
            return
        self._wire.finish(call.sequence, done.result())
        if call is self._waiting_for:
            self._waiting_for = None
        self._output.add(self)

    def fail(self, call: ReceivedRequest, error: BaseException) -> None:
        """Answer a call that had to wait with what an error means to the client."""
        self.answer(call, self._refusal(call, error))

    def hold_back(self, call: ReceivedRequest) -> None:
        """Serve the next calls after this one is answered, though its kind is pipelined."""
        self._waiting_for = call

    def finish(self, sequence: int, answer: Buffer) -> None:
        """End a call that the express lane took."""
        self._wire.finish(sequence, [answer])
        self._output.add(self)

    def refuse(self, sequence: int, frame: memoryview, error: Code) -> None:
        """End a call that the express lane took, by an error."""
        call = self._wire.call_of(frame, sequence)
        handler = self._handler(call.api.key)
        self.answer(call, handler.refuse(call.message, error, call.version))

    def flush(self) -> None:
        """Write what is ready, and serve calls that waited for that."""
        self._write()
        if not self._is_serving:
            self._serve()

    def close(self) -> None:
        """Close after what is ready has been written."""
        self._write()
        self._wire.close()
        self.answers.transport.close()

    def expire(self) -> None:
        """Close after a long silence. A peer that has not taken its answers in that time is cut."""
        if self.answers.unsent_bytes:
            self.abort()
        else:
            self.close()

    def drop(self, error: OttlaError) -> None:
        """Close because of an error that no answer can carry, and log it."""
        self._traffic.count_fault(self.peer_host, error)
        self.close()

    def learn(self, call: ReceivedRequest, request: ProduceRequest) -> None:
        """Remember the shape of a produce request, so that the next one can take the express lane."""
        self._express.learn(call, request)

    def abort(self) -> None:
        """Cut the connection as a dying broker would. What waits for the peer counts until it is freed."""
        self.is_cut = True
        self._hold(0)
        self._wire.close()
        self.answers.abort()

    # --- serving

    def _serve(self) -> None:
        """Serve the calls that are here, up to the first one that has to wait."""
        self._is_serving = True
        wire = self._wire
        try:
            while not self._is_paused and self._waiting_for is None and not self.throttle.is_muted:
                event = wire.next_event()
                if event is None:
                    break
                if isinstance(event, ClientDisconnected):
                    self.close()
                    return
                if isinstance(event, LongCall):
                    self._decode_later(event)
                    break
                self._dispatch(event)
                if wire.output_bytes >= UNSENT_BYTES_HIGH:
                    self._write()  # now, so that the transport notices if the peer does not keep up
        except (RemoteProtocolError, DropConnection) as error:
            self.drop(error)
            return
        finally:
            self._is_serving = False
        self._write()
        if not self.answers.transport.is_closing():  # a call may be answered after its client has left
            self._hold(wire.unanswered_bytes + wire.partial_bytes)
        self.update_reading()

    def _decode_later(self, call: LongCall) -> None:
        """Have a thread decode a request of many elements. The next calls wait."""
        self._waiting_for = call
        decoding = self._in_thread(self._wire.call_of, call.frame, call.sequence)
        decoding.add_done_callback(self._decoded)

    def _decoded(self, done: asyncio.Future[ReceivedRequest]) -> None:
        """Handle a request that a thread has decoded, also if its client has left since."""
        self._waiting_for = None
        if self._broker.runtime.is_closed:
            return
        try:
            self._dispatch(done.result())
        except (RemoteProtocolError, DropConnection) as error:
            self.drop(error)
        else:
            self.flush()

    def _in_thread(self, work: Callable[..., T], *arguments: object) -> asyncio.Future[T]:
        return self._loop.run_in_executor(self._broker.runtime.checkers, work, *arguments)

    def _dispatch(self, call: ReceivedRequest) -> None:
        handler = self._handler(call.api.key)
        self._traffic.calls[call.api.key] += 1
        inquiry = Inquiry(self._broker, self, call)
        if self._faults:
            self._waiting_for = call
            if self._faults.strike(inquiry, handler, self):
                return
            self._waiting_for = None
        self._handle(inquiry, handler)

    def resume(self, inquiry: Inquiry, handler: Handler) -> None:
        """Handle a call that a fault held back."""
        self._waiting_for = None
        try:
            self._handle(inquiry, handler)
        except DropConnection as error:
            self.drop(error)
        else:
            self.flush()

    def _handle(self, inquiry: Inquiry, handler: Handler) -> None:
        """Handle a call. An error of ours is answered; the connection stays."""
        call = inquiry.call
        if not handler.pipelined:
            self._waiting_for = call
        handle = self._handle_of(handler)
        self.throttle.begin()
        for division in handler.divisions:
            if division.is_long(call.message):
                DividedCall(inquiry, handle, division).handle_next()
                return
        try:
            response = handle(inquiry, call.message)
        except DropConnection:
            raise
        except Exception as error:  # noqa: BLE001 - an error of ours is logged, and answered
            response = self._refusal(call, error)
        if response is not None:
            self._waiting_for = None
            self._respond(call, response)
        else:
            self.throttle.pause(call)

    def _refusal(self, call: ReceivedRequest, error: BaseException) -> Response:
        return refusal(self._handler(call.api.key), call, error, self.peer_host)

    def _respond(self, call: ReceivedRequest, response: Response) -> None:
        try:
            self._wire.respond(call, self.throttle.settled(call, response))
        except LocalProtocolError as error:
            self._give_up(call, error)

    def _give_up(self, call: ReceivedRequest, error: BaseException) -> None:
        """Close: an error of ours left a call without an answer, and later answers cannot be sent
        before it.
        """
        text = "%s v%d from %s has no answer"
        log.error(text, call.api.name, call.version, self.peer_host, exc_info=error)
        self.close()

    def _write(self) -> None:
        size = self._wire.output_bytes
        output = self._wire.take_output()
        if output and not self.answers.transport.is_closing():
            self._traffic.bytes_out += size
            self.last_active = self._loop.time()
            self.answers.write(output, size)

    @property
    def partial_bytes(self) -> int:
        """Bytes of a request that has not come whole."""
        return self._wire.partial_bytes

    def _hold(self, size: int) -> None:
        """Report how many bytes of our requests wait for their answers."""
        change, self._held_bytes = size - self._held_bytes, size
        if change:
            self._traffic.hold(change)

    def update_reading(self) -> None:
        """Read from the peer, or stop reading, as things are now."""
        # A long poll alone does not stop reading: that costs two system calls, and hides that a peer has
        # left.
        holds = self._is_holding and self._waiting_for is not None
        is_greedy = self._traffic.is_flooded and self._held_bytes > SMALL_BYTES
        wanted = not (self._is_paused or self._wire.is_full or holds or is_greedy or self.throttle.is_muted)
        transport = self.answers.transport
        if wanted != self._is_reading and not transport.is_closing():
            self._is_reading = wanted
            (transport.resume_reading if wanted else transport.pause_reading)()
