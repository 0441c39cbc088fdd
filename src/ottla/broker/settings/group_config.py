"""The settings of the group coordinator, with Kafka's names and defaults."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ottla.model.errors import ConfigError

MINUTE_MS = 60_000
ASSIGNORS = ("uniform", "range")
"""The assignors of consumer groups that there are."""


class MigrationPolicy(StrEnum):
    """Whether a group in use may change its kind: to consumer (upgrade), to classic (downgrade)."""

    BIDIRECTIONAL = "bidirectional"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    DISABLED = "disabled"


@dataclass(frozen=True, slots=True)
class GroupConfig:
    """One frozen value for all groups of a broker.

    session_timeout_min_ms      group.min.session.timeout.ms: below it, heartbeats would load the broker
    session_timeout_max_ms      group.max.session.timeout.ms: above it, a dead member blocks its group
    initial_rebalance_delay_ms  group.initial.rebalance.delay.ms: members that start together share one
    member_count_max            group.max.size
    new_member_timeout_ms       how long a new member may wait in its first join (fixed in Kafka)
    metadata_length_max         offset.metadata.max.bytes; Kafka compares it with the UTF-16 length
    offsets_retention_ms        offsets.retention.minutes
    offsets_partition_count     offsets.topic.num.partitions; must never change for a data directory
    consumer_*                  group.consumer.*: consumer groups (KIP-848); single groups may have their own
    migration_policy            group.consumer.migration.policy
    """

    session_timeout_min_ms: int = 6_000
    session_timeout_max_ms: int = 30 * MINUTE_MS
    initial_rebalance_delay_ms: int = 3_000
    member_count_max: int = 2**31 - 1
    new_member_timeout_ms: int = 5 * MINUTE_MS
    metadata_length_max: int = 4096
    offsets_retention_ms: int = 10_080 * MINUTE_MS
    offsets_partition_count: int = 50
    consumer_session_timeout_ms: int = 45_000
    consumer_session_timeout_min_ms: int = 45_000
    consumer_session_timeout_max_ms: int = 60_000
    consumer_heartbeat_interval_ms: int = 5_000
    consumer_heartbeat_interval_min_ms: int = 5_000
    consumer_heartbeat_interval_max_ms: int = 15_000
    consumer_assignment_interval_ms: int = 1_000
    consumer_assignment_interval_min_ms: int = 0
    consumer_assignment_interval_max_ms: int = 15_000
    consumer_member_count_max: int = 2**31 - 1
    consumer_assignors: tuple[str, ...] = ASSIGNORS
    migration_policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL

    def __post_init__(self) -> None:
        if not 0 < self.session_timeout_min_ms <= self.session_timeout_max_ms:
            raise ConfigError(
                f"group.min.session.timeout.ms={self.session_timeout_min_ms} must be above 0 and not above "
                f"group.max.session.timeout.ms={self.session_timeout_max_ms}"
            )
        self._check_consumer_groups()
        if self.member_count_max < 1:
            raise ConfigError(f"group.max.size={self.member_count_max} lets nobody in; it must be 1 or more")
        if self.initial_rebalance_delay_ms < 0:
            raise ConfigError(
                f"group.initial.rebalance.delay.ms={self.initial_rebalance_delay_ms} must be 0 or more"
            )

    def _check_consumer_groups(self) -> None:
        rows = (
            ("session.timeout.ms", "consumer_session_timeout", 1),
            ("heartbeat.interval.ms", "consumer_heartbeat_interval", 1),
            ("assignment.interval.ms", "consumer_assignment_interval", 0),
        )
        for name, field, least in rows:
            low, value, high = (getattr(self, f"{field}{part}_ms") for part in ("_min", "", "_max"))
            if not least <= low <= value <= high:
                raise ConfigError(
                    f"group.consumer.{name}={value} must not be below group.consumer.min.{name}={low} nor "
                    f"above group.consumer.max.{name}={high}"
                )
        if self.consumer_heartbeat_interval_ms >= self.consumer_session_timeout_ms:
            raise ConfigError(
                f"group.consumer.heartbeat.interval.ms={self.consumer_heartbeat_interval_ms} must be below "
                f"group.consumer.session.timeout.ms={self.consumer_session_timeout_ms}"
            )
        if not self.consumer_assignors:
            raise ConfigError("group.consumer.assignors is empty: name at least one assignor")
