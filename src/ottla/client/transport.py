"""A socket to a broker, plain or with TLS. Every wait ends by its deadline or by an interruption.

The socket is non-blocking; waiting is a `poll` of the socket and the interruption. So a signal (Ctrl-C) ends
a wait too, and no thread has to close a descriptor that another thread uses. Errors are those of the
operating system: TimeoutError, ConnectionError, ssl.SSLError; `link` translates them.
"""

from __future__ import annotations

import errno
import math
import os
import select
import socket
import ssl
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ottla.client.clock import Deadline
from ottla.client.interruption import Interruption
from ottla.model.address import Address
from ottla.wire.primitives import Buffer

CHUNK_BYTES = 64 * 1024
PARTS_MAX = 1024
"""The largest number of buffers of one gathering write (Linux's IOV_MAX)."""

_READABLE = select.POLLIN | select.POLLPRI
_WRITABLE = select.POLLOUT
_NOT_YET = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
_UNDER_WAY = {0, errno.EINPROGRESS, errno.EWOULDBLOCK}


@dataclass(frozen=True, slots=True)
class SocketBuffers:
    """SO_RCVBUF and SO_SNDBUF; -1 keeps the default of the system."""

    receive_bytes: int = -1
    send_bytes: int = -1


class Transport:
    """A connected socket. Belongs to one thread."""

    # Whether `poll` sees all bytes that a read would return. Then a short read means that there are no more.
    _drains = True

    __slots__ = ("_descriptor", "_interruption", "_is_drained", "_reading", "_writing", "socket")

    def __init__(self, connected: socket.socket, interruption: Interruption) -> None:
        self.socket = connected
        self._descriptor = connected.fileno()
        self._interruption = interruption
        self._is_drained = self._drains  # whether a read would return nothing, judging by the last read
        self._reading = _poll(connected, _READABLE, interruption)
        self._writing = _poll(connected, _READABLE | _WRITABLE, interruption)

    def receive_into(self, room: memoryview, deadline: Deadline | None) -> int | None:
        """Receive bytes, waiting until the deadline. Returns how many; 0 is the end of the stream.

        With `deadline=None` does not wait, and returns None if there is nothing yet.
        """
        if deadline is not None and self._is_drained:
            self._wait(self._reading, deadline)
        while True:
            try:
                count = self.socket.recv_into(room)
            except _NOT_YET:
                self._is_drained = self._drains
                if deadline is None:
                    return None
                self._wait(self._reading, deadline)
            else:
                self._is_drained = self._drains and count < len(room)
                return count

    def send(self, parts: list[Buffer], deadline: Deadline, drain: Callable[[], None]) -> None:
        """Write all parts. While the peer accepts nothing, calls `drain` to read what it sends.

        A broker may not read on until its responses are taken, so both must happen here.
        """
        while parts:
            count = self.send_now(parts)
            if count is None:
                if self._wait(self._writing, deadline) & _READABLE:
                    drain()
            else:
                parts = _unsent(parts, count)

    def send_now(self, parts: list[Buffer]) -> int | None:
        """Write what the system accepts at once; None if it accepts nothing."""
        try:
            return self.socket.sendmsg(parts if len(parts) <= PARTS_MAX else parts[:PARTS_MAX])
        except _NOT_YET:
            return None

    def last_words(self) -> OSError | None:
        """Return the TLS alert that the peer sent before the connection broke; None without TLS."""
        return None

    def close(self) -> None:
        """Close the socket."""
        self.socket.close()

    def _wait(self, poll: select.poll, deadline: Deadline) -> int:
        """Wait until the socket is ready, and return for what.

        Raises TimeoutError, or ConnectionLost if interrupted.
        """
        left_ms = deadline.left_ms()
        ready = poll.poll(None if left_ms is None else math.ceil(left_ms))
        if not ready:
            raise TimeoutError
        for descriptor, events in ready:
            if descriptor != self._descriptor:
                self._interruption.check()
            else:
                return events
        return 0


class TlsTransport(Transport):
    """A connected socket with TLS. A read may need a write, and `poll` does not see decrypted bytes."""

    _drains = False

    __slots__ = ("_tls",)

    def __init__(
        self, connected: socket.socket, interruption: Interruption, context: ssl.SSLContext, host: str
    ) -> None:
        self._tls = context.wrap_socket(connected, server_hostname=host, do_handshake_on_connect=False)
        super().__init__(self._tls, interruption)

    def handshake(self, deadline: Deadline) -> None:
        """Agree on keys, and check the peer's certificate."""
        while True:
            try:
                self._tls.do_handshake()
                return
            except ssl.SSLWantReadError:
                self._wait(self._reading, deadline)
            except ssl.SSLWantWriteError:
                self._wait(self._writing, deadline)

    def last_words(self) -> OSError | None:
        """Return the alert that the peer has sent: a write may fail before it is read. None if
        there is none.
        """
        try:
            while self._tls.recv(CHUNK_BYTES):
                pass
        except ssl.SSLError as error:
            return None if isinstance(error, _NOT_YET) else error
        except OSError:
            pass
        return None

    def send_now(self, parts: list[Buffer]) -> int | None:
        """Write at most one part: TLS has no gathering write."""
        try:
            return self._tls.send(parts[0])
        except _NOT_YET:
            return None


def _poll(connected: socket.socket, events: int, interruption: Interruption) -> select.poll:
    poll = select.poll()
    poll.register(connected, events)
    poll.register(interruption, select.POLLIN)
    return poll


def _unsent(parts: list[Buffer], count: int) -> list[Buffer]:
    """Return the parts without their first `count` bytes."""
    for number, part in enumerate(parts):
        size = part.nbytes if isinstance(part, memoryview) else len(part)
        if count < size:
            rest = memoryview(part).cast("B")[count:] if count else part
            return [rest, *parts[number + 1 :]]
        count -= size
    return []


def connected_socket(
    address: Address, buffers: SocketBuffers, deadline: Deadline, interruption: Interruption
) -> socket.socket:
    """Resolve the name and connect to the first of its addresses that accepts.

    Raises OSError (of the last address), TimeoutError, ConnectionLost. Resolving cannot be interrupted.
    """
    try:
        resolved = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    except UnicodeError:
        raise socket.gaierror(socket.EAI_NONAME, f"{address.host!r} is no name of a host") from None
    failure: OSError = OSError(f"{address.host} has no address")
    for number, (family, kind, protocol, _, socket_address) in enumerate(resolved):
        left_ms = deadline.left_ms()
        share_ms = None if left_ms is None else left_ms / (len(resolved) - number)
        made = socket.socket(family, kind, protocol)
        try:
            _connect(made, socket_address, buffers, Deadline(deadline.clock, share_ms), interruption)
        except OSError as error:
            made.close()
            failure = error
        except BaseException:
            made.close()
            raise
        else:
            return made
    raise failure


def _connect(
    made: socket.socket,
    socket_address: tuple[object, ...],
    buffers: SocketBuffers,
    deadline: Deadline,
    interruption: Interruption,
) -> None:
    for option, value in _options(buffers):
        made.setsockopt(*option, value)
    made.settimeout(0)
    number = made.connect_ex(socket_address)
    if number not in _UNDER_WAY:
        raise OSError(number, os.strerror(number))
    left_ms = deadline.left_ms()
    ready = _poll(made, _WRITABLE, interruption).poll(None if left_ms is None else math.ceil(left_ms))
    interruption.check()
    if not ready:
        raise TimeoutError(f"no answer in {deadline.timeout_ms:.0f} ms")
    number = made.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if number:
        raise OSError(number, os.strerror(number))
    if made.getsockname() == made.getpeername():
        # The system gave us the same port that we connect to, so the socket is connected to itself. If it
        # stayed open, a broker could not start on that port.
        raise ConnectionRefusedError(errno.ECONNREFUSED, "nobody listens there")


def _options(buffers: SocketBuffers) -> Iterator[tuple[tuple[int, int], int]]:
    yield (socket.IPPROTO_TCP, socket.TCP_NODELAY), 1
    yield (socket.SOL_SOCKET, socket.SO_KEEPALIVE), 1
    # Set before connecting, so that they also set TCP's window.
    if buffers.receive_bytes >= 0:
        yield (socket.SOL_SOCKET, socket.SO_RCVBUF), buffers.receive_bytes
    if buffers.send_bytes >= 0:
        yield (socket.SOL_SOCKET, socket.SO_SNDBUF), buffers.send_bytes
