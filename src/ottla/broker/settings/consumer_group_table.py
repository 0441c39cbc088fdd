"""The settings of consumer groups (KIP-848), for all groups of a broker and for single ones."""

from __future__ import annotations

from ottla.broker.settings.group_config import ASSIGNORS, MigrationPolicy
from ottla.broker.settings.setting import Setting
from ottla.model.property_table import INT, INT_MAX, LIST, TEXT


def _ms(name: str, default: int, doc: str, target: str) -> Setting:
    return Setting(name, INT, default, doc, unit="ms", minimum=1, target=f"groups.{target}")


CONSUMER_GROUP_ROWS = (
    _ms(
        "group.consumer.session.timeout.ms",
        45_000,
        "After how long without a heartbeat a member of a consumer group is removed.",
        "consumer_session_timeout_ms",
    ),
    _ms(
        "group.consumer.min.session.timeout.ms",
        45_000,
        "The shortest session timeout of a consumer group.",
        "consumer_session_timeout_min_ms",
    ),
    _ms(
        "group.consumer.max.session.timeout.ms",
        60_000,
        "The longest session timeout of a consumer group.",
        "consumer_session_timeout_max_ms",
    ),
    _ms(
        "group.consumer.heartbeat.interval.ms",
        5_000,
        "How often members of consumer groups send heartbeats, and so learn of a new assignment.",
        "consumer_heartbeat_interval_ms",
    ),
    _ms(
        "group.consumer.min.heartbeat.interval.ms",
        5_000,
        "The shortest heartbeat interval of a consumer group.",
        "consumer_heartbeat_interval_min_ms",
    ),
    _ms(
        "group.consumer.max.heartbeat.interval.ms",
        15_000,
        "The longest heartbeat interval of a consumer group.",
        "consumer_heartbeat_interval_max_ms",
    ),
    Setting(
        "group.consumer.max.size",
        INT,
        INT_MAX,
        "The largest number of members of a consumer group.",
        minimum=1,
        target="groups.consumer_member_count_max",
    ),
    Setting(
        "group.consumer.assignors",
        LIST,
        ASSIGNORS,
        "The assignors of consumer groups; the first is used where members ask for none.",
        choices=ASSIGNORS,
        target="groups.consumer_assignors",
    ),
    Setting(
        "group.consumer.migration.policy",
        TEXT,
        MigrationPolicy.BIDIRECTIONAL.value,
        "Whether a group in use may become a consumer group (upgrade), a classic one (downgrade), or both.",
        choices=tuple(MigrationPolicy),
        check=MigrationPolicy,
        target="groups.migration_policy",
    ),
)
