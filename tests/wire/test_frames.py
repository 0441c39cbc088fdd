"""Framing: any split gives the same frames, frames stay intact, memory follows received bytes."""

import struct
import tracemalloc
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.model.errors import LocalProtocolError, RemoteProtocolError
from ottla.wire.frames import CHUNK_BYTES, FRAME_BYTES_MAX, SIZE_ROOM, FrameReceiver, seal

MEGABYTE = 1024 * 1024


def feed(receiver: FrameReceiver, data: bytes | memoryview) -> None:
    """What a driver does with bytes from a socket, as often as the offered room demands."""
    while data:
        room = receiver.get_buffer()
        count = min(len(room), len(data))
        room[:count] = data[:count]
        receiver.received(count)
        data = data[count:]


def drain(receiver: FrameReceiver) -> list[memoryview]:
    frames = []
    while (one := receiver.next_frame()) is not None:
        frames.append(one)
    return frames


def stream(bodies: list[bytes]) -> bytes:
    return b"".join(struct.pack(">i", len(body)) + body for body in bodies)


def split(data: bytes, cuts: list[int]) -> list[bytes]:
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [data[a:b] for a, b in pairwise(edges)]


@given(
    bodies=st.lists(st.integers(0, 3000).map(lambda n: bytes([n % 251]) * n), max_size=8),
    cuts=st.lists(st.integers(0, 2**16), max_size=12),
    chunk_bytes=st.sampled_from([512, 1000, 4096]),
)
def test_any_split_gives_the_same_frames_and_none_is_overwritten(
    bodies: list[bytes], cuts: list[int], chunk_bytes: int
) -> None:
    receiver = FrameReceiver(chunk_bytes=chunk_bytes)
    frames: list[memoryview] = []
    for piece in split(stream(bodies), cuts):
        feed(receiver, piece)
        frames += drain(receiver)
    receiver.eof()
    assert [bytes(one) for one in frames] == bodies


@given(st.lists(st.binary(max_size=2000), min_size=1, max_size=8))
def test_frames_may_be_fetched_late(bodies: list[bytes]) -> None:
    receiver = FrameReceiver(chunk_bytes=512)
    feed(receiver, stream(bodies))
    receiver.eof()
    assert [bytes(one) for one in drain(receiver)] == bodies


def test_frames_are_writable_views_without_a_copy() -> None:
    memory: list[bytearray] = []

    def allocate(size: int) -> bytearray:
        memory.append(bytearray(size))
        return memory[-1]

    receiver = FrameReceiver(allocate=allocate)
    feed(receiver, stream([b"one", b"two"]))
    first, second = drain(receiver)
    first[0:1] = b"O"
    assert bytes(memory[0][:14]) == b"\0\0\0\3One\0\0\0\3two"
    assert len(memory) == 1
    assert second.obj is memory[0]


@pytest.mark.parametrize(
    ("head", "text"),
    [
        (struct.pack(">i", -1), "announced a frame of -1 bytes"),
        (struct.pack(">i", FRAME_BYTES_MAX + 1), "104857601 bytes, above the limit of 104857600"),
        (b"HTTP", "looks like HTTP"),
        (b"GET ", "looks like HTTP"),
        (b"\x15\x03\x03\x00", r"looks like a TLS alert.*security.protocol.*352518912"),
        (b"\x16\x03\x01\x02", "looks like a TLS handshake"),
    ],
)
def test_a_bad_size_is_refused_before_memory_is_taken(head: bytes, text: str) -> None:
    receiver = FrameReceiver()
    receiver.get_buffer()
    tracemalloc.start()
    feed(receiver, head)
    for _ in range(2):  # it stays refused
        with pytest.raises(RemoteProtocolError, match=text):
            receiver.next_frame()
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak_bytes < 64 * 1024


def test_a_bad_size_behind_a_full_chunk_is_refused_when_room_is_asked_for() -> None:
    receiver = FrameReceiver(chunk_bytes=512)
    feed(receiver, struct.pack(">i", -5) + bytes(508))
    with pytest.raises(RemoteProtocolError, match="-5"):
        receiver.get_buffer()


def test_a_limit_is_inclusive() -> None:
    receiver = FrameReceiver(frame_bytes_max=3)
    feed(receiver, stream([b"abc"]))
    assert [bytes(one) for one in drain(receiver)] == [b"abc"]
    feed(receiver, stream([b"abcd"]))
    with pytest.raises(RemoteProtocolError, match="4 bytes, above the limit of 3"):
        receiver.next_frame()


class CountingAllocator:
    """Remembers the size of every chunk asked for."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def __call__(self, size: int) -> bytearray:
        self.sizes.append(size)
        return bytearray(size)


@pytest.mark.parametrize("sent_bytes", [0, 1, 4000, 5000, 20_000, 300_000])
def test_an_announced_frame_costs_what_was_sent_of_it(sent_bytes: int) -> None:
    allocate = CountingAllocator()
    receiver = FrameReceiver(allocate=allocate)
    feed(receiver, struct.pack(">i", 100_000_000) + bytes(sent_bytes))
    assert receiver.next_frame() is None
    receiver.get_buffer()
    assert max(allocate.sizes) <= max(CHUNK_BYTES, 4 * (sent_bytes + 4))


def test_chunks_grow_geometrically_and_are_not_grown_twice_for_the_same_peer() -> None:
    allocate = CountingAllocator()
    receiver = FrameReceiver(allocate=allocate)
    body = bytes(8 * MEGABYTE)
    feed(receiver, stream([body]))
    assert len(drain(receiver)) == 1
    assert len(allocate.sizes) <= 8
    assert allocate.sizes[-1] == len(body) + 4
    allocate.sizes.clear()
    feed(receiver, stream([body]))
    assert len(drain(receiver)) == 1
    assert allocate.sizes == [CHUNK_BYTES, len(body) + 4]


def test_a_chunk_that_completes_the_frame_is_kept_though_little_room_is_left() -> None:
    allocate = CountingAllocator()
    receiver = FrameReceiver(chunk_bytes=1024, allocate=allocate)
    feed(receiver, struct.pack(">i", 1000) + bytes(900))
    assert len(receiver.get_buffer()) == 120
    feed(receiver, bytes(100))
    assert len(drain(receiver)) == 1
    assert allocate.sizes == [1024]


def test_little_room_is_not_worth_a_call_if_the_frame_needs_more() -> None:
    receiver = FrameReceiver(chunk_bytes=1024)
    feed(receiver, struct.pack(">i", 2000) + bytes(1000))
    assert len(receiver.get_buffer()) >= 1000  # not the 20 bytes that were left
    idle = FrameReceiver(chunk_bytes=1024)
    feed(idle, stream([bytes(1000)]))
    assert len(drain(idle)) == 1
    assert len(idle.get_buffer()) == 1024


def test_what_a_peer_has_earned_fades_with_smaller_frames() -> None:
    allocate = CountingAllocator()
    receiver = FrameReceiver(allocate=allocate)
    feed(receiver, stream([bytes(MEGABYTE), *[b""] * 12]))
    assert len(drain(receiver)) == 13
    allocate.sizes.clear()
    feed(receiver, struct.pack(">i", MEGABYTE) + bytes(CHUNK_BYTES))
    receiver.get_buffer()
    assert max(allocate.sizes) <= 4 * (CHUNK_BYTES + 4)


def test_a_hint_sizes_the_next_chunk() -> None:
    receiver = FrameReceiver()
    assert len(receiver.get_buffer(65536)) == 65536
    assert len(FrameReceiver().get_buffer(10)) == CHUNK_BYTES


def test_a_frame_like_the_last_one_is_received_in_one_piece() -> None:
    receiver = FrameReceiver()
    feed(receiver, stream([bytes(MEGABYTE)]))
    assert len(drain(receiver)) == 1
    receiver.make_room()
    room = receiver.get_buffer()
    assert len(room) >= MEGABYTE + 4
    room[:100] = stream([bytes(MEGABYTE)])[:100]
    receiver.received(100)
    receiver.make_room()  # a frame has begun: its room stays
    assert len(receiver.get_buffer()) == len(room) - 100


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"\0\0\0", "3 of at least 4 bytes"),
        (b"\0\0\0\5abc", "7 of 9 bytes"),
        (b"\0\0\0\1a\0\0\0\2", "4 of 6 bytes"),
    ],
)
def test_a_close_inside_a_frame_is_an_error_with_numbers(data: bytes, text: str) -> None:
    receiver = FrameReceiver()
    feed(receiver, data)
    with pytest.raises(RemoteProtocolError, match=text):
        receiver.eof()


@pytest.mark.parametrize("count", [-1, 513])
def test_a_driver_cannot_claim_more_than_was_offered(count: int) -> None:
    receiver = FrameReceiver(chunk_bytes=512)
    receiver.get_buffer()
    with pytest.raises(LocalProtocolError, match=str(count)):
        receiver.received(count)


def test_sealing_fills_in_the_size_and_keeps_the_parts() -> None:
    head, big = bytearray(SIZE_ROOM + b"ab"), memoryview(bytearray(1000))
    parts = seal([head, big])
    assert parts[0] is head
    assert parts[1] is big
    assert head == b"\0\0\x03\xeaab"
    assert seal([bytearray(SIZE_ROOM)]) == [b"\0\0\0\0"]


def test_a_frame_above_int32_is_refused() -> None:
    big = memoryview(bytes(16 * MEGABYTE))
    with pytest.raises(LocalProtocolError, match="2147483648"):
        seal([bytearray(SIZE_ROOM), *[big] * 128])
