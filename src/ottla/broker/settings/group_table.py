"""The settings of single groups, which admin clients change by the config resource GROUP (Kafka 4.x).

    group_settings({"consumer.session.timeout.ms": "50000"})["consumer.session.timeout.ms"] == 50000

Names, defaults and ranges are Kafka's. Settings of streams groups are kept and described, and have no effect:
there are no such groups here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla.broker.settings.setting import Setting, table
from ottla.broker.settings.topic_settings import ConfigRefused
from ottla.model.did_you_mean import hint
from ottla.model.error_codes import Code
from ottla.model.errors import ConfigError
from ottla.model.property_table import BOOLEAN, INT, INT_MAX, TEXT


def _int(name: str, default: int, doc: str, least: int, most: int, unit: str = "") -> Setting:
    return Setting(name, INT, default, doc, minimum=least, maximum=most, unit=unit)


def _times(kind: str, interval: str) -> tuple[Setting, ...]:
    """Return the three times that members of every new kind of group have; `interval` describes
    the last one.
    """
    return (
        _int(f"{kind}.session.timeout.ms", 45_000, "A member is gone after this.", 45_000, 60_000, "ms"),
        _int(f"{kind}.heartbeat.interval.ms", 5_000, "How often members report.", 5_000, 15_000, "ms"),
        _int(f"{kind}.assignment.interval.ms", 1_000, interval, 0, 15_000, "ms"),
    )


GROUP_SETTINGS = table(
    (
        *_times("consumer", "The least time between assignments."),
        *_times("share", "Without effect: assignments of share groups are hints, made at once."),
        Setting(
            "share.auto.offset.reset",
            TEXT,
            "latest",
            "Where a share group begins that has read nothing: earliest, latest, or a time.",
            pattern=r"earliest|latest|by_duration:P[0-9A-Z.]+",
        ),
        _int("share.delivery.count.limit", 5, "A record is given up after this many deliveries.", 2, 10),
        Setting(
            "share.isolation.level",
            TEXT,
            "read_uncommitted",
            "Whether members get records of open and aborted transactions.",
            choices=("read_committed", "read_uncommitted"),
        ),
        _int("share.partition.max.record.locks", 2_000, "Records a partition may have out.", 100, 10_000),
        _int(
            "share.record.lock.duration.ms",
            30_000,
            "How long a member may keep a record.",
            15_000,
            60_000,
            "ms",
        ),
        Setting(
            "share.renew.acknowledge.enable",
            BOOLEAN,
            default=True,
            doc="Whether a member may keep a record for longer.",
        ),
        Setting(
            "errors.deadletterqueue.topic.name",
            TEXT,
            "",
            "The topic for records that a share group has given up; none without a name.",
        ),
        Setting(
            "errors.deadletterqueue.copy.record.enable",
            BOOLEAN,
            default=False,
            doc="Whether dead letters have key and value of the record, or only say where it is.",
        ),
        *_times("streams", "Without effect here."),
        _int("streams.initial.rebalance.delay.ms", 3_000, "Without effect here.", 0, INT_MAX, "ms"),
        _int("streams.num.standby.replicas", 0, "Without effect here.", 0, 2),
    )
)


def group_settings(overrides: Mapping[str, str]) -> dict[str, Any]:
    """Return all settings of a group, by name. Raises ConfigRefused for overrides that it cannot have."""
    unknown = [name for name in overrides if name not in GROUP_SETTINGS]
    if unknown:
        near = hint(unknown[0], GROUP_SETTINGS)
        raise ConfigRefused(Code.INVALID_CONFIG, f"{unknown[0]} is not a setting of a group{near}")
    try:
        values = {
            name: row.parse(overrides[name]) if name in overrides else row.default
            for name, row in GROUP_SETTINGS.items()
        }
    except ConfigError as error:
        raise ConfigRefused(Code.INVALID_CONFIG, str(error)) from error
    for kind in ("consumer", "share", "streams"):
        if values[f"{kind}.heartbeat.interval.ms"] >= values[f"{kind}.session.timeout.ms"]:
            reason = f"{kind}.heartbeat.interval.ms must be below {kind}.session.timeout.ms"
            raise ConfigRefused(Code.INVALID_CONFIG, reason)
    return values
