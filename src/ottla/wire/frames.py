"""Length-prefixed frames: bytes from a peer → frames, and buffers → one frame to send.

Every message of the protocol is `size i32 | size bytes`. This module owns that and nothing else: it reads no
header and no socket. A driver receives straight into the buffer that is handed out, so a frame is never
copied after the kernel wrote it, except for the part that had arrived when its chunk was full:

    chunk  | frame 1 | frame 2 | frame 3, first half |            new chunk | frame 3 …        | free |
                               └──────────── moved, once ───────────────────┘

Frames are views of their chunk and stay valid as long as they are referenced: received bytes are only
written after the last byte, and a full chunk is left to its frames.

Memory follows what a peer has sent, not what it announces. A chunk for a half received frame is at
most four times as large as the received half, or as large as an earlier frame of this peer, so that
an announced 100 MB with 5 bytes after it costs one small chunk.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from ottla.model.errors import LocalProtocolError, RemoteProtocolError
from ottla.wire.primitives import Buffer

Allocator = Callable[[int], bytearray | memoryview]

FRAME_BYTES_MAX = 100 * 1024 * 1024
"""Kafka's default socket.request.max.bytes; also above any default fetch.max.bytes (50 MB)."""

CHUNK_BYTES = 4096
"""First chunk of a connection: one page, since a broker holds thousands of idle connections."""

ROOM_BYTES_MIN = 512
"""With less free room than this a read is not worth a system call, unless it completes the frame."""

GROWTH = 4
"""New chunk : received part. With 4, growing to N bytes moves at most 4/3 N in all, and a peer that stops
sending holds at most four times what it sent. The next frame of that size is not moved at all."""

_SIZE = struct.Struct(">i")
_SIZE_BYTES = _SIZE.size
_SIZE_MAX = 2**31 - 1

SIZE_ROOM = bytes(_SIZE_BYTES)
"""Goes in front of a message that will be sealed, so that its size is in the same buffer as its header."""

# What the first four bytes are when the peer speaks something else: the usual wrong-port mistakes.
_STRANGERS: tuple[tuple[bytes, str], ...] = (
    (b"HTTP", "HTTP: is this the port of a web server?"),
    (b"GET ", "HTTP: a browser or health check calls the Kafka port"),
    (b"HEAD", "HTTP: a browser or health check calls the Kafka port"),
    (b"POST", "HTTP: a web client calls the Kafka port"),
    (b"PUT ", "HTTP: a web client calls the Kafka port"),
    (b"OPTI", "HTTP: a browser calls the Kafka port"),
    (b"CONN", "HTTP: a proxy client calls the Kafka port"),
    (b"PRI ", "HTTP/2: a gRPC or web client calls the Kafka port"),
    (b"SSH-", "SSH: is this the port of an SSH server?"),
    (b"\x15\x03", "a TLS alert: the port wants TLS, or refused ours; check security.protocol on both sides"),
    (b"\x16\x03", "a TLS handshake: the peer wants TLS here; check security.protocol on both sides"),
)


class FrameReceiver:
    """Collects received bytes and hands out whole frames, without the four size bytes.

    Drivers call `get_buffer`, write into the view, call `received` with the count, then `next_frame`
    until it gives None. This is asyncio's BufferedProtocol as well as a blocking `recv_into` loop.
    Not thread-safe. Frames are writable, as is what the allocator returns.
    """

    __slots__ = ("_allocate", "_chunk", "_chunk_bytes", "_earned_bytes", "_end", "_frame_bytes_max", "_start")

    def __init__(
        self,
        *,
        frame_bytes_max: int = FRAME_BYTES_MAX,
        chunk_bytes: int = CHUNK_BYTES,
        allocate: Allocator = bytearray,
    ) -> None:
        self._frame_bytes_max = frame_bytes_max
        self._chunk_bytes = max(chunk_bytes, ROOM_BYTES_MIN)
        self._allocate = allocate
        self._chunk = memoryview(b"")
        self._start = 0  # first byte that is in no handed-out frame
        self._end = 0  # one after the last received byte
        self._earned_bytes = 0  # size of recent whole frames: what this peer may announce and be believed

    def allow(self, frame_bytes_max: int) -> None:
        """Accept frames up to another size from now on: those of a peer that has logged in may be larger."""
        self._frame_bytes_max = frame_bytes_max

    def get_buffer(self, hint: int = -1) -> memoryview:
        """Return free memory to receive into, never empty; `hint` is the size wanted if a new chunk is
        needed.
        """
        free_bytes = len(self._chunk) - self._end
        if free_bytes < ROOM_BYTES_MIN:
            lacking_bytes = self._lacking_bytes()
            if free_bytes < lacking_bytes:
                self._replace_chunk(lacking_bytes, hint)
        return self._chunk[self._end :]

    def make_room(self) -> None:
        """Between frames, make room for a frame as large as the last ones, so that it is received in one
        piece.

        For drivers that know that bytes have arrived; a connection that waits should hold less.
        """
        usual_bytes = _SIZE_BYTES + self._earned_bytes
        if self._start == self._end and len(self._chunk) - self._end < usual_bytes:
            self._replace_chunk(0, usual_bytes + ROOM_BYTES_MIN)

    def received(self, count: int) -> None:
        """Note that the driver wrote `count` bytes to the start of the last buffer of `get_buffer`."""
        if not 0 <= count <= len(self._chunk) - self._end:
            raise LocalProtocolError(
                f"received({count}) does not fit into the {len(self._chunk) - self._end} bytes handed out"
            )
        self._end += count

    def next_frame(self) -> memoryview | None:
        """Return the next whole frame, or None until more is received."""
        begin, end = self._start + _SIZE_BYTES, self._end
        if begin > end:
            return None
        (size,) = _SIZE.unpack_from(self._chunk, self._start)
        if not 0 <= size <= self._frame_bytes_max:
            self._size_at(self._start)  # raises
        stop = begin + size
        if stop > end:
            return None
        self._start = stop
        earned = self._earned_bytes // 2
        self._earned_bytes = size if size > earned else earned
        return self._chunk[begin:stop]

    @property
    def announced_bytes(self) -> int:
        """The size of the next frame, whether all of it is here or not; 0 while it is not known."""
        return self._announced_bytes() or 0

    @property
    def partial_bytes(self) -> int:
        """Bytes that were received and are in no frame yet that was handed out."""
        return self._end - self._start

    @property
    def held_bytes(self) -> int:
        """The size of the chunk that is received into."""
        return len(self._chunk)

    def release(self) -> None:
        """Release the chunk; the received part of the next frame is lost.

        Frames that were handed out stay valid.
        """
        self._chunk = memoryview(b"")
        self._start = self._end = 0

    def eof(self) -> None:
        """Note that the peer closed. Raises if that cut a frame; whole frames may be fetched
        before or after.
        """
        rest = self._start
        size = self._size_at(rest)
        while size is not None and rest + _SIZE_BYTES + size <= self._end:
            rest += _SIZE_BYTES + size
            size = self._size_at(rest)
        if rest == self._end:
            return
        got = self._end - rest
        whole = f"{size + _SIZE_BYTES}" if size is not None else f"at least {_SIZE_BYTES}"
        raise RemoteProtocolError(
            f"the peer closed the connection inside a frame: {got} of {whole} bytes came"
        )

    def _announced_bytes(self) -> int | None:
        return self._size_at(self._start)

    def _size_at(self, position: int) -> int | None:
        """Return the size of the frame that starts there, checked; None while its four bytes have not all
        arrived.
        """
        if self._end - position < _SIZE_BYTES:
            return None
        size: int = _SIZE.unpack_from(self._chunk, position)[0]
        if not 0 <= size <= self._frame_bytes_max:
            raise RemoteProtocolError(
                _bad_size(size, bytes(self._chunk[position : position + _SIZE_BYTES]), self._frame_bytes_max)
            )
        return size

    def _lacking_bytes(self) -> int:
        """Return how many bytes complete the current frame; between frames, as many as are worth a call."""
        size = self._announced_bytes()
        if size is None:
            return ROOM_BYTES_MIN
        have_bytes = self._end - self._start
        lacking_bytes = _SIZE_BYTES + size - have_bytes
        # A whole frame that was not fetched yet lacks nothing. What follows it needs room, and as much again
        # as there is, or a driver that reads far ahead would move everything for every few bytes.
        return lacking_bytes if lacking_bytes > 0 else max(ROOM_BYTES_MIN, have_bytes)

    def _replace_chunk(self, lacking_bytes: int, hint: int) -> None:
        """Move the unfinished tail to a new chunk; the old one belongs to its frames from now on."""
        have_bytes = self._end - self._start
        believed_bytes = max(GROWTH * have_bytes, self._earned_bytes + _SIZE_BYTES)
        wanted_bytes = min(have_bytes + lacking_bytes, believed_bytes)
        room_bytes = max(self._chunk_bytes, hint)
        size_bytes = max(wanted_bytes, room_bytes if have_bytes < room_bytes else have_bytes + ROOM_BYTES_MIN)
        chunk = memoryview(self._allocate(size_bytes))
        chunk[:have_bytes] = self._chunk[self._start : self._end]
        self._chunk, self._start, self._end = chunk, 0, have_bytes


def seal(parts: list[Buffer]) -> list[Buffer]:
    """Make one frame of the parts of a message, whose first part begins with SIZE_ROOM and is writable.

    The parts are to be written in this order, all of them, by sendall or writelines; nothing is joined or
    copied. (A bare sendmsg may write less, and takes 1,024 parts at most.)
    """
    size = -_SIZE_BYTES
    for part in parts:
        size += part.nbytes if isinstance(part, memoryview) else len(part)
    if size > _SIZE_MAX:
        raise LocalProtocolError(
            f"a frame of {size} bytes cannot be sent: its size is an int32 ({_SIZE_MAX})"
        )
    _SIZE.pack_into(parts[0], 0, size)
    return parts


def _bad_size(size: int, head: bytes, limit: int) -> str:
    for prefix, meaning in _STRANGERS:
        if head.startswith(prefix):
            return f"the peer does not speak Kafka: {head!r} looks like {meaning} (as a size: {size})"
    if size < 0:
        return f"the peer announced a frame of {size} bytes; the bytes {head.hex(' ')} are no Kafka frame"
    return (
        f"the peer announced a frame of {size} bytes, above the limit of {limit}: "
        f"raise the limit if the data is that large, else the peer does not speak Kafka ({head.hex(' ')})"
    )
