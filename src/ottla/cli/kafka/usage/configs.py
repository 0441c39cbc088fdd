"""The flags of kafka-configs."""

from __future__ import annotations

from ottla.cli.kafka.flags import Flag, Usage, switch

SHORTCUTS = ("topic", "client", "user", "broker", "ip")
"""In Kafka's order: the first is the one that it tells of."""

FLAGS = (
    switch("describe", "Tell settings."),
    switch("alter", "Change settings."),
    Flag("bootstrap-server", "HOST:PORT,... of brokers. The text is Kafka 4's."),
    Flag("zookeeper", "HOST:PORT,... of ZooKeeper. The text is Kafka 0.9's."),
    Flag("entity-type", "topics, brokers, clients, users or ips; users and clients may come together."),
    Flag("entity-name", "A topic, a broker's id, a client's id, a user, an address."),
    switch("entity-default", "What holds for all that have no setting of their own."),
    *(Flag(one, f"--entity-type {one}s --entity-name, in one.") for one in SHORTCUTS),
    *(switch(f"{one}-defaults", f"--entity-type {one}s --entity-default, in one.") for one in SHORTCUTS[1:]),
    Flag("add-config", "name=value,name=[value,value],..."),
    Flag("add-config-file", "A properties file with them."),
    Flag("delete-config", "name,name,... that go back to their defaults."),
    switch("all", "Also those that are not set."),
    Flag("command-config", "A properties file for the client."),
    switch("force", "Ask no questions. None are asked anyway."),
)
USAGE = Usage(
    "kafka-configs",
    "This tool helps to manipulate and describe entity config for a topic or broker.",
    FLAGS,
)
