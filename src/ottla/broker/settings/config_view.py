"""What the config APIs see: the config as started, what admin clients have changed, and the topics."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property

from ottla.broker.settings.broker_config import BrokerConfig, DynamicOverrides, with_dynamic
from ottla.broker.settings.topic_settings import ConfigRefused
from ottla.model.error_codes import Code


class ConfigResourceType(IntEnum):
    """The kinds of resources that are served here, with their codes in the config APIs."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


def _no_overrides(_kind: ConfigResourceType, _name: str) -> Mapping[str, str]:
    return {}


@dataclass(frozen=True)
class ConfigView:
    """`topic_overrides` gives the overrides of a topic by its name, or None if there is no such topic.

    `named_overrides` gives those of groups and client metrics, which need not exist.
    """

    config: BrokerConfig
    dynamic: DynamicOverrides
    topic_overrides: Callable[[str], Mapping[str, str] | None]
    named_overrides: Callable[[ConfigResourceType, str], Mapping[str, str]] = _no_overrides

    @cached_property
    def effective(self) -> BrokerConfig:
        """The config in force."""
        return with_dynamic(self.config, self.dynamic)

    def existing(self, topic: str) -> Mapping[str, str]:
        """Return the overrides of a topic. Raises ConfigRefused if it does not exist."""
        if not topic:
            raise ConfigRefused(Code.INVALID_REQUEST, "topics have no common settings; name a topic")
        overrides = self.topic_overrides(topic)
        if overrides is None:
            raise ConfigRefused(Code.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {topic!r}")
        return overrides

    def named(self, kind: ConfigResourceType, name: str) -> Mapping[str, str]:
        """Return the overrides of a group or of client metrics. Raises ConfigRefused without a name."""
        if not name:
            label = kind.name.lower().replace("_", " ")
            raise ConfigRefused(Code.INVALID_REQUEST, f"{label}: there are no common settings; give a name")
        return self.named_overrides(kind, name)

    def names_this_broker(self, resource_name: str) -> bool:
        """Whether a broker resource is this broker ("" is all of them). Raises ConfigRefused for another."""
        if not resource_name:
            return False
        if resource_name != str(self.config.broker_id):
            raise ConfigRefused(
                Code.INVALID_REQUEST,
                f"broker {resource_name!r}: this is broker {self.config.broker_id}; name it, or none for all",
            )
        return True
