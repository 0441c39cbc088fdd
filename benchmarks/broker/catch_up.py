"""The tail of a topic while other consumers catch up: how long a record takes from its producer to a reader.

A producer sends a record of 100 B every 2 ms, and a reader waits for it at the end of the log. Meanwhile no,
one, two or four other processes read 8 partitions from their beginning, again and again, as fast as the
broker gives, 1 MB of each partition at a time as Kafka's consumer does by default. Their bytes are in the
page cache, and the kernel drops what they receive. Both ends of the tail are in this process.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from benchmarks.broker.catching_up import CatchingUp
from benchmarks.broker.contenders import compared, counted, ottla
from benchmarks.broker.frames import NEW, ProduceShape, produce_frames
from benchmarks.broker.kafka import running
from benchmarks.broker.lines import Line
from benchmarks.broker.load import Address, StoredBatches, connected, filled
from benchmarks.broker.processes import Server
from benchmarks.broker.topics import new_topic
from benchmarks.harness import Better, Case, Effort, Measure, Peer, benchmark, growth, noted
from ottla.wire.api.fetch import FetchPartition, FetchRequest, FetchTopic
from tools.peer_cache import KAFKA_4

READERS = (1, 2, 4)
SLOWER_MAX = 2.0
GROWTH_LIMIT = 1.0
PARTITIONS = 8
INTERVAL_S, RECORDS = 0.002, 2_000
_STORED = ProduceShape(value_bytes=1000, request_bytes=16_384)
_SENT = ProduceShape(value_bytes=100, request_bytes=0)


class _Tail:
    """A producer and a reader of one topic."""

    def __init__(self, address: Address) -> None:
        self._topic = new_topic(address, NEW)
        self._frames = produce_frames(self._topic, _SENT, count=1, acks=0)
        self._address = address
        self._sent_s: list[float] = []

    def delays_s(self) -> list[float]:
        """Send RECORDS records, and return how long each took to its reader."""
        first = len(self._sent_s)
        producing = threading.Thread(target=self._produce)
        producing.start()
        delays: list[float] = []
        with Line(self._address) as line:
            while len(delays) < RECORDS:
                answer = line.ask(self._fetch(first + len(delays)), NEW.fetch_version)
                now_s = time.perf_counter()
                (partition,) = answer.responses[0].partitions
                if partition.error_code:
                    raise RuntimeError(f"the tail was answered with error {partition.error_code}")
                got = len(partition.records or b"") // int(self._frames.records_bytes)
                offset = first + len(delays)
                delays += [now_s - sent_s for sent_s in self._sent_s[offset : offset + got]]
        producing.join()
        return delays

    def _produce(self) -> None:
        frame = self._frames.part(0, 1)
        with connected(self._address) as connection:
            due_s = time.perf_counter()
            for _ in range(RECORDS):
                due_s += INTERVAL_S
                time.sleep(max(due_s - time.perf_counter(), 0))
                self._sent_s.append(time.perf_counter())
                connection.sendall(frame)

    def _fetch(self, offset: int) -> FetchRequest:
        partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
        topics = [FetchTopic(topic=self._topic, partitions=[partition])]
        return FetchRequest(max_wait_ms=500, min_bytes=1, max_bytes=1 << 20, topics=topics)


class _Crowd:
    """A server with stored topics, its tail, and those who catch up on it."""

    def __init__(self, server: Server, megabytes: int) -> None:
        self._address = server.address
        self._tail = _Tail(server.address)
        requests = megabytes * 1_000_000 // PARTITIONS // _STORED.request_bytes
        self._topics: list[StoredBatches] = [
            filled(server.address, produce_frames(new_topic(server.address, NEW), _STORED, count=1), requests)
            for _ in range(PARTITIONS)
        ]
        self.rates: dict[int, list[float]] = {}

    def tail_p99_ms(self, readers: int) -> float:
        """The tail while so many others catch up."""
        crowd = [CatchingUp(self._address, self._topics) for _ in range(readers)]
        try:
            delays = sorted(self._tail.delays_s())
        finally:
            rates = [one.finish() for one in crowd]
        self.rates.setdefault(readers, []).append(sum(rates))
        return delays[int(0.99 * len(delays))] * 1000


@benchmark("broker-catch-up")
def catch_up(effort: Effort) -> Iterator[Case]:
    """The tail alone, and with more and more who catch up."""
    with ottla() as ours, running(KAFKA_4) as peer:
        crowds = {it: _Crowd(it, effort.server_mb) for it in (ours, peer) if isinstance(it, Server)}
        alone = Peer(
            "ottla, nobody catches up", measure=partial(crowds[ours].tail_p99_ms, 0), target=1 / SLOWER_MAX
        )
        delays_ms: dict[int, list[float]] = {readers: [] for readers in READERS}
        for readers in READERS:
            case = compared(
                f"p99 of the tail while {_who(readers)} up",
                "ms",
                partial(_tail_p99_ms, crowds, readers),
                ours,
                [peer],
                rounds=effort.server_rounds,
                better=Better.LESS,
            )
            yield replace(case, ours=noted(case.ours, delays_ms[readers]), peers=[alone, *case.peers])
        for readers in READERS:
            name = f"{_who(readers)} up beside a tail"
            rate_of = partial(_best_rate, crowds, readers)
            yield compared(name, "B/s", rate_of, ours, [peer], rounds=1, is_warmed=False)
        yield growth("the tail's p99 with those who catch up", delays_ms, GROWTH_LIMIT)


def _who(readers: int) -> str:
    return f"{counted(readers, 'consumer')} catch{'es' * (readers == 1)}"


def _tail_p99_ms(crowds: dict[Server, _Crowd], readers: int, server: Server) -> Measure:
    return partial(crowds[server].tail_p99_ms, readers)


def _best_rate(crowds: dict[Server, _Crowd], readers: int, server: Server) -> Measure:
    """What those who caught up beside the tail have got together."""
    return lambda: max(crowds[server].rates[readers])
