"""The flags of kafka-configs."""

from __future__ import annotations

from ottla.cli.kafka.flags import Flag, Usage, switch

SHORTCUTS = ("topic", "client", "user", "broker", "ip")
"""In Kafka's order: an error message names the first of them."""

FLAGS = (
    switch("describe", "Show settings."),
    switch("alter", "Change settings."),
    Flag("bootstrap-server", "HOST:PORT,... of brokers. The text is Kafka 4's."),
    Flag("zookeeper", "HOST:PORT,... of ZooKeeper. The text is Kafka 0.9's."),
    Flag("entity-type", "topics, brokers, clients, users or ips; users and clients may come together."),
    Flag("entity-name", "A topic, a broker's id, a client's id, a user, an address."),
    switch("entity-default", "The default entity, for all that have no setting of their own."),
    *(Flag(kind, f"--entity-type {kind}s --entity-name, in one flag.") for kind in SHORTCUTS),
    *(
        switch(f"{kind}-defaults", f"--entity-type {kind}s --entity-default, in one flag.")
        for kind in SHORTCUTS[1:]
    ),
    Flag("add-config", "name=value,name=[value,value],..."),
    Flag("add-config-file", "A properties file with settings to add."),
    Flag("delete-config", "name,name,... to return to their defaults."),
    switch("all", "Show also settings that are not set."),
    Flag("command-config", "A properties file for the client."),
    switch("force", "Ask no questions. None are asked anyway."),
)
USAGE = Usage(
    "kafka-configs",
    "This tool helps to manipulate and describe entity config for a topic or broker.",
    FLAGS,
)
