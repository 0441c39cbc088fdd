"""A transport with TLS for one connection, after its handshake. It reads straight into the protocol's memory.

The transports of asyncio and uvloop keep 256 kB for each connection with TLS, also while a peer has not
logged in, and do not send the alert that says why a handshake failed. OpenSSL reads and writes the socket
itself here, and what a connection holds is what OpenSSL needs for it.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, cast

JOINED_BYTES_MAX = 64 * 1024
"""Parts of an answer up to this size together are joined: each write is a record of TLS and a system call."""
CLOSE_S = 0.5
"""How long a peer may take the rest of its answers after `close`."""


class TlsTransport(asyncio.Transport):
    """Belongs to the loop. `tls` is connected, does not block, and its handshake is done."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        tls: ssl.SSLSocket,
        peer: object,
        protocol: asyncio.BufferedProtocol,
    ) -> None:
        super().__init__({"peername": peer, "ssl_object": tls})
        self._loop = loop
        self._tls = tls
        self._descriptor = tls.fileno()
        self._protocol = protocol
        self._unsent: deque[memoryview] = deque()
        self._unsent_bytes = 0
        self._high, self._low = 64 * 1024, 16 * 1024
        self._is_full = False  # the protocol was told to stop writing
        self._is_reading = False
        self._is_closing = False
        self._has_ended = False
        self._closing: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """Give the connection to its protocol, and read. The peer's first bytes may be here already."""
        self._protocol.connection_made(self)
        if not self._is_closing:
            self.resume_reading()

    # --- reading

    def is_reading(self) -> bool:
        """Whether bytes of the peer go to the protocol."""
        return self._is_reading

    def pause_reading(self) -> None:
        """Leave what the peer sends in the socket."""
        if self._is_reading:
            self._is_reading = False
            self._loop.remove_reader(self._descriptor)

    def resume_reading(self) -> None:
        """Read again."""
        if not self._is_reading and not self._is_closing:
            self._is_reading = True
            self._loop.add_reader(self._descriptor, self._read)
            self._loop.call_soon(self._read)  # what is decrypted already wakes nobody

    def _read(self) -> None:
        """Fill the protocol's buffer once; other connections get their turn before the next time."""
        if not self._is_reading:
            return
        room = cast(memoryview, self._protocol.get_buffer(-1))
        count, size, is_end = 0, len(room), False
        try:
            while count < size and not is_end:
                got = cast(int, self._tls.read(size - count, cast(bytearray, room[count:])))
                is_end = not got
                count += got
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            pass
        except (ssl.SSLEOFError, ssl.SSLZeroReturnError):
            is_end = True
        except OSError as error:
            self._end(error)
            return
        if count:
            self._protocol.buffer_updated(count)
        if is_end:
            self._ended_by_peer()
        elif count == size:
            self._loop.call_soon(self._read)

    def _ended_by_peer(self) -> None:
        self.pause_reading()
        if not self._is_closing:
            self._protocol.eof_received()
            self.close()

    # --- writing

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Tell the protocol to stop writing above `high` unsent bytes, and to go on at `low`."""
        self._high = 64 * 1024 if high is None else high
        self._low = self._high // 4 if low is None else low

    def get_write_buffer_size(self) -> int:
        """Number of bytes that the system has not taken."""
        return self._unsent_bytes

    def write(self, data: Any) -> None:
        """Send bytes, as far as the system takes them now; the rest when it does."""
        self.writelines([data])

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        """As `write`, of parts one after the other."""
        parts = list(list_of_data)
        if self._is_closing or not parts:
            return
        if len(parts) > 1 and sum(map(len, parts)) <= JOINED_BYTES_MAX:
            parts = [b"".join(parts)]
        is_idle = not self._unsent
        for part in parts:
            view = memoryview(part).cast("B")
            if view:
                self._unsent.append(view)
                self._unsent_bytes += len(view)
        if is_idle and self._unsent:
            self._send()
            if self._unsent:
                self._loop.add_writer(self._descriptor, self._send_rest)
        if self._unsent_bytes > self._high and not self._is_full and not self._has_ended:
            self._is_full = True
            self._protocol.pause_writing()

    def _send(self) -> None:
        """Send until the system takes no more."""
        unsent = self._unsent
        try:
            while unsent:
                count = self._tls.send(unsent[0])
                self._unsent_bytes -= count
                if count == len(unsent[0]):
                    unsent.popleft()
                else:
                    unsent[0] = unsent[0][count:]
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            pass
        except OSError as error:
            self._end(error)

    def _send_rest(self) -> None:
        self._send()
        if self._has_ended:
            return
        if not self._unsent:
            self._loop.remove_writer(self._descriptor)
            if self._is_closing:
                self._end(None)
                return
        if self._is_full and self._unsent_bytes <= self._low:
            self._is_full = False
            self._protocol.resume_writing()

    # --- the end

    def is_closing(self) -> bool:
        """Whether it is closed, or will be."""
        return self._is_closing

    def close(self) -> None:
        """Close when the peer has taken what was written, or after CLOSE_S."""
        if self._is_closing:
            return
        self.pause_reading()
        self._is_closing = True
        if self._unsent:
            self._closing = self._loop.call_later(CLOSE_S, self.abort)
        else:
            self._end(None)

    def abort(self) -> None:
        """Close now. What was not sent is lost."""
        self._end(None, is_cut=True)

    def _end(self, error: OSError | None, *, is_cut: bool = False) -> None:
        if self._has_ended:
            return
        self.pause_reading()
        self._is_closing = self._has_ended = True
        if self._closing is not None:
            self._closing.cancel()
        if self._unsent:
            self._loop.remove_writer(self._descriptor)
            self._unsent.clear()
            self._unsent_bytes = 0
        if error is None and not is_cut:
            with suppress(OSError, ValueError):
                self._tls.unwrap()  # sends the closing alert, and does not wait for the answer
        self._tls.close()
        self._loop.call_soon(self._protocol.connection_lost, error)
