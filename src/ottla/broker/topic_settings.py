"""The settings of one topic: the broker's defaults with the topic's overrides on top.

    topic_config(config, {"retention.ms": "1000"}).log.retention_ms == 1000

Overrides are texts as admin clients send them. A name or value that is not known, or that would promise what
this broker does not keep, is refused with INVALID_CONFIG.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ottla.broker.config import BrokerConfig, log_replaced
from ottla.broker.settings.setting import LONG_MAX, did_you_mean
from ottla.broker.settings.topic_table import TOPIC_SETTINGS
from ottla.log.config import LogConfig
from ottla.model.error_codes import Code
from ottla.model.errors import ConfigError, KafkaError


class ConfigRefused(KafkaError):
    """A setting was refused; `reason` is what the client reads."""

    def __init__(self, code: Code, reason: str) -> None:
        super().__init__(code, reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """What a topic's settings come to. Everything in the log's own files is in `log`.

    min_insync_replicas     above 1, a produce with acks=-1 gets NOT_ENOUGH_REPLICAS: there is one replica
    message_downconversion  False: a fetch that would need an older format gets UNSUPPORTED_VERSION
    """

    log: LogConfig
    flush_messages: int
    flush_ms: int
    min_insync_replicas: int
    message_downconversion: bool

    @property
    def flush_every_write(self) -> bool:
        """Whether a write must be on disk before its ack. To flush more often than asked is no breach."""
        return self.flush_messages < LONG_MAX or self.flush_ms < LONG_MAX


def topic_config(config: BrokerConfig, overrides: Mapping[str, str]) -> TopicConfig:
    """Parse and check; raises ConfigRefused (INVALID_CONFIG) that names the setting.

    `config` is the effective one: with what `with_dynamic` lays over it.
    """
    values: dict[str, Any] = {}
    before = config.timestamp_difference_max_ms
    try:
        for name, text in overrides.items():
            row = TOPIC_SETTINGS.get(name)
            if row is None:
                raise ConfigError(f"{name} is not a setting of a topic{did_you_mean(name, TOPIC_SETTINGS)}")
            values[row.target] = row.value_of(text)
        difference = values.get("timestamp_difference_max_ms", before)
        log = log_replaced(config.log, values, before, difference)
        topic = TopicConfig(
            log=log,
            flush_messages=values.get("flush_messages", config.flush_messages),
            flush_ms=values.get("flush_ms", config.flush_ms),
            min_insync_replicas=values.get("min_insync_replicas", config.min_insync_replicas),
            message_downconversion=values.get("message_downconversion", config.message_downconversion),
        )
    except ConfigError as error:
        raise ConfigRefused(Code.INVALID_CONFIG, str(error)) from error
    return topic


def offsets_topic_overrides(config: BrokerConfig) -> dict[str, str]:
    """The settings that Kafka gives the topic of groups and offsets."""
    return {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": str(config.offsets_segment_bytes),
    }
