"""kafka-producer-perf-test: how many records a second a topic takes, and how long each of them takes."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from ottla.cli.kafka.flags import Options, WrongFlags
from ottla.cli.kafka.settings import file_properties, pairs, profile_properties
from ottla.cli.kafka.tool import require, run_tool, show, tool_of
from ottla.cli.kafka.usage.producer_perf_test import USAGE
from ottla.producer import Delivery, Producer

_MEBIBYTE = 1024 * 1024
_SEED = 0


def run(arguments: Sequence[str]) -> int:
    """Send and report."""
    return run_tool(TOOL, arguments)


class Stats:
    """Latencies and counts, of a window and of everything. Deliveries come from the producer's threads."""

    def __init__(self, interval_s: float) -> None:
        self._interval_s = interval_s
        self._begun = self._window_begun = time.perf_counter()
        self._latencies: list[float] = []
        self._bytes = 0
        self._window_at = 0
        self._window_bytes = 0

    def record(self, latency_ms: float, size: int) -> None:
        """One record is stored."""
        self._latencies.append(latency_ms)
        self._bytes += size
        self._window_bytes += size
        now = time.perf_counter()
        if now - self._window_begun >= self._interval_s:
            window = self._latencies[self._window_at :]
            show(_line(window, self._window_bytes, now - self._window_begun))
            self._window_begun, self._window_at, self._window_bytes = now, len(self._latencies), 0

    def total_text(self) -> str:
        """The last line."""
        ordered = sorted(self._latencies) or [0.0]
        line = _line(self._latencies, self._bytes, time.perf_counter() - self._begun).removesuffix(".")
        at = [
            round(ordered[min(len(ordered) - 1, int(part * len(ordered)))])
            for part in (0.5, 0.95, 0.99, 0.999)
        ]
        return f"{line}, {at[0]} ms 50th, {at[1]} ms 95th, {at[2]} ms 99th, {at[3]} ms 99.9th."


def _line(latencies: Sequence[float], size: int, elapsed_s: float) -> str:
    count = len(latencies)
    average = sum(latencies) / count if count else 0.0
    largest = max(latencies, default=0.0)
    rate, mebibytes = count / elapsed_s, size / elapsed_s / _MEBIBYTE
    return (
        f"{count} records sent, {rate:.1f} records/sec ({mebibytes:.2f} MB/sec), "
        f"{average:.1f} ms avg latency, {largest:.1f} ms max latency."
    )


def _act(options: Options) -> int:
    require(options, "topic", "num-records", "throughput")
    if len(options.any_of("record-size", "payload-file")) != 1:
        raise WrongFlags("one of the arguments --record-size --payload-file is required")
    count, rate = options.whole("num-records"), float(options.text("throughput"))
    stats = Stats(options.whole("reporting-interval", 5_000) / 1000)
    topic = options.text("topic")
    with Producer(_properties(options)) as producer:
        begun = time.perf_counter()
        for sent, payload in enumerate(_payloads(options, count)):
            ahead_s = sent / rate - (time.perf_counter() - begun) if rate > 0 else 0.0
            if ahead_s > 0:
                time.sleep(ahead_s)
            started = time.perf_counter()

            def note(delivery: Delivery, started: float = started, size: int = len(payload)) -> None:
                if delivery.exception(0) is None:
                    stats.record((time.perf_counter() - started) * 1000, size)

            producer.send(topic, payload, on_delivery=note)
        producer.flush()
    show(stats.total_text())
    return 0


def _payloads(options: Options, count: int) -> Iterator[bytes]:
    chance = random.Random(_SEED)
    if options.has("payload-file"):
        lines = Path(options.text("payload-file")).read_bytes().splitlines()
        return (chance.choice(lines) for _ in range(count))
    letters = bytes(chance.randrange(65, 91) for _ in range(options.whole("record-size")))
    return (letters for _ in range(count))


def _properties(options: Options) -> dict[str, object]:
    given = [*options.values("producer-props"), *options.values("command-property")]
    found: dict[str, object] = {
        "client.id": "perf-producer-client",
        **profile_properties(),
        **file_properties(options.value("producer.config")),
        **file_properties(options.value("command-config")),
        # `--producer-props a=1 b=2`: what follows is no flag, and comes as the rest.
        **pairs([*given, *options.rest]),
    }
    if options.has("bootstrap-server"):
        found["bootstrap.servers"] = options.text("bootstrap-server")
    return found


TOOL = tool_of(USAGE, _act)
