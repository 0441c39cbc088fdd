"""The flags of kafka-verifiable-producer."""

from __future__ import annotations

from ottla.cli.kafka.flags import Flag, Usage, number

FLAGS = (
    Flag("topic", "The topic."),
    Flag("bootstrap-server", "HOST:PORT,... of brokers. Events are Kafka 4's."),
    Flag("broker-list", "The same, under its old name. Events are Kafka 0.9's."),
    number("max-messages", "How many records; -1 (the default) sends until the process ends."),
    number("throughput", "Records per second; -1 (the default) for no limit."),
    number("acks", "0, 1, or -1 (the default)."),
    number("message-create-time", "The time of the first record, in ms."),
    number("value-prefix", "A number to put before every value, followed by a dot."),
    number("repeating-keys", "Use the keys from 0 to this number minus 1, in turn."),
    Flag("command-config", "A properties file for the producer."),
    Flag("producer.config", "The same, under its old name."),
)
USAGE = Usage(
    "kafka-verifiable-producer",
    "This tool produces increasing integers to the specified topic and prints JSON metadata to stdout on each"
    ' "send" request.',
    FLAGS,
    errors_begin="verifiable-producer: error: ",
)
