"""The flags of kafka-consumer-perf-test."""

from __future__ import annotations

from ottla.cli.kafka.flags import Flag, Usage, number, switch

FLAGS = (
    Flag("bootstrap-server", "HOST:PORT,... of brokers. The text is Kafka 4's."),
    Flag("broker-list", "The same, under its old name. The text is Kafka 0.9's."),
    Flag("zookeeper", "HOST:PORT,... of ZooKeeper: the classic consumer. The text is Kafka 0.9's."),
    switch("new-consumer", "Ignored: --zookeeper or --broker-list decides."),
    Flag("topic", "The topic."),
    number("num-records", "How many records."),
    number("messages", "The same, under its old name."),
    Flag("group", "The group (default: a group of its own)."),
    number("fetch-size", "Bytes of a partition at once (1048576)."),
    number("timeout", "Milliseconds without a record after which it ends (10000)."),
    switch("from-latest", "Begin at the end of the logs."),
    switch("hide-header", "Do not print the header."),
    Flag("command-property", "name=value for the consumer."),
    Flag("command-config", "A properties file for the consumer."),
    Flag("consumer.config", "The same, under its old name."),
    number("socket-buffer-size", "Bytes of the socket's buffer."),
    number("reporting-interval", "Milliseconds between lines with --show-detailed-stats (5000)."),
    switch("show-detailed-stats", "Print a line per interval, not one at the end."),
    number("threads", "Ignored: one thread reads."),
    number("num-fetch-threads", "Ignored: there is a fetcher for each broker."),
    switch("print-metrics", "Ignored: there are no such metrics."),
)
USAGE = Usage(
    "kafka-consumer-perf-test",
    "This tool is used to verify the consumer performance.",
    FLAGS,
)
