"""An honest producer beside clients that ask for too much: how long its slowest requests take meanwhile.

Each abuse is a process of its own (`abusers`). The honest client sends one record at a time until it ends.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from benchmarks.broker.abusers import ABUSES, PARTITIONS, UNREAD, answered, creation
from benchmarks.broker.contenders import compared, ottla
from benchmarks.broker.frames import NEW, ProduceShape, produce_frames
from benchmarks.broker.kafka import rivals
from benchmarks.broker.load import Address, ProduceLoad
from benchmarks.broker.processes import Server, allow_connections
from benchmarks.broker.topics import new_topic
from benchmarks.harness import Better, Case, Effort, Measure, Peer, benchmark

P99_MS = 100.0
CREATE_S, STOP_S = 3.0, 5.0
_ROUND_TRIPS = 20
_PROGRAM = "import sys; from benchmarks.broker.abusers import main; main(*sys.argv[1:])"
_POLL_S = 0.01


@benchmark("broker-abuse")
def abuse(_effort: Effort) -> Iterator[Case]:
    """Each abuse beside an honest client, with a new broker of ours; then 10,000 partitions by the clock."""
    allow_connections(2 * UNREAD + PARTITIONS)
    with rivals() as others:
        peers = [rival.contender for rival in others if rival.dialect is NEW]
        for name in ABUSES:
            with ottla() as ours:
                title = f"p99 of producing 1 record during: {name}"
                yield compared(
                    title,
                    "ms",
                    partial(_p99_ms, name),
                    ours,
                    peers,
                    rounds=1,
                    better=Better.LESS,
                    limit=P99_MS,
                    is_warmed=False,
                )
    yield _by_the_clock("a topic of 10,000 partitions is created", _creation_s, CREATE_S)
    yield _by_the_clock("a broker with 10,000 partitions stops", _stop_s, STOP_S)


def _p99_ms(name: str, server: Server) -> Measure:
    def measure() -> float:
        shape = ProduceShape(value_bytes=100, request_bytes=0, dialect=NEW)
        frames = produce_frames(new_topic(server.address, NEW), shape, count=1)
        with ProduceLoad(server.address, frames) as load, _abuser(name, server.address) as abuser:
            load.round_trips(10 * _ROUND_TRIPS)
            assert abuser.stdin is not None
            abuser.stdin.write(b"go\n")
            abuser.stdin.flush()
            seconds = []
            while abuser.poll() is None:
                seconds += load.round_trips(_ROUND_TRIPS)
            if abuser.returncode:
                raise RuntimeError(f"{name}: the abuser failed")
        return sorted(seconds)[int(0.99 * len(seconds))] * 1e3

    return measure


@contextlib.contextmanager
def _abuser(name: str, address: Address) -> Iterator[subprocess.Popen[bytes]]:
    """A process that is ready to abuse the broker."""
    command = [sys.executable, "-c", _PROGRAM, name, address[0], str(address[1])]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process


def _by_the_clock(name: str, measure: Measure, limit: float) -> Case:
    peer = Peer("what it may be", measure=lambda: limit, target=1)
    return Case(name, "s", measure, [peer], 1, Better.LESS, is_warmed=False)


def _creation_s() -> float:
    with ottla() as server:
        question = creation("large", PARTITIONS)
        start = time.perf_counter()
        answered(server.address, question)
        return time.perf_counter() - start


def _stop_s() -> float:
    with ottla() as server:
        answered(server.address, creation("large", PARTITIONS))
        start = time.perf_counter()
        os.kill(server.pid, signal.SIGTERM)
        while Path(f"/proc/{server.pid}").exists():
            time.sleep(_POLL_S)
        return time.perf_counter() - start
