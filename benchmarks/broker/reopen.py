"""How long a broker needs until it takes a record again, with much on its disk, at three sizes.

10,000 partitions have a segment or ten each (`--quick`: a tenth of them); a smaller row has a tenth, another
a hundredth, and the last case says by which power of the size the time grows. A start follows a clean stop,
or a kill -9 just after records. Kafka is compared with one segment a partition: with ten it maps 200,000
index files, more than Linux lets a process map unless it is told to (vm.max_map_count).
"""

from __future__ import annotations

import contextlib
import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from benchmarks.broker.contenders import counted, ottla_command
from benchmarks.broker.first_record import produce_first
from benchmarks.broker.frames import NEW, ProduceShape, error_at, metadata_frame, produce_frames
from benchmarks.broker.kafka import NAME, installed
from benchmarks.broker.processes import Server, free_port, started
from benchmarks.broker.topics import create_large
from benchmarks.harness import FULL, Better, Case, Effort, Measure, Peer, benchmark, growth, noted, version_of
from ottla.producer import Producer
from tools.peer_cache import KAFKA_4, Unavailable

PARTITIONS, FEW_PARTITIONS = 10_000, 1_000
CLEAN_LIMIT_S, KILLED_LIMIT_S = 3.0, 10.0
GROWTH_LIMIT = 1.2
"""The power of the size that the time may grow by: 1 is linear, and the rest is for the noise."""
TOPIC = "many"
VALUE = bytes(1000)
SEGMENT_BYTES = 1100  # one record
TIMEOUT_S = 300

Start = Callable[[], contextlib.AbstractContextManager[Server]]


@dataclass(frozen=True)
class _Content:
    """What a broker finds."""

    partitions: int
    segments_each: int

    def __str__(self) -> str:
        segments = self.partitions * self.segments_each
        return f"{self.partitions:,} partitions, {segments:,} segments"

    def write(self, server: Server, *, is_ours: bool) -> None:
        """Create the topic and fill it."""
        configs = {"segment.bytes": str(SEGMENT_BYTES)} if is_ours else {}
        create_large(server.bootstrap, TOPIC, self.partitions, TIMEOUT_S, configs)
        with Producer(bootstrap_servers=server.bootstrap) as producer:
            for _ in range(self.segments_each):
                _one_each(producer, self.partitions)


def _one_each(producer: Producer, partitions: int) -> None:
    """Append a record to each partition, and wait until all are stored."""
    columns = {
        "value": pa.array([VALUE] * partitions, pa.binary()),
        "partition": pa.array(range(partitions), pa.int32()),
    }
    producer.send_batch(TOPIC, pa.record_batch(columns))
    producer.flush(TIMEOUT_S)


@benchmark("broker-reopen")
def reopen(effort: Effort) -> Iterator[Case]:
    """Clean and killed, with one and with ten segments a partition."""
    most = PARTITIONS if effort is FULL else FEW_PARTITIONS
    for segments_each in (1, 10):
        for is_killed, limit_s in ((False, CLEAN_LIMIT_S), (True, KILLED_LIMIT_S)):
            seconds: dict[int, list[float]] = {}
            for partitions in (most // 100, most // 10, most):
                content = _Content(partitions, segments_each)
                seconds[partitions] = []
                with contextlib.ExitStack() as life:
                    ours = _measured(life.enter_context(_ottla()), content, is_killed=is_killed, is_ours=True)
                    is_last = partitions == most
                    peers = (
                        [Peer("what it may be", measure=partial(float, limit_s), target=1)] if is_last else []
                    )
                    if is_last and segments_each == 1:
                        peers.append(_kafka(life, content, is_killed=is_killed))
                    yield Case(
                        f"start with {content}, {'after kill -9' if is_killed else 'after a clean stop'}",
                        "s",
                        noted(ours, seconds[partitions]),
                        peers,
                        rounds=1,
                        better=Better.LESS,
                        is_warmed=False,
                    )
            how = "after kill -9" if is_killed else "after a clean stop"
            each = counted(segments_each, "segment")
            yield growth(f"a start with {each} a partition, {how}", seconds, GROWTH_LIMIT)


def _measured(start: Start, content: _Content, *, is_killed: bool, is_ours: bool) -> Measure:
    with start() as server:
        content.write(server, is_ours=is_ours)

    def measure() -> float:
        if is_killed:
            with start() as server, contextlib.ExitStack() as life:
                producer = life.enter_context(Producer(bootstrap_servers=server.bootstrap))
                _one_each(producer, content.partitions)
                os.kill(server.pid, signal.SIGKILL)
        with start() as server:
            produce_first(server.address, _questions(), error_at(TOPIC))
            return time.perf_counter() - server.started_at

    return measure


def _questions() -> tuple[bytes, bytes]:
    shape = ProduceShape(value_bytes=100, request_bytes=0, dialect=NEW)
    return metadata_frame(TOPIC, NEW), bytes(produce_frames(TOPIC, shape, count=1).data)


@contextlib.contextmanager
def _ottla() -> Iterator[Start]:
    with tempfile.TemporaryDirectory(prefix="ottla-benchmark-") as directory:
        port = free_port()
        # To flush what was just written to so many files takes longer than any other stop.
        command, version = ottla_command(port, directory), version_of("ottla") or ""
        yield lambda: started("ottla", version, command, port, TIMEOUT_S)


def _kafka(life: contextlib.ExitStack, content: _Content, *, is_killed: bool) -> Peer:
    try:
        start = life.enter_context(installed(KAFKA_4))
    except Unavailable as error:
        return Peer(NAME, KAFKA_4, note=str(error), target=1)
    return Peer(NAME, KAFKA_4, _measured(start, content, is_killed=is_killed, is_ours=False), target=1)
