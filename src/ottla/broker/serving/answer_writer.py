"""AnswerWriter: writes the answers of a connection, and counts the memory that they hold until the peer takes
them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import cast

from ottla.broker.serving.file_transport import FileTransport, with_files
from ottla.broker.storage.memory import SMALL_BYTES, MemoryBudget
from ottla.wire.primitives import Buffer

UNSENT_BYTES_HIGH = 1 << 20
"""Above this the transport asks us to stop writing. One answer of usual size: the next is prepared
meanwhile.
"""


class UntakenAnswers:
    """The writes of one connection. Owned by the loop.

    A transport keeps a large write whole until its last byte was sent: one that waits for 1 KB may hold 8 MB.
    """

    __slots__ = ("_large", "_sent", "_written")

    def __init__(self) -> None:
        self._written = 0
        self._sent = 0
        # Where large writes that are not sent whole begin and end.
        self._large: deque[tuple[int, int]] = deque()

    def wrote(self, size: int) -> None:
        """Note that the transport got `size` bytes more."""
        self._written += size
        if size > SMALL_BYTES:
            self._large.append((self._written - size, self._written))

    def progressed(self, unsent: int) -> bool:
        """Note that `unsent` bytes wait, and return whether some were sent since the last call."""
        sent = self._written - unsent
        has_progressed = sent > self._sent
        self._sent = sent
        while self._large and self._large[0][1] <= sent:
            self._large.popleft()
        return has_progressed

    @property
    def held_bytes(self) -> int:
        """The memory behind the bytes that were not sent when `progressed` was last called."""
        begin = self._large[0][0] if self._large else self._sent
        return self._written - min(begin, self._sent)


class AnswerWriter:
    """The transport of one connection, for writing. Owned by the loop.

    waiting_bytes    of memory that answers hold, because the peer has not taken them whole
    stalled_since    the loop's time when the peer last took something
    """

    def __init__(self, memory: MemoryBudget, loop: asyncio.AbstractEventLoop) -> None:
        self._memory = memory
        self._loop = loop
        self.transport: asyncio.Transport = cast(asyncio.Transport, None)
        self._sends_files: bool | None = None  # not known before records are to be sent
        self._untaken = UntakenAnswers()
        self._is_over = False
        self.waiting_bytes = 0
        self.stalled_since = 0.0

    def connected(self, transport: asyncio.Transport) -> None:
        """Write to this transport."""
        self.transport = transport
        transport.set_write_buffer_limits(UNSENT_BYTES_HIGH)

    def sends_files(self, protocol: asyncio.BufferedProtocol) -> bool:
        """Whether records may be left in their files: from now on they are sent from there, past the loop."""
        if self._sends_files is None:
            files = with_files(self._loop, self.transport, protocol, UNSENT_BYTES_HIGH)
            self._sends_files = files is not None
            self.transport = files or self.transport
        return self._sends_files

    @property
    def closes_late(self) -> bool:
        """Whether the transport must stay open when the peer has ended, since answers wait in files."""
        return bool(self._sends_files and self.unsent_bytes)

    @property
    def unsent_bytes(self) -> int:
        """Bytes that the peer has not taken."""
        return self.transport.get_write_buffer_size()

    def write(self, parts: list[Buffer], size: int) -> None:
        """Write answers of `size` bytes together."""
        self._untaken.wrote(size)
        self.transport.writelines(parts)
        if size > SMALL_BYTES:
            # Transports may write at the end of the turn. Until then all of it counts as not taken.
            self._set_waiting(self.waiting_bytes + size)
            self._loop.call_soon(self.count)

    def count(self) -> None:
        """Bring `waiting_bytes` up to date."""
        if self._is_over or not (self.unsent_bytes or self.waiting_bytes):
            return
        if self._untaken.progressed(self.unsent_bytes):
            self.stalled_since = self._loop.time()
        self._set_waiting(self._untaken.held_bytes)

    def abort(self) -> None:
        """Cut the connection. What waits counts until it is freed."""
        self._is_over = True
        self.transport.abort()

    def lost(self) -> None:
        """Note that the connection is gone."""
        self._is_over = True
        if isinstance(self.transport, FileTransport):
            self.transport.end()
        self._loop.call_soon(self._set_waiting, 0)  # uvloop frees the unsent bytes at the end of this turn

    def _set_waiting(self, size: int) -> None:
        if not self.waiting_bytes:
            self.stalled_since = self._loop.time()
        change, self.waiting_bytes = size - self.waiting_bytes, size
        self._memory.count_answers(change)
