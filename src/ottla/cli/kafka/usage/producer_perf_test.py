"""The flags of kafka-producer-perf-test."""

from __future__ import annotations

from ottla.cli.kafka.flags import Flag, Usage, number, switch

FLAGS = (
    Flag("topic", "The topic."),
    number("num-records", "How many records."),
    number("record-size", "Bytes of a record; or give --payload-file."),
    Flag("payload-file", "A file with lines to send in random order."),
    Flag("throughput", "The most records per second; -1 for no limit."),
    Flag("bootstrap-server", "HOST:PORT,... of brokers."),
    Flag("command-property", "name=value for the producer; several may follow."),
    Flag("producer-props", "The same, under its old name."),
    Flag("command-config", "A properties file for the producer."),
    Flag("producer.config", "The same, under its old name."),
    number("reporting-interval", "Milliseconds between reports (5000)."),
    switch("print-metrics", "Ignored: there are no such metrics."),
)
USAGE = Usage(
    "kafka-producer-perf-test",
    "This tool is used to verify the producer performance.",
    FLAGS,
)
