"""A small part of the proof of `faults`, and the line and the clock by themselves."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faulty_line import FaultyLine
from tests.jumping_clock import JumpingClock, install
from tests.proof.faults import prove
from tests.scale import REPLAY, SEED, sized

FAULTS = sized(3, 300)


@pytest.mark.timeout(sized(300, 7_200))
def test_exactly_once_whatever_goes_wrong(tmp_path: Path) -> None:
    assert prove(FAULTS, SEED, tmp_path) == [], REPLAY


def test_a_clock_that_jumps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", time.time)
    monkeypatch.setattr(time, "time_ns", time.time_ns)
    clock, before, steady = JumpingClock(tmp_path / "clock"), time.time(), time.monotonic()
    install(clock.path)
    clock.jump(7_200)
    assert time.time() - before >= 7_200 <= (time.time_ns() / 1e9) - before
    clock.jump(-10_800)
    assert time.time() < before
    assert time.monotonic() - steady < 3_600


@pytest.fixture
def far() -> Iterator[socket.socket]:
    """The server behind a line."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(30)
        yield listener


def ends(line: FaultyLine, far: socket.socket) -> tuple[socket.socket, socket.socket]:
    """Both ends of a new connection through the line."""
    near = socket.create_connection(("127.0.0.1", line.port), 30)
    peer, _ = far.accept()
    peer.settimeout(30)
    return near, peer


def received(peer: socket.socket) -> bytes:
    """All that comes until the connection ends, also by a reset."""
    data = b""
    try:
        while more := peer.recv(1000):
            data += more
    except ConnectionResetError:
        pass
    return data


def test_a_line_cuts_inside_of_a_frame_in_both_directions(far: socket.socket) -> None:
    with FaultyLine("{}:{}".format(*far.getsockname())) as line:
        line.cut_requests_after(3)
        near, peer = ends(line, far)
        with near, peer:
            near.sendall(b"request")
            assert (received(peer), received(near)) == (b"req", b"")
        line.cut_after(2)
        near, peer = ends(line, far)
        with near, peer:
            near.sendall(b"request")
            assert peer.recv(7) == b"request"
            peer.sendall(b"answer")
            assert received(near) == b"an"
        assert line.cuts == 2


def test_a_line_repeats_requests_on_a_connection_of_their_own(far: socket.socket) -> None:
    with FaultyLine("{}:{}".format(*far.getsockname())) as line:
        line.duplicates = True
        near, twin = ends(line, far)
        peer, _ = far.accept()
        with near, twin, peer:
            near.sendall(b"request")
            assert twin.recv(7) == peer.recv(7) == b"request"
            twin.sendall(b"to nobody")
            peer.sendall(b"answer")
            assert near.recv(9) == b"answer"
            line.mend()
            assert received(near) == b""


def test_a_slow_line_passes_everything_on(far: socket.socket) -> None:
    with FaultyLine("{}:{}".format(*far.getsockname())) as line:
        line.delay_s, line.bytes_per_s = 0.001, 20_000
        near, peer = ends(line, far)
        with near, peer:
            near.sendall(bytes(range(256)) * 20)
            near.shutdown(socket.SHUT_WR)
            assert received(peer) == bytes(range(256)) * 20
