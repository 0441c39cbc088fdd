"""What a small request costs the server: requests per second of its CPU time.

CPU time of the server hardly depends on how busy the machine is, so this is the number to tune by. The
requests are produce requests with acks=1 of one record of 100 B each, as a producer without linger sends.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import partial

from benchmarks.broker.contenders import compared, counted, ottla
from benchmarks.broker.frames import NEW, ProduceShape, produce_frames
from benchmarks.broker.kfake import kfake
from benchmarks.broker.load import ProduceLoad
from benchmarks.broker.processes import Server
from benchmarks.broker.topics import new_topic
from benchmarks.harness import Case, Effort, Measure, benchmark

# (connections, requests in flight on each, what it is held to)
PATTERNS = ((1, 50, 1.5), (100, 10, 1.3))
_DIFFERENT_FRAMES = 200


@benchmark("broker-requests")
def request_cost(effort: Effort) -> Iterator[Case]:
    """Produce requests of one record, pipelined on one and on many connections."""
    with ottla() as ours, kfake() as peer:
        for connections, in_flight, target in PATTERNS:
            with contextlib.ExitStack() as loads:
                measure_of = partial(_per_cpu_second, loads, connections, in_flight, effort.server_requests)
                opened = counted(connections, "connection")
                name = f"produce 1 record of 100 B, {opened} with {in_flight} in flight"
                yield compared(
                    name,
                    "requests per CPU s of the server",
                    measure_of,
                    ours,
                    [peer],
                    rounds=effort.server_rounds,
                    target=target,
                )


def _per_cpu_second(
    loads: contextlib.ExitStack, connections: int, in_flight: int, requests: int, server: Server
) -> Measure:
    frames = produce_frames(
        new_topic(server.address, NEW),
        ProduceShape(value_bytes=100, request_bytes=0),
        count=_DIFFERENT_FRAMES,
    )
    load = loads.enter_context(
        ProduceLoad(server.address, frames, connections=connections, in_flight=in_flight)
    )

    def measure() -> float:
        before = server.cpu_seconds()
        load.run(requests)
        return requests / (server.cpu_seconds() - before)

    return measure
