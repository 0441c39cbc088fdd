"""The flags of kafka-transactions."""

from __future__ import annotations

from ottla.cli.kafka.flags import Flag, Usage, number

FLAGS = (
    Flag("bootstrap-server", "HOST:PORT,... of brokers."),
    Flag("command-config", "A properties file for the client."),
    number("duration-filter", "list: only transactions that have been running for longer, in milliseconds."),
    Flag("transactional-id-pattern", "list: only transactional ids that match this regular expression."),
    Flag("transactional-id", "describe: the transactional id."),
    Flag("transactionalId", "forceTerminateTransaction: the transactional id."),
    Flag("topic", "abort, describe-producers, find-hanging: the topic."),
    number("partition", "abort, describe-producers, find-hanging: the partition."),
    number("broker-id", "describe-producers, find-hanging: on this broker."),
    number("max-transaction-timeout", "find-hanging: silent for longer, in minutes; 15 if unset."),
    number("start-offset", "abort: the first offset of the transaction."),
    number("producer-id", "abort, without --start-offset: the producer's id,"),
    number("producer-epoch", "its epoch,"),
    number("coordinator-epoch", "and the epoch of its coordinator."),
)
USAGE = Usage(
    "kafka-transactions",
    "This tool is used to analyze the transactional state of producers in the cluster. It can be used to"
    " detect and recover from hanging transactions. Commands: list, describe, describe-producers, abort,"
    " find-hanging, forceTerminateTransaction.",
    FLAGS,
)
