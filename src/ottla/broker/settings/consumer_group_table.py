"""The settings of consumer groups (KIP-848), for all groups of a broker and for single ones."""

from __future__ import annotations

from ottla.broker.settings.group_config import ASSIGNORS, MigrationPolicy
from ottla.broker.settings.setting import Setting, UpdateMode
from ottla.model.errors import ConfigError
from ottla.model.property_table import INT, INT_MAX, LIST, TEXT

_JAVA_PREFIX = "org.apache.kafka.coordinator.group.assignor."


def _ms(name: str, default: int, doc: str, target: str, least: int = 1) -> Setting:
    update = UpdateMode.CLUSTER_WIDE if target == "consumer_assignment_interval_ms" else UpdateMode.READ_ONLY
    return Setting(
        name, INT, default, doc, unit="ms", minimum=least, target=f"groups.{target}", update=update
    )


def _assignors(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names of assignors; Kafka's class names are understood."""
    known = tuple(name.removeprefix(_JAVA_PREFIX).removesuffix("Assignor").lower() for name in names)
    if not known or not set(known) <= set(ASSIGNORS):
        raise ConfigError(f"give one or more of {', '.join(ASSIGNORS)}: no others are served")
    return known


def _policy(text: str) -> MigrationPolicy:
    if text.lower() not in tuple(MigrationPolicy):
        raise ConfigError(f"give one of {', '.join(MigrationPolicy)}")
    return MigrationPolicy(text.lower())


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
    _ms(
        "group.consumer.assignment.interval.ms",
        1_000,
        "The least time between two target assignments of a consumer group: members that join together share"
        " one.",
        "consumer_assignment_interval_ms",
        0,
    ),
    _ms(
        "group.consumer.min.assignment.interval.ms",
        0,
        "The shortest assignment interval of a consumer group.",
        "consumer_assignment_interval_min_ms",
        0,
    ),
    _ms(
        "group.consumer.max.assignment.interval.ms",
        15_000,
        "The longest assignment interval of a consumer group.",
        "consumer_assignment_interval_max_ms",
        0,
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
        check=_assignors,
        target="groups.consumer_assignors",
    ),
    Setting(
        "group.consumer.migration.policy",
        TEXT,
        MigrationPolicy.BIDIRECTIONAL.value,
        "Whether a group in use may become a consumer group (upgrade), a classic one (downgrade), or both.",
        check=_policy,
        target="groups.migration_policy",
    ),
)
