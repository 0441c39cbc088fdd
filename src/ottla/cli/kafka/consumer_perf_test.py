"""kafka-consumer-perf-test: how many records per second a topic delivers."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime

import pyarrow.compute as pc

from ottla.cli.kafka.flags import Options, WrongFlags
from ottla.cli.kafka.settings import file_properties, pairs, profile_properties
from ottla.cli.kafka.tool import require, run_tool, show, tool_of
from ottla.cli.kafka.usage.consumer_perf_test import USAGE
from ottla.consumer.coordinated import GroupConsumer
from ottla.fetching.chunk_queue import FetchedDataChunk

_COUNTS = "data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec"
_MORE = ", rebalance.time.ms, fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec"
_MEBIBYTE = 1024 * 1024
_DEPRECATED = {"messages": "num-records", "consumer.config": "command-config"}


def run(arguments: Sequence[str]) -> int:
    """Read and print the rates."""
    return run_tool(TOOL, arguments)


class PerfReport:
    """Counts records and prints the rates: at the end, or at intervals with --show-detailed-stats."""

    def __init__(self, options: Options, *, is_old: bool) -> None:
        self.count = 0
        self._bytes = 0
        self._is_old = is_old
        self._is_detailed = options.has("show-detailed-stats")
        self._interval_s = options.whole("reporting-interval", 5_000) / 1000
        self._columns = ("value",) if is_old else ("key", "value")
        self._begun = self._reported = time.time()
        self._joined = 0.0
        self._before = (0, 0)
        if not options.has("hide-header"):
            thread = "" if is_old else " threadId,"
            when = f"time,{thread} " if self._is_detailed else "start.time, end.time, "
            show(f"{when}{_COUNTS}{'' if is_old else _MORE}")

    def note(self, chunk: FetchedDataChunk) -> None:
        """Count records."""
        now = time.time()
        self._joined = self._joined or now
        self.count += chunk.batch.num_rows
        lengths = (pc.sum(pc.binary_length(chunk.batch.column(name))).as_py() for name in self._columns)
        self._bytes += sum(length or 0 for length in lengths)
        if self._is_detailed and now - self._reported >= self._interval_s:
            self._print_rates(f"{_moment(now)}, 0, ", self._reported, now)
            self._reported, self._before = now, (self.count, self._bytes)

    def end(self) -> None:
        """Print the last line, unless intervals were printed."""
        if not self._is_detailed:
            now = time.time()
            self._print_rates(f"{_moment(self._begun)}, {_moment(now)}, ", self._begun, now)

    def _print_rates(self, head: str, begun: float, now: float) -> None:
        elapsed_s = max(now - begun, 1e-3)
        count, mebibytes = self.count - self._before[0], (self._bytes - self._before[1]) / _MEBIBYTE
        cells = [f"{self._bytes / _MEBIBYTE:.4f}", f"{mebibytes / elapsed_s:.4f}"]
        cells += [str(self.count), f"{count / elapsed_s:.4f}"]
        if not self._is_old:
            joining_s = max(0.0, min((self._joined or now) - begun, elapsed_s))
            fetching_s = max(elapsed_s - joining_s, 1e-3)
            cells += [str(round(joining_s * 1000)), str(round(fetching_s * 1000))]
            cells += [f"{mebibytes / fetching_s:.4f}", f"{count / fetching_s:.4f}"]
        show(head + ", ".join(cells))


def _act(options: Options) -> int:
    is_old = bool(options.any_of("zookeeper", "broker-list"))
    if not is_old:
        require(options, "bootstrap-server")
    require(options, "topic")
    if len(options.any_of("messages", "num-records")) != 1:
        raise WrongFlags("Exactly one of the following arguments is required: [messages], [num-records]")
    for name in options.any_of(*_DEPRECATED) if not is_old else ():
        show(f"Warning: --{name} is deprecated. Use --{_DEPRECATED[name]} instead.")
    wanted = options.whole("num-records" if options.has("num-records") else "messages")
    timeout_ms = options.whole("timeout", 10_000)
    with (_classic_chunks if options.has("zookeeper") else _chunks)(options, timeout_ms) as chunks:
        report = PerfReport(options, is_old=is_old)
        for chunk in chunks:
            report.note(chunk)
            if report.count >= wanted:
                break
        if report.count < wanted and not is_old:
            show(
                "WARNING: Exiting before consuming the expected number of records: timeout "
                f"({timeout_ms} ms) exceeded. You can use the --timeout option to increase the timeout."
            )
        report.end()
    return 0


@contextmanager
def _chunks(options: Options, timeout_ms: int) -> Iterator[Iterator[FetchedDataChunk]]:
    servers = options.text("bootstrap-server" if options.has("bootstrap-server") else "broker-list")
    properties = {**_properties(options), "bootstrap.servers": servers}
    properties["max.partition.fetch.bytes"] = options.whole("fetch-size", _MEBIBYTE)
    with GroupConsumer(options.text("topic"), properties, group_id=_group(options)) as consumer:
        consumer.check_brokers()
        yield consumer.chunks(timeout_ms / 1000)


@contextmanager
def _classic_chunks(options: Options, timeout_ms: int) -> Iterator[Iterator[FetchedDataChunk]]:
    from ottla.consumer.classic import ConsumerConnector
    from ottla.model.errors import ConsumerTimeout

    def until_timeout() -> Iterator[FetchedDataChunk]:
        try:
            yield from stream.chunks()
        except ConsumerTimeout:
            return

    properties = {
        **_properties(options),
        "zookeeper.connect": options.text("zookeeper"),
        "group.id": _group(options),
        "fetch.message.max.bytes": options.whole("fetch-size", _MEBIBYTE),
        "consumer.timeout.ms": timeout_ms,
    }
    topic = options.text("topic")
    with ConsumerConnector(properties) as connector:
        (stream,) = connector.create_message_streams({topic: 1})[topic]
        yield until_timeout()


def _group(options: Options) -> str:
    return options.text("group", f"perf-consumer-{random.randrange(100_000)}")


def _moment(seconds: float) -> str:
    """A time in Java's format yyyy-MM-dd HH:mm:ss:SSS."""
    moment = datetime.fromtimestamp(seconds).astimezone()
    return f"{moment:%Y-%m-%d %H:%M:%S}:{moment.microsecond // 1000:03}"


def _properties(options: Options) -> dict[str, object]:
    properties: dict[str, object] = {
        "client.id": "perf-consumer-client",
        **profile_properties(),
        **file_properties(options.value("consumer.config")),
        **file_properties(options.value("command-config")),
        **pairs(options.values("command-property")),
        "auto.offset.reset": "largest" if options.has("from-latest") else "smallest",
    }
    properties.pop("group.id", None)
    if options.has("socket-buffer-size"):
        properties["receive.buffer.bytes"] = options.text("socket-buffer-size")
    return properties


TOOL = tool_of(USAGE, _act)
