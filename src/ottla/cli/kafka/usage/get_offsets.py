"""The flags of kafka-get-offsets."""

from __future__ import annotations

from ottla.cli.kafka.flags import Flag, Usage, number, switch

ERRORS_BEGIN = "Error occurred: "
FLAGS = (
    Flag("bootstrap-server", "HOST:PORT,... of brokers. The text is Kafka 4's."),
    Flag("broker-list", "HOST:PORT,... of brokers. The text is Kafka 0.9's."),
    Flag("topic", "The topic; with --bootstrap-server a regular expression, and all topics if not given."),
    Flag("topic-partitions", "topic:0,topic:2-5,topic:-3,... in place of --topic and --partitions."),
    Flag("partitions", "Partition numbers, separated by commas; default: all."),
    Flag("time", "Milliseconds since 1970, -1 or latest, -2 or earliest, -3 or max-timestamp."),
    number("offsets", "The most offsets to print, of a log's segments (with --broker-list; default 1)."),
    number("max-wait-ms", "How long to wait for an answer (with --broker-list; default 1000)."),
    Flag("command-config", "A properties file for the client."),
    switch("exclude-internal-topics", "Leave Kafka's own topics out."),
)
USAGE = Usage(
    "kafka-get-offsets",
    "An interactive shell for getting topic-partition offsets.",
    FLAGS,
    errors_begin=ERRORS_BEGIN,
)
