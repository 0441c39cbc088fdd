"""The flags of kafka-console-consumer."""

from __future__ import annotations

from ottla.cli.kafka.flags import Flag, Usage, number, switch

FLAGS = (
    Flag("topic", "The topic to read."),
    Flag("include", "A Java regular expression for topics."),
    Flag("whitelist", "The same, under its old name."),
    Flag("blacklist", "A Java regular expression for topics that are not read (with --zookeeper)."),
    Flag("bootstrap-server", "HOST:PORT,... of brokers."),
    Flag("zookeeper", "HOST:PORT,... of ZooKeeper: the classic consumer."),
    Flag("group", "The group; without it, a group of its own that commits nothing."),
    number("partition", "The partition to read, without a group."),
    Flag("offset", "Where to begin in it: a number, earliest, or latest (default)."),
    switch("from-beginning", "Begin with the first record, if the group has no committed offset."),
    number("max-messages", "End after this many records."),
    number("timeout-ms", "End after this many milliseconds without a record."),
    switch("skip-message-on-error", "Skip records that cannot be printed."),
    Flag(
        "formatter",
        "Default-, NoOp-, Checksum-, Offsets- or GroupMetadataMessageFormatter, with its package.",
    ),
    Flag("formatter-property", "key=value: print.key, print.timestamp, key.separator, null.literal, ..."),
    Flag("property", "The same, under its old name."),
    Flag("formatter-config", "A properties file for the formatter."),
    Flag("key-deserializer", "String-, Long-, Integer- or ShortDeserializer."),
    Flag("value-deserializer", "The same for values."),
    Flag("command-property", "key=value for the consumer."),
    Flag("consumer-property", "The same, under its old name."),
    Flag("command-config", "A properties file for the consumer."),
    Flag("consumer.config", "The same, under its old name."),
    Flag("isolation-level", "read_uncommitted (default) or read_committed."),
    switch("new-consumer", "Ignored: --zookeeper or --bootstrap-server decides."),
    switch("delete-consumer-offsets", "Delete the group in ZooKeeper first."),
    switch("csv-reporter-enabled", "Ignored: there are no such metrics."),
    Flag("metrics-dir", "Ignored: there are no such metrics."),
    switch("enable-systest-events", "Say shutdown_complete at the end."),
)
USAGE = Usage(
    "kafka-console-consumer",
    "This tool helps to read data from Kafka topics and outputs it to standard output.",
    FLAGS,
)
