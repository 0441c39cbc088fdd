"""The flags of kafka-topics."""

from __future__ import annotations

from ottla.cli.kafka.flags import Flag, Usage, number, switch

ACTIONS = ("list", "describe", "create", "alter", "delete")
FLAGS = (
    *(switch(name, f"{name.capitalize()} topics.") for name in ACTIONS),
    Flag("bootstrap-server", "HOST:PORT,... of brokers. The text is Kafka 4's."),
    Flag("zookeeper", "HOST:PORT,... of ZooKeeper. The text is Kafka 0.9's."),
    Flag("topic", "The topic; a regular expression for all but --create."),
    Flag("topic-id", "Describe the topic with this id."),
    number("partitions", "How many partitions."),
    number("replication-factor", "How many copies of each."),
    Flag("replica-assignment", "Broker ids: 1:2,2:1 is two partitions of two copies."),
    Flag("config", "name=value for a new topic; with --zookeeper also with --alter."),
    Flag("delete-config", "A setting to be removed (with --zookeeper)."),
    switch("under-replicated-partitions", "Describe only partitions with copies out of sync."),
    switch("unavailable-partitions", "Describe only partitions without a leader."),
    switch("under-min-isr-partitions", "Describe only partitions with too few copies in sync."),
    switch("at-min-isr-partitions", "Describe only partitions with just enough copies in sync."),
    switch("topics-with-overrides", "Describe only topics with settings of their own."),
    switch("exclude-internal", "Leave Kafka's own topics out."),
    switch("if-exists", "No error if the topic does not exist."),
    switch("if-not-exists", "No error if the topic exists."),
    Flag("command-config", "A properties file for the client."),
    switch("force", "Ask no questions. None are asked anyway."),
    switch("disable-rack-aware", "Ignored: brokers assign replicas."),
    number("partition-size-limit-per-response", "Ignored: all partitions come in one response."),
)
USAGE = Usage(
    "kafka-topics",
    "Create, delete, describe, or change a topic.",
    FLAGS,
)
