"""The flags of kafka-verifiable-consumer."""

from __future__ import annotations

from ottla.cli.kafka.flags import Flag, Usage, number, switch

FLAGS = (
    Flag("topic", "The topic."),
    Flag("bootstrap-server", "HOST:PORT,... of brokers. Events are Kafka 4's."),
    Flag("broker-list", "The same, under its old name. Events are Kafka 0.9's."),
    Flag("group-id", "The group."),
    Flag("group-instance-id", "Makes the member static."),
    Flag("group-protocol", "classic (the default) or consumer (KIP-848)."),
    Flag("group-remote-assignor", "uniform or range: which assignor of the broker is wished for."),
    number("max-messages", "How many records; -1 (the default) reads until the process ends."),
    number("session-timeout", "How long without a heartbeat until the member counts as dead, in ms."),
    switch("verbose", "Also print an event for each record."),
    switch("enable-autocommit", "Commit at intervals, not after each fetch."),
    Flag("reset-policy", "earliest (the default), latest or none."),
    Flag("assignment-strategy", "Range-, RoundRobin-, Sticky- or CooperativeStickyAssignor."),
    Flag("command-config", "A properties file for the consumer; flags win over it."),
    Flag("consumer.config", "The same, under its old name."),
)
USAGE = Usage(
    "kafka-verifiable-consumer",
    "This tool consumes messages from a specific topic and emits consumer events (e.g. group rebalances, "
    "received messages, and offsets committed) as JSON objects to STDOUT.",
    FLAGS,
    errors_begin="verifiable-consumer: error: ",
)
