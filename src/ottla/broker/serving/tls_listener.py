"""A listener with TLS: it accepts connections and shakes hands before a broker's connection is made.

A thread computes the handshakes, a step at a time, so that clients who are logged in do not wait for the
signatures of strangers. Steps are taken from the peers' hosts in turn, and while some wait the thread rests
twice as long as it works: strangers get at most a third of a processor. A peer that is silent costs a
descriptor; the number of handshakes is limited, and the greediest host loses its oldest one first.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue

from ottla.broker.serving.tls_transport import TlsTransport

log = logging.getLogger(__name__)

ACCEPT_AGAIN_S = 1.0
"""How long a listener waits when the process has no descriptor left."""
REST = 2.0
"""How long the thread rests while steps wait, for each second of work. The loop's part comes on top."""
HANDSHAKE_S = 30.0
"""How long a peer may take for its handshake."""
HANDSHAKES_MAX = 1_000
FAREWELL_S = 1.0
FAREWELL_BYTES = 64 * 1024
"""A refused peer gets time to read the alert: its bytes are dropped for FAREWELL_S, up to this size.

Otherwise the system would reset the connection, and the peer would lose the alert.
"""

MakeProtocol = Callable[[], asyncio.BufferedProtocol]


class Handshake:
    """A peer whose handshake is not done. Its socket belongs to the loop, or to the thread during a step."""

    __slots__ = ("_context", "_plain", "_tls", "descriptor", "host", "is_over", "make_protocol", "timer")

    def __init__(
        self, plain: socket.socket, host: str, context: ssl.SSLContext, make_protocol: MakeProtocol
    ) -> None:
        self.descriptor = plain.fileno()
        self.host = host
        self.make_protocol = make_protocol
        self._plain = plain
        self._context = context
        self._tls: ssl.SSLSocket | None = None
        self.timer: asyncio.TimerHandle | None = None
        self.is_over = False

    def step(self) -> tuple[OSError | None, float]:
        """Continue as far as the peer's bytes allow.

        Returns the error that stops it (None: done), and the time it took.
        """
        began_s = time.thread_time()
        error: OSError | None = None
        try:
            if self._tls is None:
                self._tls = self._context.wrap_socket(
                    self._plain, server_side=True, do_handshake_on_connect=False
                )
            self._tls.do_handshake()
        except OSError as hindrance:
            error = hindrance
        except ValueError as hindrance:
            error = OSError(errno.EPROTO, f"{hindrance}")
        return error, time.thread_time() - began_s

    @property
    def connection(self) -> socket.socket:
        """The socket, whether TLS has begun or not."""
        return self._tls or self._plain


class Handshakes:
    """All handshakes of a process. Belongs to the loop; `close` ends its thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._steps: SimpleQueue[Handshake | None] = SimpleQueue()
        self._thread: threading.Thread | None = None  # begins with the first handshake
        self._open: dict[Handshake, None] = {}  # the oldest first
        self._ready: dict[str, deque[Handshake]] = {}  # by host; the host whose turn is next is first
        self._is_busy = False
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._open)

    def begin(self, handshake: Handshake) -> None:
        """Shake hands with a peer as soon as it says something."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="ottla-handshakes", daemon=True)
            self._thread.start()
        if len(self._open) >= HANDSHAKES_MAX:
            self._drop_one()
        self._open[handshake] = None
        handshake.timer = self._loop.call_later(HANDSHAKE_S, self._too_late, handshake)
        self._loop.add_reader(handshake.descriptor, self._is_readable, handshake)

    def close(self) -> None:
        """Drop all, and end the thread."""
        self._is_closed = True
        if self._thread is not None:
            self._steps.put(None)
            self._thread.join()
        for handshake in list(self._open):
            self._forget(handshake)
            handshake.connection.close()

    def drop_of(self, make_protocol: MakeProtocol) -> None:
        """Drop the handshakes of a listener that is closed."""
        for handshake in [each for each in self._open if each.make_protocol is make_protocol]:
            self._forget(handshake)

    # --- steps

    def _is_readable(self, handshake: Handshake) -> None:
        self._loop.remove_reader(handshake.descriptor)
        self._queue(handshake)

    def _is_writable(self, handshake: Handshake) -> None:
        self._loop.remove_writer(handshake.descriptor)
        self._queue(handshake)

    def _queue(self, handshake: Handshake) -> None:
        self._ready.setdefault(handshake.host, deque()).append(handshake)
        if not self._is_busy:
            self._next()

    def _next(self) -> None:
        """Have the thread do a step for the host whose turn it is."""
        self._is_busy = False
        while self._ready and not self._is_closed:
            host = next(iter(self._ready))
            waiting = self._ready.pop(host)
            handshake = waiting.popleft()
            if waiting:
                self._ready[host] = waiting
            if handshake.is_over:
                handshake.connection.close()
            else:
                self._is_busy = True
                self._steps.put(handshake)
                return

    def _run(self) -> None:
        """The thread. A future for each step would cost the loop as much as all the rest of a handshake."""
        while (handshake := self._steps.get()) is not None:
            error, took_s = handshake.step()
            self._loop.call_soon_threadsafe(self._stepped, handshake, error, took_s)

    def _stepped(self, handshake: Handshake, error: OSError | None, took_s: float) -> None:
        if self._is_closed:
            handshake.connection.close()
            return
        if self._ready:
            self._loop.call_later(took_s * REST, self._next)
        else:
            self._is_busy = False
        if handshake.is_over:
            handshake.connection.close()
        elif error is None:
            self._welcome(handshake)
        elif isinstance(error, ssl.SSLWantReadError):
            self._loop.add_reader(handshake.descriptor, self._is_readable, handshake)
        elif isinstance(error, ssl.SSLWantWriteError):
            self._loop.add_writer(handshake.descriptor, self._is_writable, handshake)
        else:
            self._refuse(handshake, error)

    def _welcome(self, handshake: Handshake) -> None:
        self._remove(handshake)
        tls = handshake.connection
        assert isinstance(tls, ssl.SSLSocket)
        try:
            peer = tls.getpeername()
        except OSError:  # it has left
            tls.close()
        else:
            TlsTransport(self._loop, tls, peer, handshake.make_protocol()).begin()

    # --- the end

    def _refuse(self, handshake: Handshake, error: OSError) -> None:
        """Give the peer time to read the alert that OpenSSL has sent."""
        log.info("no TLS with %s: %s", handshake.host, error)
        self._remove(handshake)
        if isinstance(error, ssl.SSLEOFError | ConnectionError):  # it has left
            handshake.connection.close()
        else:
            Farewell(self._loop, handshake.connection)

    def _too_late(self, handshake: Handshake) -> None:
        log.info("no TLS with %s: it took longer than %.0f s", handshake.host, HANDSHAKE_S)
        self._forget(handshake)

    def _drop_one(self) -> None:
        """Drop the oldest handshake of the host that has the most."""
        counts: dict[str, int] = {}
        for handshake in self._open:
            counts[handshake.host] = counts.get(handshake.host, 0) + 1
        greediest = max(counts, key=counts.__getitem__)
        self._forget(next(handshake for handshake in self._open if handshake.host == greediest))

    def _remove(self, handshake: Handshake) -> None:
        handshake.is_over = True
        self._open.pop(handshake, None)
        if handshake.timer is not None:
            handshake.timer.cancel()

    def _forget(self, handshake: Handshake) -> None:
        """Close a connection that waits for its peer. One that waits for the thread is closed at its turn."""
        self._remove(handshake)
        descriptor = handshake.descriptor
        if self._loop.remove_reader(descriptor) or self._loop.remove_writer(descriptor):
            handshake.connection.close()


class Farewell:
    """Ends a connection so that the peer can read what was sent last."""

    def __init__(self, loop: asyncio.AbstractEventLoop, connection: socket.socket) -> None:
        self._loop = loop
        self._connection = connection
        self._left_bytes = FAREWELL_BYTES
        if isinstance(connection, ssl.SSLSocket):
            self._connection = socket.socket(fileno=connection.detach())
        try:
            self._connection.settimeout(0)
            self._connection.shutdown(socket.SHUT_WR)
        except OSError:
            self._connection.close()
            return
        self._timer = loop.call_later(FAREWELL_S, self._close)
        loop.add_reader(self._connection.fileno(), self._read)

    def _read(self) -> None:
        count = 0
        with suppress(OSError):
            count = len(self._connection.recv(self._left_bytes))
        self._left_bytes -= count
        if not count or not self._left_bytes:
            self._close()

    def _close(self) -> None:
        self._timer.cancel()
        self._loop.remove_reader(self._connection.fileno())
        self._connection.close()


class TlsListener:
    """Listens on sockets that are bound. The methods are those of an asyncio.Server that a node uses."""

    def __init__(
        self,
        sockets: list[socket.socket],
        context: ssl.SSLContext,
        make_protocol: MakeProtocol,
        handshakes: Handshakes,
        backlog: int,
    ) -> None:
        self.sockets = sockets
        self._context = context
        self._make_protocol = make_protocol
        self._handshakes = handshakes
        self._backlog = backlog
        self._loop = asyncio.get_running_loop()
        self._is_closed = False

    async def start_serving(self) -> None:
        """Accept connections."""
        for listening in self.sockets:
            listening.listen(self._backlog)
            self._loop.add_reader(listening.fileno(), self._accept, listening)

    def close(self) -> None:
        """Accept no more, and drop peers whose handshake is not done."""
        self._is_closed = True
        self._handshakes.drop_of(self._make_protocol)
        for listening in self.sockets:
            self._loop.remove_reader(listening.fileno())
            listening.close()

    def _accept(self, listening: socket.socket) -> None:
        """Accept one connection. Connections that are served get their turn before the next one."""
        try:
            plain, peer = listening.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return
        except OSError as error:
            log.error("no connection is accepted for a while: %s", error)
            self._loop.remove_reader(listening.fileno())
            self._loop.call_later(ACCEPT_AGAIN_S, self._accept_again, listening)
            return
        plain.settimeout(0)
        with suppress(OSError):
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._handshakes.begin(Handshake(plain, str(peer[0]), self._context, self._make_protocol))

    def _accept_again(self, listening: socket.socket) -> None:
        if not self._is_closed:
            self._loop.add_reader(listening.fileno(), self._accept, listening)


async def bound_sockets(host: str, port: int) -> list[socket.socket]:
    """Sockets that are bound to all addresses of a host. Raises OSError."""
    resolved = await asyncio.get_running_loop().getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    sockets: list[socket.socket] = []
    try:
        for family, kind, protocol, _, address in dict.fromkeys(resolved):
            bound = socket.socket(family, kind, protocol)
            sockets.append(bound)
            bound.settimeout(0)
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            bound.bind(address)
    except BaseException:
        for bound in sockets:
            bound.close()
        raise
    return sockets
