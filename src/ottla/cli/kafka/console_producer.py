"""kafka-console-producer: lines of standard input, each a record.

Unlike Kafka's, which with --broker-list asks for no acknowledgement, it ends when all records are stored, and
with an error if some are not.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator, Sequence

from ottla.cli.kafka.flags import Flag, Options, Value, number, switch
from ottla.cli.kafka.line_reader import LineReader
from ottla.cli.kafka.settings import check_addresses, file_properties, pairs, profile_properties
from ottla.cli.kafka.tool import Refused, Tool, require, run_tool, show

FLAGS = (
    Flag("topic", "The topic to send to."),
    Flag("bootstrap-server", "HOST:PORT,... of brokers."),
    Flag("broker-list", "HOST:PORT,... of brokers, as it was before Kafka 2.5."),
    switch("sync", "Wait for each record to be stored before the next is sent."),
    Flag("compression-codec", "none, gzip (if nothing is said), snappy, lz4 or zstd.", Value.OPTIONAL),
    Flag(
        "reader-property", "key=value for the reading of lines: parse.key, key.separator, parse.headers, ..."
    ),
    Flag("property", "The same, under its old name."),
    Flag("reader-config", "A properties file for the reading of lines."),
    Flag("command-property", "key=value for the producer."),
    Flag("producer-property", "The same, under its old name."),
    Flag("command-config", "A properties file for the producer."),
    Flag("producer.config", "The same, under its old name."),
    Flag("line-reader", "Only Kafka's LineMessageReader, which is what is taken anyway."),
    number("batch-size", "Bytes of a batch. With --broker-list it was a number of messages, and is ignored."),
    number("max-partition-memory-bytes", "Bytes of a batch."),
    number("max-memory-bytes", "How many bytes may wait to be sent."),
    number("max-block-ms", "How long to wait for a topic, or for room."),
    number("message-send-max-retries", "How often a batch is tried again."),
    number("retry-backoff-ms", "The pause before it is."),
    number("metadata-expiry-ms", "How old the metadata may be."),
    Flag("request-required-acks", "0, 1, or -1 (all)."),
    number("request-timeout-ms", "How long to wait for an answer."),
    number("timeout", "How long a batch waits for more records, in ms."),
    number("socket-buffer-size", "Bytes of the socket's buffer."),
    number("queue-size", "Ignored: there is no such queue."),
    number("queue-enqueuetimeout-ms", "Ignored: there is no such queue."),
    Flag("key-serializer", "Ignored: keys are the bytes of the line."),
    Flag("value-serializer", "Ignored: values are the bytes of the line."),
    switch("old-producer", "Ignored: there is one producer."),
)
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
    """Send what comes until its end."""
    return run_tool(TOOL, arguments)


def _act(options: Options) -> int:
    is_old = options.has("broker-list")
    require(options, "topic", "broker-list" if is_old else "bootstrap-server")
    properties = _properties(options, is_old=is_old)
    topic = options.text("topic")
    if options.text("line-reader", _READERS[0]).rpartition(".")[2] not in _READERS:
        raise Refused(f"java.lang.ClassNotFoundException: {options.text('line-reader')}")
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
        for line in lines():
            record = reader.read(line)
            delivery = producer.send(topic, record.value, record.key, headers=record.headers or None)
            if options.has("sync"):
                delivery.result()
    return 0


def lines() -> Iterator[str]:
    """Standard input, line by line; on a terminal with a prompt, as Kafka has it."""
    source = io.TextIOWrapper(sys.stdin.buffer, "utf-8", errors="surrogateescape")
    is_asked = sys.stdin.isatty() and sys.stdout.isatty()
    while True:
        if is_asked:
            sys.stdout.write(">")
            sys.stdout.flush()
        line = source.readline()
        if not line:
            source.detach()  # or the end of this would close standard input
            return
        yield line.removesuffix("\n")


def _properties(options: Options, *, is_old: bool) -> dict[str, object]:
    address = "broker-list" if is_old else "bootstrap-server"
    found: dict[str, object] = {
        "client.id": "console-producer",
        **profile_properties(),
        **file_properties(options.value("producer.config")),
        **file_properties(options.value("command-config")),
        **pairs([*options.values("producer-property"), *options.values("command-property")]),
        "bootstrap.servers": check_addresses(options.text(address)),
    }
    if options.has("compression-codec"):
        found["compression.type"] = options.text("compression-codec") or "gzip"
    for flag, name in _PROPERTY_OF.items():
        if options.has(flag) and not (is_old and flag == "batch-size"):
            found[name] = options.text(flag)
    return found


TOOL = Tool(
    "kafka-console-producer",
    "This tool helps to read data from standard input and publish it to Kafka.",
    FLAGS,
    _act,
)
