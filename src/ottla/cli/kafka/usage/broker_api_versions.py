"""The flags of kafka-broker-api-versions."""

from __future__ import annotations

from ottla.cli.kafka.flags import Flag, Usage

FLAGS = (
    Flag("bootstrap-server", "HOST:PORT,... of brokers."),
    Flag("command-config", "A properties file for the client."),
)
USAGE = Usage(
    "kafka-broker-api-versions",
    "This tool helps to retrieve broker version information.",
    FLAGS,
)
