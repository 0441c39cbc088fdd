"""The flags of kafka-delete-records."""

from __future__ import annotations

from ottla.cli.kafka.flags import Flag, Usage

FLAGS = (
    Flag("bootstrap-server", "HOST:PORT,... of brokers."),
    Flag(
        "offset-json-file",
        'A file of {"partitions": [{"topic": "t", "partition": 0, "offset": 5}], "version": 1}.',
    ),
    Flag("command-config", "A properties file for the client."),
)
USAGE = Usage(
    "kafka-delete-records",
    "This tool helps to delete records of the given partitions down to the specified offset.",
    FLAGS,
)
