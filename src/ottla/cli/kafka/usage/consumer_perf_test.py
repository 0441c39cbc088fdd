"""The flags of kafka-consumer-perf-test."""

from __future__ import annotations

from ottla.cli.kafka.flags import Flag, Usage, number, switch

FLAGS = (
    Flag("bootstrap-server", "HOST:PORT,... of brokers."),
    Flag("topic", "The topic."),
    number("num-records", "How many records."),
    number("messages", "The same, under its old name."),
    Flag("group", "The group (one of its own)."),
    number("fetch-size", "Bytes of a partition at once (1048576)."),
    number("timeout", "Milliseconds without a record after which it ends (10000)."),
    switch("from-latest", "Begin at the end of the logs."),
    switch("hide-header", "Without the line of names."),
    Flag("command-property", "name=value for the consumer."),
    Flag("command-config", "A properties file for the consumer."),
    Flag("consumer.config", "The same, under its old name."),
    number("socket-buffer-size", "Bytes of the socket's buffer."),
    number("reporting-interval", "Ignored: one line is printed at the end."),
    switch("show-detailed-stats", "Ignored: one line is printed at the end."),
    switch("print-metrics", "Ignored: there are no such metrics."),
)
USAGE = Usage(
    "kafka-consumer-perf-test",
    "This tool is used to verify the consumer performance.",
    FLAGS,
)
