"""Settings of topics, brokers, their loggers, client metrics and groups, for kafka-configs.

A name of None means all of a kind, the broker "" the defaults of all brokers.
"""

from __future__ import annotations

from collections.abc import Mapping

from ottla.admin import Admin, ConfigEntry, ConfigKind, ConfigResource, ConfigSource
from ottla.cli.kafka.java_order import java_order
from ottla.cli.kafka.tool import ToolRefused, show
from ottla.model.errors import Unsupported

KINDS = {kind.entity_type: kind for kind in ConfigKind if kind is not ConfigKind.CLIENT}
"""By the names of entity types in kafka-configs."""

_OWN = {
    ConfigKind.TOPIC: ConfigSource.DYNAMIC_TOPIC_CONFIG,
    ConfigKind.BROKER: ConfigSource.DYNAMIC_BROKER_CONFIG,
    ConfigKind.BROKER_LOGGER: ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG,
    ConfigKind.CLIENT_METRICS: ConfigSource.DYNAMIC_CLIENT_METRICS_CONFIG,
    ConfigKind.GROUP: ConfigSource.DYNAMIC_GROUP_CONFIG,
}


def describe(admin: Admin, kind: ConfigKind, name: str | None, *, tells_all: bool) -> None:
    """Print the settings that were set, or all."""
    word = _word(kind)
    if name and not tells_all and name not in _names(admin, kind):
        show(f"The {word} '{name}' doesn't exist and doesn't have dynamic config.")
        return
    for each in _names(admin, kind) if name is None else [name]:
        if each:
            show(f"{'All' if tells_all else 'Dynamic'} configs for {word} {each} are:")
        else:
            show(f"Default configs for {kind.entity_type} in the cluster are:")
        for _, entry in sorted(admin.describe_configs(ConfigResource(kind, each)).items()):
            if tells_all or entry.source is _own_source(kind, each):
                show(_entry_line(entry))


def alter(admin: Admin, kind: ConfigKind, name: str, changes: Mapping[str, str | None]) -> None:
    """Set settings; None removes one. Loggers must exist."""
    resource = ConfigResource(kind, name)
    if kind is ConfigKind.BROKER_LOGGER:
        present = admin.describe_configs(resource)
        unknown = [logger for logger in changes if logger not in present]
        if unknown:
            raise ToolRefused(f"Invalid broker logger(s): {','.join(unknown)}")
    admin.alter_configs(resource, changes)


def _word(kind: ConfigKind) -> str:
    return kind.entity_type[:-1]


def _own_source(kind: ConfigKind, name: str) -> ConfigSource:
    if kind is ConfigKind.BROKER and not name:
        return ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
    return _OWN[kind]


def _names(admin: Admin, kind: ConfigKind) -> list[str]:
    """The names in Kafka's order; where that is the order of a hash map over objects, sorted."""
    if kind is ConfigKind.TOPIC:
        return java_order(admin.list_topics())
    if kind in (ConfigKind.BROKER, ConfigKind.BROKER_LOGGER):
        return [*(str(broker.broker_id) for broker in admin.describe_cluster().brokers), ""]
    groups = {group.group_id for group in admin.list_groups()} if kind is ConfigKind.GROUP else set()
    try:
        listed = {resource.name for resource in admin.list_config_resources([kind])}
    except Unsupported:
        if kind is not ConfigKind.GROUP:
            raise
        listed = set()  # Kafka 4.0 has settings of groups, and cannot list them
    return sorted(groups | listed)


def _entry_line(entry: ConfigEntry) -> str:
    synonyms = ", ".join(
        f"{synonym.source.name}:{synonym.name}={_value(synonym.value)}" for synonym in entry.synonyms
    )
    secret = str(entry.is_sensitive).lower()
    return f"  {entry.name}={_value(entry.value)} sensitive={secret} synonyms={{{synonyms}}}"


def _value(text: str | None) -> str:
    return "null" if text is None else text
