"""The load generator alone, for whoever tunes a server: `python -m benchmarks.broker --help`.

Without `--connect` it starts our broker itself. One line a round: what passed, and what it cost the server.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from collections.abc import Callable, Iterator

from benchmarks.broker.contenders import ottla
from benchmarks.broker.frames import NEW, OLD, ProduceFrames, ProduceShape, produce_frames
from benchmarks.broker.load import FetchLoad, Outcome, ProduceLoad, filled
from benchmarks.broker.processes import Server
from benchmarks.broker.topics import new_topic

_FETCH_BYTES = 1_000_000


def main(arguments: list[str] | None = None) -> int:
    """Load a server as the arguments say."""
    options = _parser().parse_args(arguments)
    with _server(options) as server:
        print(f"{server.bootstrap}, process {server.pid}", flush=True)
        with _runs(options, server) as run:
            for _ in range(options.rounds):
                _print_round(server, run)
        print(f"resident {server.resident_mb():.0f} MB, at most {server.peak_resident_mb():.0f} MB")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.broker", description=__doc__)
    parser.add_argument("--connect", metavar="HOST:PORT", help="a server that runs already; needs --pid")
    parser.add_argument("--pid", type=int, help="its process")
    parser.add_argument("--value-bytes", type=int, default=100)
    parser.add_argument("--request-bytes", type=int, default=0, help="records of a request; 0: one record")
    parser.add_argument("--connections", type=int, default=1)
    parser.add_argument("--in-flight", type=int, default=50, help="requests on each connection")
    parser.add_argument("--requests", type=int, default=40_000, help="produce requests a round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--old", action="store_true", help="format 0 and the versions of Kafka 0.9")
    parser.add_argument("--fetch", action="store_true", help="produce once, then fetch it all each round")
    return parser


@contextlib.contextmanager
def _server(options: argparse.Namespace) -> Iterator[Server]:
    if not options.connect:
        with ottla() as server:
            yield server
        return
    host, _, port = options.connect.rpartition(":")
    yield Server("server", "", (host, int(port)), options.pid)


@contextlib.contextmanager
def _runs(options: argparse.Namespace, server: Server) -> Iterator[Callable[[], Outcome]]:
    dialect = OLD if options.old else NEW
    shape = ProduceShape(options.value_bytes, options.request_bytes, dialect)
    topic = new_topic(server.address, dialect)
    # Fetches find offsets by size, so all they read has to be alike.
    frames = produce_frames(topic, shape, count=1 if options.fetch else 100)
    if options.fetch:
        with _fetch_load(options, server, frames) as reader:
            yield reader.run
        return
    with ProduceLoad(
        server.address, frames, connections=options.connections, in_flight=options.in_flight
    ) as writer:
        yield lambda: writer.run(options.requests)


def _fetch_load(options: argparse.Namespace, server: Server, frames: ProduceFrames) -> FetchLoad:
    stored = filled(server.address, frames, options.requests)
    per_fetch = max(1, _FETCH_BYTES // stored.batch_bytes)
    return FetchLoad(server.address, stored, connections=options.connections, batches_per_fetch=per_fetch)


def _print_round(server: Server, run: Callable[[], Outcome]) -> None:
    server_before, own_before = server.cpu_seconds(), time.process_time()
    outcome = run()
    server_s, own_s = server.cpu_seconds() - server_before, time.process_time() - own_before
    print(
        f"{outcome.requests / outcome.seconds:9.0f} requests/s {outcome.bytes_per_second / 1e6:8.1f} MB/s"
        f"   server: {server_s:.2f} CPU s of {outcome.seconds:.2f} s,"
        f" {outcome.requests / max(server_s, 0.01):9.0f} requests/CPU s,"
        f" {outcome.records_bytes / max(server_s, 0.01) / 1e6:7.1f} MB/CPU s"
        f"   generator: {own_s:.2f} CPU s",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
