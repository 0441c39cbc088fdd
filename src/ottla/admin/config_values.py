"""Whose settings, and what they are: frozen values."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from ottla.model.errors import ConfigError


class ConfigKind(IntEnum):
    """Whose settings; the numbers of the protocol. CLIENT (quotas by client id) is in ZooKeeper only."""

    TOPIC = 2
    BROKER = 4
    CLIENT = -1

    @property
    def entity_type(self) -> str:
        """Its name below ZooKeeper's /config."""
        return f"{self.name.lower()}s"


class ConfigResource(NamedTuple):
    """A topic, a broker by its id, or a client id. The broker "" stands for the defaults of all brokers."""

    kind: ConfigKind
    name: str

    def __str__(self) -> str:
        return f"{self.kind.name.lower()} {self.name!r}"


def topic_resource(name: str) -> ConfigResource:
    """A topic."""
    return ConfigResource(ConfigKind.TOPIC, name)


def broker_resource(broker_id: int | None) -> ConfigResource:
    """A broker, or with None the defaults of all brokers."""
    if broker_id is not None and broker_id < 0:
        raise ConfigError(f"broker id {broker_id} is negative")
    return ConfigResource(ConfigKind.BROKER, "" if broker_id is None else str(broker_id))


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
        """UNKNOWN for numbers that are newer than this library."""
        return cls(number) if number in cls._value2member_map_ else cls.UNKNOWN


class ConfigSynonym(NamedTuple):
    """Another place that the value could come from, in the order in which they are looked at."""

    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One setting. `value` is None where it is a secret, or unset."""

    name: str
    value: str | None
    source: ConfigSource
    is_read_only: bool = False
    is_sensitive: bool = False
    synonyms: tuple[ConfigSynonym, ...] = ()

    @property
    def is_default(self) -> bool:
        """Whether nobody has set it."""
        return self.source is ConfigSource.DEFAULT_CONFIG
