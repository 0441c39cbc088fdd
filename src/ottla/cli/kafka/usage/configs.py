"""The flags of kafka-configs."""

from __future__ import annotations

from ottla.cli.kafka.flags import Flag, Usage, switch

SHORTCUTS = {
    "topic": "topics",
    "client": "clients",
    "user": "users",
    "broker": "brokers",
    "broker-logger": "broker-loggers",
    "ip": "ips",
    "client-metrics": "client-metrics",
    "group": "groups",
}
"""Flags that give an entity type and a name, in Kafka's order: an error message names the first of them."""
DEFAULTS = ("client", "user", "broker", "ip")
"""Those that have a default entity, in Kafka's order."""

FLAGS = (
    switch("describe", "Show settings."),
    switch("alter", "Change settings."),
    Flag("bootstrap-server", "HOST:PORT,... of brokers. The text is Kafka 4's."),
    Flag("zookeeper", "HOST:PORT,... of ZooKeeper. The text is Kafka 0.9's."),
    Flag(
        "entity-type",
        "topics, brokers, broker-loggers, clients, users, ips, client-metrics or groups; users and clients "
        "may come together.",
    ),
    Flag(
        "entity-name", "A topic, a broker's id, a client's id, a user, an address, a group, a subscription."
    ),
    switch("entity-default", "The default entity, for all that have no setting of their own."),
    *(Flag(flag, f"--entity-type {kind} --entity-name, in one flag.") for flag, kind in SHORTCUTS.items()),
    *(
        switch(f"{flag}-defaults", f"--entity-type {SHORTCUTS[flag]} --entity-default, in one flag.")
        for flag in DEFAULTS
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
    "This tool helps to manipulate and describe entity config for a topic, client, user, broker, ip, "
    "client-metrics or group",
    FLAGS,
)
