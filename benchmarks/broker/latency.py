"""How long a producer waits: one record, acks=1, one connection, the next request after the answer."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import partial

from benchmarks.broker.contenders import compared, ottla
from benchmarks.broker.frames import Dialect, ProduceShape, produce_frames
from benchmarks.broker.kafka import rivals
from benchmarks.broker.load import ProduceLoad
from benchmarks.broker.processes import Server
from benchmarks.broker.topics import new_topic
from benchmarks.harness import Better, Case, Effort, Measure, benchmark

TARGET = 1.0
# Percentile and what it is held to. Nothing is said about the median.
PERCENTILES = ((0.99, TARGET), (0.5, None))
# Of the requests that a pipelined load sends in a round.
_SHARE = 10


@benchmark("broker-latency")
def latency(effort: Effort) -> Iterator[Case]:
    """Round trips, the slow ones and the usual ones."""
    with ottla() as ours, rivals() as others:
        for rival in others:
            with contextlib.ExitStack() as loads:
                for percentile, target in PERCENTILES:
                    measure_of = partial(
                        _round_trip, loads, rival.dialect, percentile, effort.server_requests // _SHARE
                    )
                    yield compared(
                        f"p{percentile:.0%}"[:-1] + f" of producing 1 record of 100 B, {rival.dialect}",
                        "µs",
                        measure_of,
                        ours,
                        [rival.contender],
                        rounds=effort.server_rounds,
                        target=target,
                        better=Better.LESS,
                    )


def _round_trip(
    loads: contextlib.ExitStack, dialect: Dialect, percentile: float, count: int, server: Server
) -> Measure:
    shape = ProduceShape(value_bytes=100, request_bytes=0, dialect=dialect)
    frames = produce_frames(new_topic(server.address, dialect), shape, count=1)
    load = loads.enter_context(ProduceLoad(server.address, frames))
    load.round_trips(count)  # a virtual machine needs some to be itself

    def measure() -> float:
        seconds = sorted(load.round_trips(count))
        return seconds[int(percentile * count)] * 1e6

    return measure
