"""The flags of kafka-consumer-offset-checker."""

from __future__ import annotations

from ottla.cli.kafka.flags import Flag, Usage, number, switch

FLAGS = (
    Flag("zookeeper", "HOST:PORT,... of ZooKeeper (default localhost:2181)."),
    Flag("group", "The group."),
    Flag("topic", "Topics, separated by commas; default: all that the group reads."),
    switch("broker-info", "Print the brokers' addresses."),
    number("socket.timeout.ms", "How long to wait for an answer (default 6000)."),
    number("retry.backoff.ms", "The pause before a retry (default 3000)."),
)
USAGE = Usage(
    "kafka-consumer-offset-checker",
    "Check the offset of your consumers.",
    FLAGS,
)
