"""kafka-console-producer: sends each line of standard input as a record.

Kafka's tool asks for no acknowledgement with --broker-list. This one ends when all records are stored, and
with an error if some are not.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator, Sequence

from ottla.cli.kafka.flags import Options
from ottla.cli.kafka.line_reader import LineReader
from ottla.cli.kafka.settings import check_addresses, file_properties, pairs, profile_properties
from ottla.cli.kafka.tool import ToolRefused, require, run_tool, show, tool_of
from ottla.cli.kafka.usage.console_producer import USAGE

_PROPERTY_OF = {
    "max-partition-memory-bytes": "batch.size",
    "batch-size": "batch.size",
    "max-memory-bytes": "buffer.memory",
    "max-block-ms": "max.block.ms",
    "message-send-max-retries": "retries",
    "retry-backoff-ms": "retry.backoff.ms",
    "metadata-expiry-ms": "metadata.max.age.ms",
    "request-required-acks": "acks",
    "request-timeout-ms": "request.timeout.ms",
    "timeout": "linger.ms",
    "socket-buffer-size": "send.buffer.bytes",
}
_RENAMED = {
    "property": "reader-property",
    "producer-property": "command-property",
    "producer.config": "command-config",
}
_READERS = ("LineMessageReader", "ConsoleProducer$LineMessageReader")


def run(arguments: Sequence[str]) -> int:
    """Send lines until the input ends."""
    return run_tool(TOOL, arguments)


def _act(options: Options) -> int:
    is_old = options.has("broker-list")
    require(options, "topic", "broker-list" if is_old else "bootstrap-server")
    properties = _properties(options, is_old=is_old)
    topic = options.text("topic")
    if options.text("line-reader", _READERS[0]).rpartition(".")[2] not in _READERS:
        raise ToolRefused(f"java.lang.ClassNotFoundException: {options.text('line-reader')}")
    if not is_old:
        for name in options.any_of(*_RENAMED):
            show(
                f"Warning: --{name} is deprecated and will be removed in a future version. "
                f"Use --{_RENAMED[name]} instead."
            )
    reader = LineReader(
        file_properties(options.value("reader-config"))
        | pairs([*options.values("property"), *options.values("reader-property")]),
        is_old=is_old,
    )
    from ottla.producer import Producer

    with Producer(properties) as producer:
        producer.check_brokers()
        for line in lines():
            record = reader.read(line)
            delivery = producer.send(topic, record.value, record.key, headers=record.headers or None)
            if options.has("sync"):
                delivery.result()
    return 0


def lines() -> Iterator[str]:
    """Yield the lines of standard input; on a terminal with Kafka's prompt."""
    source = io.TextIOWrapper(sys.stdin.buffer, "utf-8", errors="surrogateescape")
    has_prompt = sys.stdin.isatty() and sys.stdout.isatty()
    while True:
        if has_prompt:
            sys.stdout.write(">")
            sys.stdout.flush()
        line = source.readline()
        if not line:
            source.detach()  # otherwise closing the reader would close standard input
            return
        yield line.removesuffix("\n")


def _properties(options: Options, *, is_old: bool) -> dict[str, object]:
    address = "broker-list" if is_old else "bootstrap-server"
    properties: dict[str, object] = {
        "client.id": "console-producer",
        **profile_properties(),
        **file_properties(options.value("producer.config")),
        **file_properties(options.value("command-config")),
        **pairs([*options.values("producer-property"), *options.values("command-property")]),
        "bootstrap.servers": check_addresses(options.text(address)),
    }
    if options.has("compression-codec"):
        properties["compression.type"] = options.text("compression-codec") or "gzip"
    for flag, name in _PROPERTY_OF.items():
        if options.has(flag) and not (is_old and flag == "batch-size"):
            properties[name] = options.text(flag)
    return properties


TOOL = tool_of(USAGE, _act)
