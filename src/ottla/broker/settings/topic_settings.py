"""The settings of one topic: the broker's defaults with the topic's overrides on top.

    topic_config(config, {"retention.ms": "1000"}).log.retention_ms == 1000

Overrides are texts as admin clients send them. A name or value that is not known, or that promises more than
this broker does, is refused with INVALID_CONFIG.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from ottla.broker.settings.broker_config import BrokerConfig, log_replaced
from ottla.broker.settings.topic_table import TOPIC_SETTINGS
from ottla.log.log_config import LogConfig
from ottla.model.did_you_mean import hint
from ottla.model.error_codes import Code
from ottla.model.errors import ConfigError, KafkaError
from ottla.model.property_table import LONG_MAX
from ottla.model.topic_partition import OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTIONS_TOPIC


class ConfigRefused(KafkaError):
    """A setting was refused; `reason` is what the client reads."""

    def __init__(self, code: Code, reason: str) -> None:
        super().__init__(code, reason)
        self.reason = reason


CODECS = {"uncompressed": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
"""The number of each codec that a topic can ask for."""
LEVELS = {"gzip": "gzip_level", "lz4": "lz4_level", "zstd": "zstd_level"}
"""The setting that has the level of a codec."""


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """The settings in force for a topic. `log` has those of its log files.

    min_insync_replicas     above 1, a produce with acks=-1 gets NOT_ENOUGH_REPLICAS: there is one replica
    keeps_old_formats       messages of formats 0 and 1 are stored as they came, not as batches of format 2
    codec, codec_level      how batches are compressed anew; None: they are stored as they come
    message_downconversion  False: a fetch that would need an older format gets UNSUPPORTED_VERSION
    """

    log: LogConfig
    flush_messages: int
    flush_ms: int
    min_insync_replicas: int
    message_downconversion: bool
    keeps_old_formats: bool
    codec: int | None
    codec_level: int | None

    @property
    def flush_every_write(self) -> bool:
        """Whether a write must be on disk before its ack. Flushing more often than set is allowed."""
        return self.flush_messages < LONG_MAX or self.flush_ms < LONG_MAX


def topic_config(config: BrokerConfig, overrides: Mapping[str, str]) -> TopicConfig:
    """Return the settings in force. Raises ConfigRefused (INVALID_CONFIG) that names the setting.

    `config` is the broker's config in force: see `with_dynamic`.
    """
    values: dict[str, Any] = {}
    before = config.timestamp_difference_max_ms
    try:
        for name, text in overrides.items():
            row = TOPIC_SETTINGS.get(name)
            if row is None:
                raise ConfigError(f"{name} is not a setting of a topic{hint(name, TOPIC_SETTINGS)}")
            values[row.target] = row.parse(text)
        difference = values.get("timestamp_difference_max_ms", before)
        compression_type = values.get("compression_type", config.compression_type)
        level_name = LEVELS.get(compression_type, "")
        log = log_replaced(config.log, values, before, difference)
        topic = TopicConfig(
            log=log,
            flush_messages=values.get("flush_messages", config.flush_messages),
            flush_ms=values.get("flush_ms", config.flush_ms),
            min_insync_replicas=values.get("min_insync_replicas", config.min_insync_replicas),
            message_downconversion=values.get("message_downconversion", config.message_downconversion),
            keeps_old_formats=values.get("keeps_old_formats", config.keeps_old_formats),
            codec=CODECS.get(compression_type),
            codec_level=values.get(level_name, getattr(config, level_name)) if level_name else None,
        )
    except ConfigError as error:
        raise ConfigRefused(Code.INVALID_CONFIG, str(error)) from error
    return topic


class OwnTopic(NamedTuple):
    """A topic of the broker's own: its number of partitions, and the settings that Kafka gives it.

    The number never changes: a hash over it says which partition a group or a transactional id belongs to.
    """

    partition_count: int
    setting: str  # the name of the setting for the number
    overrides: Mapping[str, str]


def own_topics(config: BrokerConfig) -> Mapping[str, OwnTopic]:
    """Return the broker's own topics by name, as they are created."""
    offsets = {"cleanup.policy": "compact", "compression.type": "producer"}
    transactions = {"cleanup.policy": "compact", "compression.type": "uncompressed"}
    return {
        OFFSETS_TOPIC: OwnTopic(
            config.groups.offsets_partition_count,
            "offsets.topic.num.partitions",
            offsets | {"segment.bytes": str(config.offsets_segment_bytes)},
        ),
        TRANSACTIONS_TOPIC: OwnTopic(
            config.transactions.partition_count,
            "transaction.state.log.num.partitions",
            transactions | {"segment.bytes": str(config.transactions.segment_bytes)},
        ),
        SHARE_STATE_TOPIC: OwnTopic(
            config.shares.partition_count, "share.coordinator.state.topic.num.partitions", transactions
        ),
    }
