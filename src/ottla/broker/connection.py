"""A client's connection: the driver between a socket and `wire.ServerConnection`.

Calls are served as they arrive, and the answers that are ready leave in one write. Only Produce is pipelined:
behind a call that waits (a long poll, a join) the next one waits too, as with Kafka, so that nobody can have
a hundred answers of 50 MB prepared. Reading stops while the peer does not take its answers, or while calls
pile up, here or on the whole node: a slow reader costs only itself.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, cast

from ottla.broker.express import Express
from ottla.broker.serving import DropConnection, Handler, Inquiry
from ottla.model.error_codes import Code
from ottla.model.errors import KafkaError, LocalProtocolError, RemoteProtocolError, StorageError
from ottla.wire.frames import FrameReceiver
from ottla.wire.primitives import Buffer
from ottla.wire.schema import Response
from ottla.wire.server_connection import Call, Disconnected, ServerConnection

if TYPE_CHECKING:
    from ottla.broker.fetching import WaitingFetch
    from ottla.broker.node import Node

log = logging.getLogger(__name__)

CHUNK_BYTES_MIN = 4096
CHUNK_BYTES_MAX = 1 << 18
"""A connection that fills its buffer gets a larger one: fewer reads for the busy, one page for the idle."""

OUTPUT_BYTES_HIGH = 1 << 20
"""Above it the transport asks us to stop. One answer of usual size: the next is prepared meanwhile."""


class Connection(asyncio.BufferedProtocol):
    """One client of one node. All of it runs on the loop."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._handlers = node.handlers
        receiver = FrameReceiver(frame_bytes_max=node.cluster.config.request_bytes_max)
        self.express = Express(node, self)
        self._wire = ServerConnection(served=node.served, receiver=receiver, short_cut=self.express.take)
        self._transport: asyncio.Transport = cast(asyncio.Transport, None)
        self._waiting_for: Call | None = None  # a call that is not pipelined, and not answered yet
        self._is_serving = False
        self._is_paused = False  # the peer does not take its answers
        self._is_holding = False  # more came while a call waits
        self._is_reading = True
        self._chunk_bytes = CHUNK_BYTES_MIN
        self._room = 0
        self._held_bytes = 0  # what the node knows of our unanswered requests
        self.parked: WaitingFetch | None = None
        self.peer_host = ""
        self.last_active = 0.0

    # --- the transport's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(OUTPUT_BYTES_HIGH)
        peer = transport.get_extra_info("peername")
        self.peer_host = str(peer[0]) if peer else ""
        self.last_active = self._node.cluster.loop.time()
        self._node.admit(self)

    def connection_lost(self, _error: Exception | None) -> None:
        self._wire.close()
        if self.parked is not None:
            self.parked.cancel()
        self._hold(0)
        self._node.forget(self)

    def get_buffer(self, _sizehint: int) -> memoryview:
        buffer = self._wire.get_buffer(self._chunk_bytes)
        self._room = len(buffer)
        return buffer

    def buffer_updated(self, count: int) -> None:
        self._wire.received(count)
        self._node.bytes_in += count
        self.last_active = self._node.cluster.loop.time()
        if count == self._room and self._chunk_bytes < CHUNK_BYTES_MAX:
            self._chunk_bytes *= 4
        self._is_holding = self._waiting_for is not None
        self._serve()

    def eof_received(self) -> bool:
        self._wire.eof()
        self._serve()
        return False

    def pause_writing(self) -> None:
        self._is_paused = True
        self.update_reading()

    def resume_writing(self) -> None:
        self._is_paused = False
        self._serve()

    # --- the broker's side

    def answer(self, call: Call, response: Response) -> None:
        """Answer a call that had to wait. What is ready leaves at the end of the turn, or with `flush`."""
        self._respond(call, response)
        if call is self._waiting_for:
            self._waiting_for = None
        self._node.cluster.has_output(self)

    def finish(self, sequence: int, answer: Buffer) -> None:
        """End a call that the express lane took."""
        self._wire.finish(sequence, [answer])
        self._node.cluster.has_output(self)

    def refuse(self, sequence: int, frame: memoryview, error: Code) -> None:
        """End a call that the express lane took, by an error."""
        call = self._wire.call_of(frame, sequence)
        handler = self._handlers[call.api.key]
        self.answer(call, handler.refuse(call.message, error, call.version))

    def flush(self) -> None:
        """Write what is ready, and go on with calls that waited for that."""
        self._write()
        if not self._is_serving:
            self._serve()

    def close(self) -> None:
        """Close after what is ready has been written."""
        self._write()
        self._wire.close()
        self._transport.close()

    def expire(self) -> None:
        """Close after a long silence; a peer that has not taken its answers all that time never will."""
        if self._transport.get_write_buffer_size():
            self.abort()
        else:
            self.close()

    def abort(self) -> None:
        """Cut the connection as a dying broker would."""
        self._wire.close()
        self._transport.abort()

    # --- serving

    def _serve(self) -> None:
        """Serve the calls that are here, up to the first one that has to wait."""
        self._is_serving = True
        wire = self._wire
        try:
            while not self._is_paused and self._waiting_for is None:
                event = wire.next_event()
                if event is None:
                    break
                if isinstance(event, Disconnected):
                    self.close()
                    return
                self._dispatch(event)
                if wire.output_bytes >= OUTPUT_BYTES_HIGH:
                    self._write()  # now, so that the transport can say that the peer does not keep up
        except (RemoteProtocolError, DropConnection) as error:
            self._node.note_fault(self.peer_host, error)
            self.close()
            return
        finally:
            self._is_serving = False
        self._write()
        self._hold(wire.unanswered_bytes)
        self.update_reading()

    def _dispatch(self, call: Call) -> None:
        handler = self._handlers[call.api.key]
        self._node.counts[call.api.key] += 1
        inquiry = Inquiry(self._node, self, call)
        if self._node.faults:
            self._waiting_for = call
            if self._node.faults.strike(inquiry, handler):
                return
            self._waiting_for = None
        self._handle(inquiry, handler)

    def resume(self, inquiry: Inquiry, handler: Handler) -> None:
        """Handle a call that a fault has held back."""
        self._waiting_for = None
        try:
            self._handle(inquiry, handler)
        except DropConnection as error:
            self._node.note_fault(self.peer_host, error)
            self.close()
        else:
            self.flush()

    def _handle(self, inquiry: Inquiry, handler: Handler) -> None:
        """Have a call handled; an error of ours is answered, and no reason to hang up."""
        call = inquiry.call
        if not handler.pipelined:
            self._waiting_for = call
        try:
            response = handler.handle(inquiry, call.message)
        except DropConnection:
            raise
        except KafkaError as error:
            response = handler.refuse(call.message, Code.of(error.code), call.version)
        except StorageError as error:
            log.error("%s v%d from %s: %s", call.api.name, call.version, self.peer_host, error)
            response = handler.refuse(call.message, Code.KAFKA_STORAGE_ERROR, call.version)
        except Exception:
            log.exception("%s v%d from %s failed", call.api.name, call.version, self.peer_host)
            response = handler.refuse(call.message, Code.UNKNOWN_SERVER_ERROR, call.version)
        if response is not None:
            self._waiting_for = None
            self._respond(call, response)

    def _respond(self, call: Call, response: Response) -> None:
        try:
            self._wire.respond(call, response)
        except LocalProtocolError:
            # An error of ours. Without this answer none behind it can leave, so the peer must not wait.
            log.exception("%s v%d from %s has no answer", call.api.name, call.version, self.peer_host)
            self.close()

    def _write(self) -> None:
        size = self._wire.output_bytes
        output = self._wire.take_output()
        if output and not self._transport.is_closing():
            self._node.bytes_out += size
            self.last_active = self._node.cluster.loop.time()
            self._transport.writelines(output)

    def _hold(self, size: int) -> None:
        """Tell the node how many bytes of our requests wait for their answers."""
        change, self._held_bytes = size - self._held_bytes, size
        if change:
            self._node.hold(change)

    def update_reading(self) -> None:
        """Read from the peer, or leave it waiting, as things are now."""
        # A long poll alone is no reason: each would cost two system calls, and hide that the peer has left.
        holds = self._is_holding and self._waiting_for is not None
        wanted = not (self._is_paused or self._wire.is_full or holds or self._node.is_flooded)
        if wanted != self._is_reading and not self._transport.is_closing():
            self._is_reading = wanted
            (self._transport.resume_reading if wanted else self._transport.pause_reading)()
