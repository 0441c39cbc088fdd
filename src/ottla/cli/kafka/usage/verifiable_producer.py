"""The flags of kafka-verifiable-producer."""

from __future__ import annotations

from ottla.cli.kafka.flags import Flag, Usage, number

FLAGS = (
    Flag("topic", "The topic."),
    Flag("bootstrap-server", "HOST:PORT,... of brokers. Events are Kafka 4's."),
    Flag("broker-list", "The same, under its old name. Events are Kafka 0.9's."),
    number("max-messages", "How many; -1, which is the default, is until the process is ended."),
    number("throughput", "About so many a second; -1, which is the default, is as fast as it goes."),
    number("acks", "0, 1, or -1, which is the default."),
    number("message-create-time", "The time of the first record, in ms."),
    number("value-prefix", "A number that is before every value, with a dot."),
    number("repeating-keys", "Keys from 0 up to this number, which is not one of them, again and again."),
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
