"""Connections in memory, whose delays, cuts and stalls come from a seed.

A `Link` is a connection with an `End` for each process. Bytes arrive in order, some of them in pieces, each
after a delay of its own. Bytes on their way when a link is cut are lost.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections import deque
from collections.abc import Callable, Iterator
from random import Random
from typing import TYPE_CHECKING, Any, cast

from ottla.testing.simulation.trace import Trace

if TYPE_CHECKING:
    from ottla.testing.simulation.loop import Process

FIRST_PORT = 9092
USUAL_S, SLOW_S = (0.000_05, 0.002), (0.002, 0.25)
SLOW_SHARE = 0.03
PIECES_SHARE = 0.05
BUFFER_BYTES = 64 * 1024
CONNECT_S = 0.001


class Network:
    """All links and listeners. `current` says which process is running."""

    def __init__(self, seed: object, trace: Trace, current: Callable[[], Process | None]) -> None:
        self._seed = seed
        self.trace = trace
        self.current = current
        self.chance_name = b""
        """A name in paths that differs from run to run. Sent bytes have `x`s instead of it."""
        self._listeners: dict[tuple[str, int], Listener] = {}
        self._links: dict[int, Link] = {}
        self._count = 0
        self._ports = FIRST_PORT - 1
        self._stalled_until: dict[Process, float] = {}

    # --- listeners and connections

    def listen(self, factory: Callable[[], asyncio.BaseProtocol], host: str, port: int) -> Listener:
        """Return a listener, which serves from `start_serving` on. Raises OSError if the port is taken."""
        if not port:
            self._ports += 1
            port = self._ports
        if (host, port) in self._listeners:
            raise OSError(f"{host}:{port} is taken")
        listener = Listener(self, factory, host, port)
        self._listeners[host, port] = listener
        return listener

    def forget(self, listener: Listener) -> None:
        """Refuse new connections to a listener."""
        self._listeners.pop((listener.host, listener.port), None)

    async def connect(self, host: str, port: int) -> Socket:
        """Return a link to the listener of an address. Raises ConnectionRefusedError if there is none."""
        self._count += 1
        link = Link(self._count, Random(f"{self._seed} link {self._count}"), self.trace, self)
        await asyncio.sleep(CONNECT_S)
        while True:
            listener = self._listeners.get((host, port))
            process = self.current()
            owners = [] if listener is None else [listener.process]
            wait_s = max((self.stall_s(owner) for owner in [process, *owners]), default=0.0)
            if not wait_s:
                break
            await asyncio.sleep(wait_s)
        if listener is None or not listener.is_serving:
            raise ConnectionRefusedError(111, "Connection refused")
        self._links[link.number] = link
        return Socket(link, listener)

    def adopt(self, made: Socket, protocol: asyncio.BaseProtocol) -> End:
        """Attach a protocol to a link that was connected; returns its transport."""
        link, listener = made.link, made.listener
        near = End(link, protocol, self.current(), (listener.host, listener.port))
        served = listener.context.run(listener.factory)
        far = End(link, served, listener.process, ("127.0.0.1", 30_000 + link.number), listener.context)
        near.peer, far.peer = far, near
        link.ends = (near, far)
        listener.context.run(served.connection_made, far)
        protocol.connection_made(near)
        if not listener.is_serving:
            link.cut(both=True)
        return near

    # --- faults

    @property
    def links(self) -> list[Link]:
        """The open links, the oldest first."""
        return list(self._links.values())

    def ended(self, link: Link) -> None:
        """Forget a link that is closed at both ends."""
        self._links.pop(link.number, None)

    def stall(self, process: Process, until: float) -> None:
        """Hold back all bytes from and to a process until the time `until`."""
        self._stalled_until[process] = max(until, self._stalled_until.get(process, 0.0))

    def stall_s(self, process: Process | None) -> float:
        """Return how long the bytes of a process are still held back."""
        until = None if process is None else self._stalled_until.get(process)
        return 0.0 if until is None else max(0.0, until - asyncio.get_running_loop().time())

    def died(self, process: Process) -> None:
        """Close the listeners of a dead process, and end its links, which its peers notice."""
        for listener in [item for item in self._listeners.values() if item.process is process]:
            listener.close()
        for link in self.links:
            for end in link.ends:
                if end.process is process:
                    end.die()


class Socket:
    """The result of `Network.connect`: a link without a protocol at its near end."""

    def __init__(self, link: Link, listener: Listener) -> None:
        self.link = link
        self.listener = listener

    def close(self) -> None:
        """Drop the link if it was never used."""
        if not self.link.ends:
            self.link.network.ended(self.link)


class Listener:
    """A port of a process."""

    def __init__(
        self, network: Network, factory: Callable[[], asyncio.BaseProtocol], host: str, port: int
    ) -> None:
        self.factory = factory
        self.host, self.port = host, port
        self.process = network.current()
        self.context = contextvars.copy_context()
        self.is_serving = False
        self._network = network

    @property
    def sockets(self) -> list[Listener]:
        """The sockets, as those of asyncio.Server: the listener itself."""
        return [self]

    def getsockname(self) -> tuple[str, int]:
        """Return host and port."""
        return self.host, self.port

    async def start_serving(self) -> None:
        """Accept connections from now on."""
        self.is_serving = True

    def close(self) -> None:
        """Free the port. Connections stay."""
        self.is_serving = False
        self._network.forget(self)

    async def wait_closed(self) -> None:
        """Return at once: `close` does not take time."""


class Link:
    """A connection."""

    def __init__(self, number: int, chance: Random, trace: Trace, network: Network) -> None:
        self.number = number
        self.chance = chance
        self.trace = trace
        self.network = network
        self.ends: tuple[End, ...] = ()

    def __str__(self) -> str:
        names = [end.process.name if end.process is not None else "?" for end in self.ends]
        return f"link {self.number} of {' and '.join(names)}"

    def delay_s(self) -> float:
        """Return the delay of the next bytes."""
        is_slow = self.chance.random() < SLOW_SHARE
        return self.chance.uniform(*(SLOW_S if is_slow else USUAL_S))

    def pieces(self, data: bytes) -> Iterator[bytes]:
        """Yield the bytes, some of them cut in two."""
        if len(data) > 1 and self.chance.random() < PIECES_SHARE:
            at = self.chance.randrange(1, len(data))
            yield data[:at]
            data = data[at:]
        yield data

    def cut(self, *, both: bool = False) -> None:
        """Break the link: one end notices now, the other later, at the latest when it sends."""
        first, second = self.ends
        if self.chance.random() < 0.5:
            first, second = second, first
        first.lose(ConnectionResetError(104, "Connection reset by peer"), 0.0)
        if both or self.chance.random() < 0.7:
            second.lose(ConnectionResetError(104, "Connection reset by peer"), self.delay_s())


class End(asyncio.Transport):
    """The transport of one process."""

    def __init__(
        self,
        link: Link,
        protocol: asyncio.BaseProtocol,
        process: Process | None,
        peername: tuple[str, int],
        context: contextvars.Context | None = None,
    ) -> None:
        super().__init__({"peername": peername})
        self.link = link
        self.process = process
        self.peer: End = cast(End, None)
        self._protocol: Any = protocol
        self._context = context or contextvars.copy_context()
        self._loop = asyncio.get_running_loop()
        self._is_closing = False  # no more is written
        self._is_lost = False  # the protocol has seen the end
        self._is_dead = False  # the process is dead
        self._is_reading = True
        self._unread: deque[bytes | None] = deque()  # None: the end of the stream
        self._unarrived = 0
        self._is_full = False
        self._limit = BUFFER_BYTES
        self._on_way: deque[tuple[float, bytes | None]] = deque()  # to this end, with the time of arrival

    # --- as asyncio's transports

    def get_protocol(self) -> asyncio.BaseProtocol:
        return cast(asyncio.BaseProtocol, self._protocol)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def is_closing(self) -> bool:
        return self._is_closing or self._loop.is_closed()

    def is_reading(self) -> bool:
        return self._is_reading and not self._is_closing

    def get_write_buffer_size(self) -> int:
        return self._unarrived

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:  # noqa: ARG002
        self._limit = BUFFER_BYTES if high is None else high

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._limit // 4, self._limit

    def can_write_eof(self) -> bool:
        return False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._is_closing or not data:
            return
        if self.peer._is_closing and self.peer._is_lost:
            self.lose(BrokenPipeError(32, "Broken pipe"), self.link.delay_s())
            return
        sent, name = bytes(data), self.link.network.chance_name
        if name and name in sent:  # in an error of a broker that names a file
            sent = sent.replace(name, b"x" * len(name))
        for piece in self.link.pieces(sent):
            self._unarrived += len(piece)
            self._send(piece)
        if self._unarrived > self._limit and not self._is_full:
            self._is_full = True
            self._protocol.pause_writing()

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(list_of_data))

    def pause_reading(self) -> None:
        self._is_reading = False

    def resume_reading(self) -> None:
        self._is_reading = True
        self._loop.call_soon(self._read, context=self._context)

    def close(self) -> None:
        """Close this end; the peer still gets all bytes that were written."""
        if not self._is_closing:
            self._is_closing = True
            self._send(None)
            self._loop.call_soon(self._tell_lost, None, context=self._context)

    def abort(self) -> None:
        """Break the connection; written bytes that have not arrived are lost."""
        if not self._is_closing:
            self.lose(None, 0.0)
            self.peer.lose(ConnectionResetError(104, "Connection reset by peer"), self.link.delay_s())

    # --- on the way

    def _send(self, data: bytes | None) -> None:
        at = self._loop.time() + self.link.delay_s()
        self.peer._on_way.append((at, data))
        self._loop.call_at(at, self.peer._arrive, context=self.peer._context)

    def _arrive(self) -> None:
        """Take in the bytes that have arrived, in the order in which they were sent."""
        held_s = max(self.link.network.stall_s(self.process), self.link.network.stall_s(self.peer.process))
        if held_s:
            self._loop.call_later(held_s, self._arrive, context=self._context)
            return
        now = self._loop.time()
        while self._on_way and self._on_way[0][0] <= now:
            self._take_in(self._on_way.popleft()[1])
        if self._on_way:  # pieces behind a slow piece wait for it
            self._loop.call_at(self._on_way[0][0], self._arrive, context=self._context)

    def _take_in(self, data: bytes | None) -> None:
        if self._is_lost or self._is_closing:
            if data is not None and not self.peer._is_closing:
                self.peer.lose(ConnectionResetError(104, "Connection reset by peer"), self.link.delay_s())
            return
        self._unread.append(data)
        if self._is_reading:
            self._read()

    def _read(self) -> None:
        while self._unread and self._is_reading and not self._is_lost:
            data = self._unread.popleft()
            self.link.trace.arrived(self.link.number, data)
            if data is None:
                if not self._protocol.eof_received():
                    self.close()
                return
            self._feed(data)
            self.peer._taken(len(data))

    def _feed(self, data: bytes) -> None:
        protocol = self._protocol
        if not isinstance(protocol, asyncio.BufferedProtocol):
            protocol.data_received(data)
            return
        rest = memoryview(data)
        while rest and not self._is_lost:
            room = memoryview(protocol.get_buffer(len(rest)))
            count = min(len(room), len(rest))
            room[:count] = rest[:count]
            protocol.buffer_updated(count)
            rest = rest[count:]

    def _taken(self, count: int) -> None:
        self._unarrived -= count
        if self._is_full and self._unarrived <= self._limit // 4:
            self._is_full = False
            self._loop.call_soon(self._protocol.resume_writing, context=self._context)

    # --- the end

    def lose(self, error: Exception | None, after_s: float) -> None:
        """Break the connection at this end, and tell the protocol."""
        if not self._is_lost:
            self._loop.call_later(after_s, self._tell_lost, error, context=self._context)
            self._is_closing = True
            self._unread.clear()

    def _tell_lost(self, error: Exception | None) -> None:
        if not self._is_lost:
            self._is_lost = True
            self.link.trace.note(f"link {self.link.number} lost at {self.process}")
            self._protocol.connection_lost(error)
            self._gone()

    def die(self) -> None:
        """Close the end of a dead process: the peer gets the bytes that were written, then the end."""
        if not self._is_closing:
            self._is_closing = True
            self._send(None)
        self._is_lost = self._is_dead = True
        self._gone()

    def _gone(self) -> None:
        if self.peer._is_lost:
            self.link.network.ended(self.link)
