"""kafka-producer-perf-test: how many records per second a topic accepts, and their latency."""

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
_DEPRECATED = {"producer-props": "command-property", "producer.config": "command-config"}
"""Kafka 4 warns about these flags.

A command line that has only these is one of Kafka 0.9, which does not warn.
"""


def run(arguments: Sequence[str]) -> int:
    """Send and print the rates."""
    return run_tool(TOOL, arguments)


class Stats:
    """Counts and latencies, of a window and in total. Called from the producer's threads."""

    def __init__(self, interval_s: float) -> None:
        self._interval_s = interval_s
        self._begun = self._window_begun = time.perf_counter()
        self._latencies: list[int] = []
        self._bytes = 0
        self._window_at = 0
        self._window_bytes = 0

    def record(self, latency_ms: int, size: int) -> None:
        """Count a stored record."""
        self._latencies.append(latency_ms)
        self._bytes += size
        self._window_bytes += size
        now = time.perf_counter()
        if now - self._window_begun >= self._interval_s:
            window = self._latencies[self._window_at :]
            show(f"{_line(window, self._window_bytes, now - self._window_begun)}.")
            self._window_begun, self._window_at, self._window_bytes = now, len(self._latencies), 0

    def total_text(self) -> str:
        """The last line."""
        ordered = sorted(self._latencies) or [0]
        elapsed_s = time.perf_counter() - self._begun
        line = _line(self._latencies, self._bytes, elapsed_s, rate_digits=6, digits=2)
        parts = (("50th", 0.5), ("95th", 0.95), ("99th", 0.99), ("99.9th", 0.999))
        return ", ".join(
            [line, *(f"{ordered[int(share * len(ordered))]} ms {name}" for name, share in parts)]
        )


def _line(
    latencies: Sequence[int], size: int, elapsed_s: float, *, rate_digits: int = 1, digits: int = 1
) -> str:
    count = len(latencies)
    average = sum(latencies) / count if count else 0.0
    rate, mebibytes = count / elapsed_s, size / elapsed_s / _MEBIBYTE
    return (
        f"{count} records sent, {rate:.{rate_digits}f} records/sec ({mebibytes:.2f} MB/sec), "
        f"{average:.{digits}f} ms avg latency, {max(latencies, default=0):.{digits}f} ms max latency"
    )


def _act(options: Options) -> int:
    require(options, "topic", "num-records", "throughput")
    if len(options.any_of("record-size", "payload-file")) != 1:
        raise WrongFlags("one of the arguments --record-size --payload-file is required")
    if options.any_of("bootstrap-server", *_DEPRECATED.values()):
        for name in options.any_of(*_DEPRECATED):
            show(
                f"Option --{name} has been deprecated and will be removed in a future version. "
                f"Use --{_DEPRECATED[name]} instead."
            )
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
                    stats.record(round((time.perf_counter() - started) * 1000), size)

            producer.send(topic, payload, on_delivery=note)
        producer.flush()
    show(f"{stats.total_text()}.")
    return 0


def _payloads(options: Options, count: int) -> Iterator[bytes]:
    chance = random.Random(_SEED)
    if options.has("payload-file"):
        path = Path(options.text("payload-file"))
        show(f"Reading payloads from: {path.absolute()}")
        lines = path.read_bytes().splitlines()
        show(f"Number of records read: {len(lines)}")
        return (chance.choice(lines) for _ in range(count))
    letters = bytes(chance.randrange(65, 91) for _ in range(options.whole("record-size")))
    return (letters for _ in range(count))


def _properties(options: Options) -> dict[str, object]:
    given = [*options.values("producer-props"), *options.values("command-property")]
    properties: dict[str, object] = {
        "client.id": "perf-producer-client",
        **profile_properties(),
        **file_properties(options.value("producer.config")),
        **file_properties(options.value("command-config")),
        # `--producer-props a=1 b=2`: the values that follow are not flags, and arrive as the rest.
        **pairs([*given, *options.rest]),
    }
    if options.has("bootstrap-server"):
        properties["bootstrap.servers"] = options.text("bootstrap-server")
    return properties


TOOL = tool_of(USAGE, _act)
