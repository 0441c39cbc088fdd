"""The settings of share groups, with Kafka's names and defaults; single groups may have their own."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.broker.settings.setting import Setting, UpdateMode
from ottla.model.errors import ConfigError
from ottla.model.property_table import BOOLEAN, INT, TEXT


@dataclass(frozen=True, slots=True)
class ShareGroupConfig:
    """One frozen value for all share groups of a broker. SHARE_ROWS says what each field is.

    Fields that end with _min and _max bound the value of the broker and those of single groups.
    """

    session_timeout_ms: int = 45_000
    session_timeout_ms_min: int = 45_000
    session_timeout_ms_max: int = 60_000
    heartbeat_interval_ms: int = 5_000
    heartbeat_interval_ms_min: int = 5_000
    heartbeat_interval_ms_max: int = 15_000
    assignment_interval_ms: int = 1_000
    assignment_interval_ms_min: int = 0
    assignment_interval_ms_max: int = 15_000
    lock_duration_ms: int = 30_000
    lock_duration_ms_min: int = 15_000
    lock_duration_ms_max: int = 60_000
    delivery_count_limit: int = 5
    delivery_count_limit_min: int = 2
    delivery_count_limit_max: int = 10
    record_locks: int = 2_000
    record_locks_min: int = 100
    record_locks_max: int = 4_000
    member_count_max: int = 200
    sessions_max: int = 2_000
    partition_count: int = 50
    dead_letter_auto_create: bool = False
    dead_letter_prefix: str = "dlq."

    def __post_init__(self) -> None:
        for name, field in _BOUNDED.items():
            low, value, high = (getattr(self, f"{field}{end}") for end in ("_min", "", "_max"))
            if not low <= value <= high:
                raise ConfigError(
                    f"group.share.{name}={value} must not be below group.share.min.{name}={low} nor above "
                    f"group.share.max.{name}={high}"
                )
        if self.heartbeat_interval_ms >= self.session_timeout_ms:
            raise ConfigError(
                f"group.share.heartbeat.interval.ms={self.heartbeat_interval_ms} must be below "
                f"group.share.session.timeout.ms={self.session_timeout_ms}"
            )


_BOUNDED = {
    "session.timeout.ms": "session_timeout_ms",
    "heartbeat.interval.ms": "heartbeat_interval_ms",
    "assignment.interval.ms": "assignment_interval_ms",
    "record.lock.duration.ms": "lock_duration_ms",
    "delivery.count.limit": "delivery_count_limit",
    "partition.max.record.locks": "record_locks",
}


def _row(name: str, target: str, doc: str, least: int, most: int | None = None, unit: str = "") -> Setting:
    default = getattr(ShareGroupConfig(), target)
    update = UpdateMode.CLUSTER_WIDE if target == "assignment_interval_ms" else UpdateMode.READ_ONLY
    return Setting(
        name,
        INT,
        default,
        doc,
        minimum=least,
        maximum=most,
        unit=unit,
        target=f"shares.{target}",
        update=update,
    )


def _bounded(
    name: str, doc: str, least: int, middle: int | None = None, most: int | None = None
) -> tuple[Setting, ...]:
    """Return the rows of a value and of its bounds, between which `middle` lies."""
    field, unit = _BOUNDED[name], "ms" if name.endswith(".ms") else ""
    bound = f"of group.share.{name} and of the same setting of single groups."
    return (
        _row(f"group.share.{name}", field, doc, least, most, unit),
        _row(f"group.share.min.{name}", f"{field}_min", f"The least value {bound}", least, middle, unit),
        _row(
            f"group.share.max.{name}",
            f"{field}_max",
            f"The largest value {bound}",
            middle if middle is not None else least,
            25 if name == "delivery.count.limit" else most,
            unit,
        ),
    )


SHARE_ROWS = (
    *_bounded(
        "session.timeout.ms", "A member of a share group is removed after this time without a heartbeat.", 1
    ),
    *_bounded("heartbeat.interval.ms", "How often members of share groups report.", 1),
    *_bounded(
        "assignment.interval.ms",
        "The least time between two assignments of a share group: members that join together share one.",
        0,
    ),
    *_bounded(
        "record.lock.duration.ms",
        "How long a member of a share group may keep a record before another one gets it.",
        1_000,
        30_000,
        3_600_000,
    ),
    *_bounded(
        "delivery.count.limit", "A record of a share group is given up after this many deliveries.", 2, 5, 10
    ),
    *_bounded(
        "partition.max.record.locks",
        "How many records of a partition a share group may have in flight.",
        100,
        2_000,
        10_000,
    ),
    _row(
        "group.share.max.size", "member_count_max", "The largest number of members of a share group.", 1, 1000
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
