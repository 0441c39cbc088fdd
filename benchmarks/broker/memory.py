"""Resident memory under load and with many connections that do nothing, and whether those are served.

The load is everything at once that the other benchmarks do one by one: large and small requests, many
connections, fetches. Its peak counts. Idle connections are counted by what they add.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from functools import partial

from benchmarks.broker.contenders import MeasureOf, compared, ottla
from benchmarks.broker.frames import NEW, Dialect, ProduceShape, api_versions_frame, produce_frames
from benchmarks.broker.kafka import rivals
from benchmarks.broker.load import FetchLoad, ProduceLoad, connected, filled
from benchmarks.broker.processes import Contender, Server, allow_connections
from benchmarks.broker.topics import new_topic
from benchmarks.harness import Better, Case, Effort, Measure, benchmark

LIMIT_MB = 150.0
IDLE_CONNECTIONS = 1000
_FETCHERS = 4
_SMALL_REQUESTS = 2000
_SIZE_BYTES = 4


@benchmark("broker-memory")
def memory(effort: Effort) -> Iterator[Case]:
    """Under load, then with idle connections. Ours is a new process beside each Kafka."""
    allow_connections(2 * IDLE_CONNECTIONS)
    with rivals() as others:
        for rival in others:
            with ottla() as ours:
                measure_of = partial(_loaded_mb, rival.dialect, effort.server_mb)
                name = f"peak resident memory under load, {rival.dialect}"
                yield _once(name, "MB", measure_of, ours, [rival.contender], Better.LESS, LIMIT_MB)
        peers = [rival.contender for rival in others if rival.dialect is NEW]
        with ottla() as ours:
            name = f"resident memory with {IDLE_CONNECTIONS} idle connections"
            yield _once(name, "MB", _idle_mb, ours, peers, Better.LESS, LIMIT_MB)
            name = f"answers to {IDLE_CONNECTIONS} connections that were idle, while another one produces"
            yield _once(name, "connections", _answers, ours, peers, Better.MORE, IDLE_CONNECTIONS)


def _once(
    name: str,
    unit: str,
    measure_of: MeasureOf,
    ours: Server,
    peers: list[Contender],
    better: Better,
    limit: float,
) -> Case:
    """Memory only grows, so the first round of a new process is the one to look at."""
    return compared(
        name, unit, measure_of, ours, peers, rounds=1, better=better, limit=limit, is_warmed=False
    )


def _loaded_mb(dialect: Dialect, megabytes: int, server: Server) -> Measure:
    def measure() -> float:
        for request_bytes, connections in ((1_000_000, 1), (1_000_000, 4), (16_384, 16), (0, 100)):
            shape = ProduceShape(value_bytes=100, request_bytes=request_bytes, dialect=dialect)
            requests = megabytes * 1_000_000 // request_bytes if request_bytes else _SMALL_REQUESTS
            frames = produce_frames(new_topic(server.address, dialect), shape, count=4)
            with ProduceLoad(server.address, frames, connections=connections, in_flight=5) as writers:
                writers.run(requests)
        shape = ProduceShape(value_bytes=1000, request_bytes=16_384, dialect=dialect)
        frames = produce_frames(new_topic(server.address, dialect), shape, count=1)
        stored = filled(server.address, frames, megabytes * 1_000_000 // shape.request_bytes)
        with FetchLoad(server.address, stored, connections=_FETCHERS, batches_per_fetch=60) as readers:
            readers.run()
        return server.peak_resident_mb()

    return measure


def _idle_mb(server: Server) -> Measure:
    def measure() -> float:
        with contextlib.ExitStack() as connections:
            _opened(connections, server)
            return server.resident_mb()

    return measure


def _answers(server: Server) -> Measure:
    def measure() -> float:
        stop = threading.Event()
        load = threading.Thread(target=_produce_until, args=(server, stop))
        with contextlib.ExitStack() as connections:
            idle = _opened(connections, server)
            load.start()
            try:
                return sum(map(answers_versions, idle))
            finally:
                stop.set()
                load.join()

    return measure


def _opened(connections: contextlib.ExitStack, server: Server) -> list[socket.socket]:
    """So many connections, each known to be accepted by an answer on it."""
    opened = [connections.enter_context(connected(server.address)) for _ in range(IDLE_CONNECTIONS)]
    for connection in opened:
        answers_versions(connection)
    return opened


def _produce_until(server: Server, stop: threading.Event) -> None:
    shape = ProduceShape(value_bytes=100, request_bytes=0)
    frames = produce_frames(new_topic(server.address, NEW), shape, count=50)
    with ProduceLoad(server.address, frames, in_flight=50) as load:
        while not stop.is_set():
            load.run(_SMALL_REQUESTS)


def answers_versions(connection: socket.socket) -> bool:
    """Whether a whole answer comes on a connection."""
    connection.sendall(api_versions_frame())
    with connection.makefile("rb") as answer:
        size = int.from_bytes(answer.read(_SIZE_BYTES))
        return size > 0 and len(answer.read(size)) == size
