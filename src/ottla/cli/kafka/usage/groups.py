"""The flags of kafka-groups."""

from __future__ import annotations

from ottla.cli.kafka.flags import Flag, Usage, switch

FLAGS = (
    Flag("bootstrap-server", "HOST:PORT,... of brokers."),
    Flag("command-config", "A properties file for the client."),
    switch("list", "List the groups."),
    switch("consumer", "Only groups of consumers: of type consumer, and classic ones of consumers."),
    switch("share", "Only share groups."),
    switch("streams", "Only streams groups."),
    Flag("group-type", "Only groups of a type: classic, consumer, share or streams."),
    Flag("protocol", "Only groups of a protocol."),
)
USAGE = Usage("kafka-groups", "This tool helps to list groups of all types.", FLAGS)
