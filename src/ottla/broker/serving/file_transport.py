"""A transport that sends record sets from their files, past the transport of the loop.

The loop's transport takes bytes only. While it has nothing to send, an answer with a range of a file goes
straight to the socket: its head by `sendmsg`, its records by `sendfile`. What the peer does not take at once
waits here, with everything that comes after it, until the socket is writable. At most TURN_BYTES leave in a
turn of the loop, so that a reader of much does not hold up the others.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from itertools import takewhile
from typing import Any, cast

from ottla.log.file_range import FileRange
from ottla.log.file_system import BUFFERS_MAX, Buffer

TURN_BYTES = 1 << 20
"""How much one connection sends before others have their turn."""

_MORE = getattr(socket, "MSG_MORE", 0)
# A file system that cannot send: the bytes are read instead.
_UNSUPPORTED = {errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EOVERFLOW}

Part = Buffer | FileRange


class FileTransport(asyncio.Transport):
    """Belongs to the loop. `high` is how many unsent bytes pause the protocol."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        inner: asyncio.Transport,
        protocol: asyncio.BufferedProtocol,
        high: int,
    ) -> None:
        super().__init__()
        self._loop = loop
        self._inner = inner
        self._protocol = protocol
        self._high = high
        self._socket: socket.socket | None = None  # while there is something to send
        self._unsent: deque[Part] = deque()
        self._start = 0  # how much of the first part was sent
        self._unsent_bytes = 0
        self._is_waiting = self._is_pausing = self._is_closing = False

    # --- writing

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        """Send parts, of which some may be ranges of files."""
        parts = cast("list[Part]", list_of_data)
        if not self._unsent:
            if not any(type(part) is FileRange for part in parts):
                self._inner.writelines(cast("list[Buffer]", parts))
                return
            if self._inner.get_write_buffer_size() or not self._has_socket():
                self._inner.writelines([_in_memory(part) for part in parts])
                return
        self._unsent.extend(part for part in parts if len(part))
        self._unsent_bytes += sum(map(len, parts))
        if not self._is_waiting:
            self._send()

    def _has_socket(self) -> bool:
        """Copy the inner transport's socket, since a loop refuses to watch the socket of a transport."""
        inner = self._inner.get_extra_info("socket")
        try:
            copied = os.dup(inner.fileno())
        except OSError:
            return False  # too many descriptors are open
        self._socket = socket.socket(inner.family, inner.type, inner.proto, copied)
        self._socket.settimeout(0)
        return True

    def _send(self) -> None:
        """Send as much as a turn may; continue when the socket is writable."""
        left, sock = TURN_BYTES, self._socket
        assert sock is not None
        try:
            while self._unsent and left > 0:
                sent = self._send_some(sock, left)
                left -= sent
                self._sent(sent)
        except (BlockingIOError, InterruptedError):
            pass
        except OSError as error:
            if error.errno not in _UNSUPPORTED or not self._replace():
                self.abort()
                return
        self._wait(needed=bool(self._unsent))
        self._tell()
        if self._is_closing and not self._unsent:
            self._inner.close()

    def _send_some(self, sock: socket.socket, limit: int) -> int:
        first = self._unsent[0]
        if isinstance(first, FileRange):
            return first.send(sock.fileno(), self._start, limit)
        buffers = list(takewhile(lambda part: not isinstance(part, FileRange), self._unsent))[:BUFFERS_MAX]
        flags = _MORE if len(buffers) < len(self._unsent) else 0
        rest = cast("list[Buffer]", buffers[1:])
        return sock.sendmsg([memoryview(first)[self._start :], *rest], (), flags)

    def _sent(self, count: int) -> None:
        self._unsent_bytes -= count
        self._start += count
        while self._unsent and self._start >= len(self._unsent[0]):
            self._start -= len(self._unsent.popleft())

    def _replace(self) -> bool:
        """Read the first range into memory, because it cannot be sent from its file.

        Returns False if that fails too.
        """
        first = self._unsent[0]
        try:
            self._unsent[0] = _in_memory(first)
        except OSError:
            return False
        return isinstance(first, FileRange)

    def _wait(self, *, needed: bool) -> None:
        """Continue when the socket is writable, or close the descriptor if nothing is left."""
        if self._socket is None:
            return
        if needed != self._is_waiting:
            self._is_waiting = needed
            if needed:
                self._loop.add_writer(self._socket.fileno(), self._send)
            else:
                self._loop.remove_writer(self._socket.fileno())
        if not needed:
            self._socket.close()
            self._socket = None

    def _tell(self) -> None:
        """Pause the protocol while much is unsent, and resume it when everything was sent."""
        if not self._is_pausing and self._unsent_bytes > self._high:
            self._is_pausing = True
            self._protocol.pause_writing()
        elif self._is_pausing and not self._unsent:
            self._is_pausing = False
            self._protocol.resume_writing()

    def get_write_buffer_size(self) -> int:
        """How many bytes the peer has not taken."""
        return self._inner.get_write_buffer_size() + self._unsent_bytes

    # --- the end

    def is_closing(self) -> bool:
        """Whether it is closed, or will be when all was sent."""
        return self._is_closing or self._inner.is_closing()

    def close(self) -> None:
        """Close when all was sent."""
        if self._unsent:
            self._is_closing = True
            self._inner.pause_reading()
        else:
            self._inner.close()

    def abort(self) -> None:
        """Close now."""
        self.end()
        self._inner.abort()

    def end(self) -> None:
        """The connection is gone: forget what was not sent, and give the descriptor back."""
        self._unsent.clear()
        self._unsent_bytes = self._start = 0
        with suppress(OSError):
            self._wait(needed=False)

    # --- the inner transport's

    def pause_reading(self) -> None:
        """Leave what the peer sends in the socket."""
        self._inner.pause_reading()

    def resume_reading(self) -> None:
        """Read again."""
        self._inner.resume_reading()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return what the inner transport returns."""
        return self._inner.get_extra_info(name, default)


def with_files(
    loop: asyncio.AbstractEventLoop, inner: asyncio.Transport, protocol: asyncio.BufferedProtocol, high: int
) -> FileTransport | None:
    """A transport that sends from files by the socket of another; None if that has no plain socket."""
    is_plain = inner.get_extra_info("ssl_object") is None and inner.get_extra_info("socket") is not None
    if not is_plain or not hasattr(os, "sendfile") or inner.is_closing():
        return None
    return FileTransport(loop, inner, protocol, high)


def _in_memory(part: Part) -> Buffer:
    return part.read() if isinstance(part, FileRange) else part
