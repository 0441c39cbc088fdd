"""The flags of kafka-console-producer."""

from __future__ import annotations

from ottla.cli.kafka.flags import Flag, Usage, Value, number, switch

FLAGS = (
    Flag("topic", "The topic to send to."),
    Flag("bootstrap-server", "HOST:PORT,... of brokers."),
    Flag("broker-list", "HOST:PORT,... of brokers, as it was before Kafka 2.5."),
    switch("sync", "Wait for each record to be stored before the next is sent."),
    Flag("compression-codec", "none, gzip (the default of this flag), snappy, lz4 or zstd.", Value.OPTIONAL),
    Flag("reader-property", "key=value for parsing lines: parse.key, key.separator, parse.headers, ..."),
    Flag("property", "The same, under its old name."),
    Flag("reader-config", "A properties file for parsing lines."),
    Flag("command-property", "key=value for the producer."),
    Flag("producer-property", "The same, under its old name."),
    Flag("command-config", "A properties file for the producer."),
    Flag("producer.config", "The same, under its old name."),
    Flag("line-reader", "Only Kafka's LineMessageReader, which is the default."),
    number("batch-size", "Bytes of a batch. With --broker-list it was a number of messages, and is ignored."),
    number("max-partition-memory-bytes", "Bytes of a batch."),
    number("max-memory-bytes", "How many bytes may wait to be sent."),
    number("max-block-ms", "How long to wait for a topic, or for room."),
    number("message-send-max-retries", "How often a batch is retried."),
    number("retry-backoff-ms", "The pause before a retry."),
    number("metadata-expiry-ms", "How old the metadata may be."),
    Flag("request-required-acks", "0, 1, or -1 (all)."),
    number("request-timeout-ms", "How long to wait for an answer."),
    number("timeout", "How long a batch waits for more records, in ms."),
    number("socket-buffer-size", "Bytes of the socket's buffer."),
    number("queue-size", "Ignored: there is no such queue."),
    number("queue-enqueuetimeout-ms", "Ignored: there is no such queue."),
    Flag("key-serializer", "Ignored: keys are the bytes of the line."),
    Flag("value-serializer", "Ignored: values are the bytes of the line."),
    switch("old-producer", "Ignored: there is one producer."),
)
USAGE = Usage(
    "kafka-console-producer",
    "This tool helps to read data from standard input and publish it to Kafka.",
    FLAGS,
)
