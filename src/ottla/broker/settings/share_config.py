"""The settings of share groups, with Kafka's names and defaults; single groups may have their own."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.broker.settings.setting import Setting, UpdateMode
from ottla.model.property_table import BOOLEAN, INT, TEXT


@dataclass(frozen=True, slots=True)
class ShareGroupConfig:
    """One frozen value for all share groups of a broker. SHARE_ROWS says what each field is."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    member_count_max: int = 200
    lock_duration_ms: int = 30_000
    delivery_count_limit: int = 5
    record_locks_max: int = 2_000
    sessions_max: int = 2_000
    partition_count: int = 50
    dead_letter_auto_create: bool = False
    dead_letter_prefix: str = "dlq."


def _row(name: str, target: str, doc: str, least: int, most: int | None = None, unit: str = "") -> Setting:
    default = getattr(ShareGroupConfig(), target)
    return Setting(name, INT, default, doc, minimum=least, maximum=most, unit=unit, target=f"shares.{target}")


SHARE_ROWS = (
    _row(
        "group.share.session.timeout.ms",
        "session_timeout_ms",
        "A member of a share group is removed after this time without a heartbeat.",
        1,
        unit="ms",
    ),
    _row(
        "group.share.heartbeat.interval.ms",
        "heartbeat_interval_ms",
        "How often members of share groups report.",
        1,
        unit="ms",
    ),
    _row(
        "group.share.max.size", "member_count_max", "The largest number of members of a share group.", 1, 1000
    ),
    _row(
        "group.share.record.lock.duration.ms",
        "lock_duration_ms",
        "How long a member of a share group may keep a record before another one gets it.",
        1000,
        3_600_000,
        "ms",
    ),
    _row(
        "group.share.delivery.count.limit",
        "delivery_count_limit",
        "A record of a share group is given up after this many deliveries.",
        2,
        10,
    ),
    _row(
        "group.share.partition.max.record.locks",
        "record_locks_max",
        "How many records of a partition a share group may have in flight.",
        100,
        10_000,
    ),
    _row("group.share.max.share.sessions", "sessions_max", "The largest number of share sessions.", 1),
    _row(
        "share.coordinator.state.topic.num.partitions",
        "partition_count",
        "Partitions of __share_group_state when it is created; later changes have no effect.",
        1,
    ),
    Setting(
        "errors.deadletterqueue.auto.create.topics.enable",
        BOOLEAN,
        default=False,
        doc="Whether the topic for dead letters of a share group is created if it does not exist.",
        update=UpdateMode.CLUSTER_WIDE,
        target="shares.dead_letter_auto_create",
    ),
    Setting(
        "errors.deadletterqueue.topic.name.prefix",
        TEXT,
        "dlq.",
        "How the names of topics for dead letters have to begin.",
        update=UpdateMode.CLUSTER_WIDE,
        target="shares.dead_letter_prefix",
    ),
)
