"""From nothing to the first record that is acknowledged, in seconds of the wall clock.

In process: a new interpreter that has imported nothing imports `EmbeddedBroker` and uses it; once with the
import on the clock, once without. As processes: from the process's start, ours and Kafka's, each on an empty
data directory. Kafka's ZooKeeper runs already, or its storage is formatted already. Ours has been compiled
to bytecode already, as after any first start.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from benchmarks.broker.contenders import ottla
from benchmarks.broker.first_record import produce_first
from benchmarks.broker.frames import NEW, OLD, Dialect, ProduceShape, error_at, metadata_frame, produce_frames
from benchmarks.broker.kafka import NAME, installed
from benchmarks.broker.processes import Server, free_port, started
from benchmarks.harness import Better, Case, Effort, Peer, benchmark, bytecode_kept
from tools.peer_cache import KAFKA_0_9, KAFKA_4, Unavailable, kafka_libs

IN_PROCESS_LIMIT_S = 0.3
PROCESS_TARGETS = {KAFKA_0_9: 7.0, KAFKA_4: 16.0}
PROCESS_LIMIT_S = 0.15
_TOPIC = "first"
_CHILD_S = 60

_CHILD = """
import sys, time
sys.path.insert(0, {place!r})
from first_record import produce_first
started = time.perf_counter()
from ottla.broker.embedded import EmbeddedBroker
imported = time.perf_counter()
with EmbeddedBroker() as broker:
    produce_first(("127.0.0.1", broker.port), {questions!r}, {error_at!r})
    done = time.perf_counter()
print(done - started, done - imported)
"""

_BARE = """
import asyncio
async def serve():
    server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", {port})
    await server.serve_forever()
asyncio.run(serve())
"""


@benchmark("broker-start")
def start(effort: Effort) -> Iterator[Case]:
    """In process, with and without imports, then as processes."""
    with bytecode_kept():
        _as_process(ottla, NEW)
        yield from _cases(effort)


def _cases(effort: Effort) -> Iterator[Case]:
    limit = _limit(IN_PROCESS_LIMIT_S)
    for index, name in enumerate(("imports included", "imported before")):
        measure = partial(_in_process, index)
        yield Case(
            f"start to first record, in process, {name}",
            "s",
            measure,
            [limit],
            effort.server_rounds,
            Better.LESS,
        )
    peers = [_limit(PROCESS_LIMIT_S), _bare_python(), _kafka(KAFKA_0_9, OLD), _kafka(KAFKA_4, NEW)]
    yield Case(
        "start to first record, as a process",
        "s",
        lambda: _as_process(ottla, NEW),
        peers,
        effort.process_rounds,
        Better.LESS,
        is_warmed=False,
    )


def _limit(seconds: float) -> Peer:
    return Peer("what it may be", measure=lambda: seconds, target=1)


def _bare_python() -> Peer:
    """The bound: a Python that imports asyncio, opens a port and answers the first connection."""

    def measure() -> float:
        port = free_port()
        command = [sys.executable, "-c", _BARE.format(port=port)]
        with started("a bare server", "", command, port) as server:
            return time.perf_counter() - server.started_at

    return Peer("bare Python with asyncio and a port", measure=measure)


def _in_process(index: int) -> float:
    script = _CHILD.format(
        place=str(Path(__file__).parent), questions=_questions(NEW), error_at=error_at(_TOPIC)
    )
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=_CHILD_S)
    return float(done.stdout.split()[index])


def _kafka(version: str, dialect: Dialect) -> Peer:
    def measure() -> float:
        with installed(version) as begin:
            return _as_process(begin, dialect)

    try:
        kafka_libs(version)
    except Unavailable as error:
        return Peer(NAME, version, note=str(error), target=PROCESS_TARGETS[version])
    return Peer(NAME, version, measure, target=PROCESS_TARGETS[version])


def _as_process(begin: Callable[[], contextlib.AbstractContextManager[Server]], dialect: Dialect) -> float:
    with begin() as server:
        produce_first(server.address, _questions(dialect), error_at(_TOPIC))
        return time.perf_counter() - server.started_at


def _questions(dialect: Dialect) -> tuple[bytes, bytes]:
    shape = ProduceShape(value_bytes=100, request_bytes=0, dialect=dialect)
    return metadata_frame(_TOPIC, dialect), bytes(produce_frames(_TOPIC, shape, count=1).data)
