"""Values about settings: whose they are, and what they are."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from ottla.model.errors import ConfigError


class ConfigKind(IntEnum):
    """The kinds of resources that have settings, with the protocol's numbers.

    CLIENT (quotas by client id) exists in ZooKeeper only.
    """

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32
    CLIENT = -1

    @property
    def entity_type(self) -> str:
        """What Kafka's tools call all of them, and its znode below /config."""
        return f"{self.name.lower().replace('_', '-').removesuffix('s')}s"


class ConfigResource(NamedTuple):
    """A resource that has settings: a topic, a broker, a broker's loggers, a group, a client id, or a
    subscription to metrics of clients.

    Brokers are named by their ids; the broker "" stands for the defaults of all brokers.

    >>> from ottla.admin import Admin, topic_resource
    >>> with Admin(bootstrap_servers="127.0.0.1:9092") as admin:
    ...     admin.alter_configs(topic_resource("orders"), {"retention.ms": 60_000})
    >>> topic_resource("orders").kind.name, topic_resource("orders").name
    ('TOPIC', 'orders')
    """

    kind: ConfigKind
    name: str

    def __str__(self) -> str:
        return f"{self.kind.name.lower().replace('_', ' ')} {self.name!r}"


def topic_resource(name: str) -> ConfigResource:
    """A topic."""
    return ConfigResource(ConfigKind.TOPIC, name)


def broker_resource(broker_id: int | None) -> ConfigResource:
    """A broker, or with None the defaults of all brokers."""
    return ConfigResource(ConfigKind.BROKER, "" if broker_id is None else _broker_name(broker_id))


def broker_logger_resource(broker_id: int) -> ConfigResource:
    """The loggers of a broker: a setting for each, whose value is its level."""
    return ConfigResource(ConfigKind.BROKER_LOGGER, _broker_name(broker_id))


def _broker_name(broker_id: int) -> str:
    if broker_id < 0:
        raise ConfigError(f"broker id {broker_id} is negative")
    return str(broker_id)


def group_resource(group_id: str) -> ConfigResource:
    """A group with a coordinator, of any type. It need not exist."""
    return ConfigResource(ConfigKind.GROUP, group_id)


def client_metrics_resource(name: str) -> ConfigResource:
    """A subscription to metrics of clients."""
    return ConfigResource(ConfigKind.CLIENT_METRICS, name)


def client_resource(client_id: str) -> ConfigResource:
    """A client id."""
    return ConfigResource(ConfigKind.CLIENT, client_id)


class ConfigSource(IntEnum):
    """Where a value comes from; the numbers of the protocol."""

    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    DYNAMIC_CLIENT_METRICS_CONFIG = 7
    DYNAMIC_GROUP_CONFIG = 8

    @classmethod
    def of(cls, number: int) -> ConfigSource:
        """Return the source for a number; UNKNOWN for numbers that are newer than this library."""
        return cls(number) if number in cls._value2member_map_ else cls.UNKNOWN


class ConfigEntrySynonym(NamedTuple):
    """Another source of the value; sources are listed in the order of precedence."""

    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """A setting. `value` is None if it is a secret or not set.

    >>> from ottla.admin import Admin, topic_resource
    >>> with Admin(bootstrap_servers="127.0.0.1:9092") as admin:
    ...     entry = admin.describe_configs(topic_resource("orders"))["retention.ms"]
    >>> entry.value, entry.is_default
    ('604800000', True)
    """

    name: str
    value: str | None
    source: ConfigSource
    is_read_only: bool = False
    is_sensitive: bool = False
    synonyms: tuple[ConfigEntrySynonym, ...] = ()

    @property
    def is_default(self) -> bool:
        """Whether it has its default value."""
        return self.source is ConfigSource.DEFAULT_CONFIG
