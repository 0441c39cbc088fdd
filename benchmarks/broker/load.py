"""The load generator: sockets, bytes made beforehand, and no look at what comes back but the last answer.

It has to cost less than the server it loads. So requests that may go out together are one `send`, produce
answers are counted by their bytes, and fetched records are dropped by the kernel without being copied here.
What was answered is still checked: the offset in the last produce answer is the number of records before it.
"""

from __future__ import annotations

import selectors
import socket
import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from benchmarks.broker.frames import (
    SIZE_BYTES,
    Dialect,
    ProduceFrames,
    base_offset,
    fetch_error,
    fetch_frame,
    fetch_head_bytes,
)
from ottla.model.closing import Closing

Address = tuple[str, int]

TIMEOUT_S = 60
# Dropped, not copied: Linux discards what TCP received when asked for with this flag.
_DISCARD = getattr(socket, "MSG_TRUNC", 0)
_DROPPED = memoryview(bytearray(1 << 20))


@dataclass(frozen=True)
class Outcome:
    """What a run of the generator did. `records_bytes` are bytes of records, sent or received."""

    requests: int
    records_bytes: float
    seconds: float

    @property
    def bytes_per_second(self) -> float:
        """Bytes of records a second."""
        return self.records_bytes / self.seconds


def connected(address: Address) -> socket.socket:
    """A connection without Nagle's delay."""
    connection = socket.create_connection(address, TIMEOUT_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    # With a timeout of Python's own, each call would ask the kernel twice.
    connection.settimeout(None)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("@ll", TIMEOUT_S, 0))
    return connection


class _Lane(Protocol):
    """One connection with work to do."""

    socket: socket.socket
    is_done: bool

    def turn(self) -> None:
        """Take what has arrived and send what may follow."""


class _ProduceLane:
    """Keeps `in_flight` produce requests unanswered until its share is answered."""

    def __init__(self, address: Address, frames: ProduceFrames, in_flight: int) -> None:
        self.socket = connected(address)
        self.is_done = True
        self.last_answer = b""
        self._frames = frames
        self._in_flight = in_flight
        self._received = bytearray(in_flight * frames.answer_bytes)
        self._filled = 0
        self._next_frame = 0
        self._unsent = self._unanswered = 0

    def begin(self, requests: int) -> None:
        self._unsent = self._unanswered = requests
        self.is_done = not requests
        self._send(self._in_flight)

    def turn(self) -> None:
        count = self.socket.recv_into(memoryview(self._received)[self._filled :])
        if not count:
            raise ConnectionError(f"the server closed with {self._unanswered} requests unanswered")
        size = self._frames.answer_bytes
        whole, rest = divmod(self._filled + count, size)
        self._filled = rest
        if not whole:
            return
        end = whole * size
        self.last_answer = bytes(self._received[end - size : end])
        self._received[:rest] = self._received[end : end + rest]
        self._unanswered -= whole
        self.is_done = not self._unanswered
        self._send(whole)

    def _send(self, room: int) -> None:
        left = min(room, self._unsent)
        self._unsent -= left
        while left:
            stop = min(self._next_frame + left, len(self._frames.ends))
            self.socket.sendall(self._frames.part(self._next_frame, stop))
            left -= stop - self._next_frame
            self._next_frame = stop % len(self._frames.ends)


class _Connections(Closing):
    """Some connections, closed together."""

    def __init__(self, lanes: Sequence[_Lane]) -> None:
        self._lanes = lanes

    @property
    def sockets(self) -> list[socket.socket]:
        """The connections."""
        return [lane.socket for lane in self._lanes]

    def close(self) -> None:
        """Close the connections."""
        for connection in self.sockets:
            connection.close()


class ProduceLoad(_Connections):
    """Produce requests over some connections to one partition that nobody else writes to."""

    def __init__(
        self, address: Address, frames: ProduceFrames, *, connections: int = 1, in_flight: int = 1
    ) -> None:
        self._producers = [_ProduceLane(address, frames, in_flight) for _ in range(connections)]
        super().__init__(self._producers)
        self._frames = frames
        self._next_offset: int | None = None

    def run(self, requests: int) -> Outcome:
        """Send `requests` requests and see them answered; the first run also finds out where the log ends."""
        if self._next_offset is None:
            self._produce([1])
            self._next_offset = self._answered_to()
        share, extra = divmod(requests, len(self._producers))
        seconds = self._produce([share + (number < extra) for number in range(len(self._producers))])
        self._check(requests)
        return Outcome(requests, requests * self._frames.records_bytes, seconds)

    def round_trips(self, count: int) -> list[float]:
        """Seconds from request to answer of each request, one at a time on the first connection."""
        connection = self._producers[0].socket
        request, answer = self._frames.part(0, 1), bytearray(self._frames.answer_bytes)
        send, receive, clock = connection.sendall, connection.recv_into, time.perf_counter
        seconds = []
        for _ in range(count):
            start = clock()
            send(request)
            got = receive(answer)
            if got != len(answer):
                _receive(connection, memoryview(answer)[got:], len(answer) - got, 0)
            seconds.append(clock() - start)
        base_offset(self._frames.shape.dialect, bytes(answer))
        self._next_offset = None
        return seconds

    def _produce(self, shares: list[int]) -> float:
        start = time.perf_counter()
        for lane, share in zip(self._producers, shares, strict=False):
            lane.begin(share)
        _drive(self._producers)
        return time.perf_counter() - start

    def _answered_to(self) -> int:
        """The end of the log, by the last answer of each connection."""
        shape = self._frames.shape
        answers = [lane.last_answer for lane in self._producers if lane.last_answer]
        return max(base_offset(shape.dialect, answer) for answer in answers) + shape.record_count

    def _check(self, requests: int) -> None:
        assert self._next_offset is not None
        expected = self._next_offset + requests * self._frames.shape.record_count
        found = self._answered_to()
        if found != expected:
            raise RuntimeError(f"{requests} requests were to end at offset {expected}, the log at {found}")
        self._next_offset = found


@dataclass(frozen=True)
class StoredBatches:
    """What a topic holds from offset 0 on: record sets of one size, so that offsets follow from bytes."""

    topic: str
    dialect: Dialect
    batch_count: int
    batch_bytes: int
    batch_records: int


def filled(address: Address, frames: ProduceFrames, requests: int) -> StoredBatches:
    """Fill the new topic of `frames`, which are alike, with `requests` requests."""
    with ProduceLoad(address, frames, in_flight=5) as load:
        load.run(requests - 1)  # and one to learn where the log ends
    shape = frames.shape
    return StoredBatches(frames.topic, shape.dialect, requests, int(frames.records_bytes), shape.record_count)


class _FetchLane:
    """Reads a topic from its start, one fetch at a time."""

    def __init__(self, address: Address, stored: StoredBatches, bytes_max: int) -> None:
        self.socket = connected(address)
        self.is_done = True
        self.fetches = 0
        self._stored = stored
        self._bytes_max = bytes_max
        self._head = bytearray(fetch_head_bytes(stored.topic, stored.dialect))
        self._batch = 0

    def begin(self) -> None:
        self.is_done, self.fetches, self._batch = False, 0, 0
        self._ask()

    def turn(self) -> None:
        stored = self._stored
        head = memoryview(self._head)
        _receive(self.socket, head, len(head), 0)
        left = int.from_bytes(head[:SIZE_BYTES]) + SIZE_BYTES - len(head)
        if left < stored.batch_bytes:
            error = fetch_error(stored.dialect, bytes(head))
            raise RuntimeError(f"a fetch at batch {self._batch} got {left} bytes and error {error}")
        drop(self.socket, left)
        self.fetches += 1
        self._batch += left // stored.batch_bytes
        self.is_done = self._batch >= stored.batch_count
        if not self.is_done:
            self._ask()

    def _ask(self) -> None:
        stored = self._stored
        offset = self._batch * stored.batch_records
        self.socket.sendall(
            fetch_frame(stored.topic, stored.dialect, offset=offset, bytes_max=self._bytes_max)
        )


class FetchLoad(_Connections):
    """Readers of one topic, all of it each."""

    def __init__(
        self, address: Address, stored: StoredBatches, *, connections: int = 1, batches_per_fetch: int = 1
    ) -> None:
        bytes_max = batches_per_fetch * stored.batch_bytes
        self._readers = [_FetchLane(address, stored, bytes_max) for _ in range(connections)]
        super().__init__(self._readers)
        self._stored = stored

    def run(self) -> Outcome:
        """Every reader reads all."""
        start = time.perf_counter()
        for lane in self._readers:
            lane.begin()
        _drive(self._readers)
        seconds = time.perf_counter() - start
        stored_bytes = self._stored.batch_count * self._stored.batch_bytes
        fetches = sum(lane.fetches for lane in self._readers)
        return Outcome(fetches, stored_bytes * len(self._readers), seconds)


def _receive(source: socket.socket, room: memoryview, count: int, flags: int) -> None:
    """Take `count` bytes, over and over into the same room if it is smaller."""
    taken = 0
    while taken < count:
        start = taken if count <= len(room) else 0
        got = source.recv_into(room[start:], min(count - taken, len(room)), flags)
        if not got:
            raise ConnectionError(f"the server closed {count - taken} bytes before the end of an answer")
        taken += got


def take(source: socket.socket, count: int) -> bytearray:
    """The next `count` bytes."""
    room = bytearray(count)
    _receive(source, memoryview(room), count, 0)
    return room


def drop(source: socket.socket, count: int) -> None:
    """Have the kernel drop the next `count` bytes."""
    _receive(source, _DROPPED, count, _DISCARD)


def _drive(lanes: Sequence[_Lane]) -> None:
    """Give turns to whoever has got something, until all are done."""
    waiting = [lane for lane in lanes if not lane.is_done]
    if len(waiting) == 1:
        while not waiting[0].is_done:
            waiting[0].turn()
        return
    with selectors.DefaultSelector() as selector:
        for lane in waiting:
            selector.register(lane.socket, selectors.EVENT_READ, lane)
        while selector.get_map():
            ready = selector.select(TIMEOUT_S)
            if not ready:
                raise TimeoutError(f"the server answered nothing for {TIMEOUT_S} s")
            for key, _ in ready:
                lane = key.data
                lane.turn()
                if lane.is_done:
                    selector.unregister(lane.socket)
