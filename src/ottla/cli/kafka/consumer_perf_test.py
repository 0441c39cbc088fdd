"""kafka-consumer-perf-test: how many records a second a topic gives."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from datetime import datetime

from ottla.cli.kafka.flags import Options
from ottla.cli.kafka.settings import file_properties, pairs, profile_properties
from ottla.cli.kafka.tool import require, run_tool, show, tool_of
from ottla.cli.kafka.usage.consumer_perf_test import USAGE
from ottla.grouped import GroupConsumer

HEADER = (
    "start.time, end.time, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, rebalance.time.ms, "
    "fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec"
)
_MEBIBYTE = 1024 * 1024


def run(arguments: Sequence[str]) -> int:
    """Read and report."""
    return run_tool(TOOL, arguments)


def _act(options: Options) -> int:
    require(options, "bootstrap-server", "topic")
    wanted = options.whole("num-records" if options.has("num-records") else "messages")
    count = size = 0
    begun, joined = time.time(), 0.0
    group = options.text("group", f"perf-consumer-{random.randrange(100_000)}")
    with GroupConsumer(options.text("topic"), group, _properties(options)) as consumer:
        for chunk in consumer.chunks(options.whole("timeout", 10_000)):
            joined = joined or time.time()
            count += chunk.batch.num_rows
            size += sum(chunk.batch.column(name).nbytes for name in ("key", "value"))
            if count >= wanted >= 0:
                break
        ended = time.time()
    if not options.has("hide-header"):
        show(HEADER)
    show(_row(begun, joined or ended, ended, count, size / _MEBIBYTE))
    return 0


def _row(begun: float, joined: float, ended: float, count: int, mebibytes: float) -> str:
    whole, fetching = max(ended - begun, 1e-3), max(ended - joined, 1e-3)
    cells = [
        *(_moment(moment) for moment in (begun, ended)),
        f"{mebibytes:.4f}",
        f"{mebibytes / whole:.4f}",
        str(count),
        f"{count / whole:.4f}",
        str(round((joined - begun) * 1000)),
        str(round(fetching * 1000)),
        f"{mebibytes / fetching:.4f}",
        f"{count / fetching:.4f}",
    ]
    return ", ".join(cells)


def _moment(seconds: float) -> str:
    """As Java's SimpleDateFormat writes yyyy-MM-dd HH:mm:ss:SSS."""
    moment = datetime.fromtimestamp(seconds).astimezone()
    return f"{moment:%Y-%m-%d %H:%M:%S}:{moment.microsecond // 1000:03}"


def _properties(options: Options) -> dict[str, object]:
    found: dict[str, object] = {
        "client.id": "perf-consumer-client",
        **profile_properties(),
        **file_properties(options.value("consumer.config")),
        **file_properties(options.value("command-config")),
        **pairs(options.values("command-property")),
        "bootstrap.servers": options.text("bootstrap-server"),
        "auto.offset.reset": "largest" if options.has("from-latest") else "smallest",
        "max.partition.fetch.bytes": options.whole("fetch-size", 1024 * 1024),
    }
    found.pop("group.id", None)
    if options.has("socket-buffer-size"):
        found["receive.buffer.bytes"] = options.text("socket-buffer-size")
    return found


TOOL = tool_of(USAGE, _act)
