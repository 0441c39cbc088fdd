"""The settings of single groups, which admin clients change by the config resource GROUP (Kafka 4.x).

    group_settings({"share.delivery.count.limit": "7"}, config)["share.delivery.count.limit"] == 7

Names and ranges are Kafka's; defaults and bounds are settings of the broker (`group.share.min.…`), which may
change while groups have values of their own. Settings of streams groups are kept and described, and have no
effect: there are no such groups here.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter
from typing import Any

from ottla.broker.settings.broker_config import BrokerConfig
from ottla.broker.settings.broker_table import BROKER_SETTINGS
from ottla.broker.settings.setting import Setting, table
from ottla.broker.settings.topic_settings import ConfigRefused
from ottla.model.did_you_mean import hint
from ottla.model.error_codes import Code
from ottla.model.errors import ConfigError
from ottla.model.property_table import BOOLEAN, INT, INT_MAX, TEXT


def _int(
    name: str, default: int, doc: str, least: int, most: int | None = None, *, is_brokers: bool = True
) -> Setting:
    """Return the row of a number; `is_brokers`: its default and its bounds are settings of the broker."""
    names = (f"group.{name}",) if is_brokers else ()
    unit = "ms" if name.endswith(".ms") else ""
    return Setting(name, INT, default, doc, minimum=least, maximum=most, unit=unit, broker_names=names)


def _times(kind: str) -> tuple[Setting, ...]:
    """Return the three times that members of every new kind of group have."""
    is_brokers = kind != "streams"
    return (
        _int(f"{kind}.session.timeout.ms", 45_000, "A member is gone after this.", 1, is_brokers=is_brokers),
        _int(f"{kind}.heartbeat.interval.ms", 5_000, "How often members report.", 1, is_brokers=is_brokers),
        _int(
            f"{kind}.assignment.interval.ms",
            1_000,
            "The least time between assignments: members that join together share one.",
            0,
            is_brokers=is_brokers,
        ),
    )


GROUP_SETTINGS = table(
    (
        *_times("consumer"),
        *_times("share"),
        Setting(
            "share.auto.offset.reset",
            TEXT,
            "latest",
            "Where a share group begins that has read nothing: earliest, latest, or a time.",
            pattern=r"earliest|latest|by_duration:P[0-9A-Z.]+",
        ),
        _int("share.delivery.count.limit", 5, "A record is given up after this many deliveries.", 2),
        Setting(
            "share.isolation.level",
            TEXT,
            "read_uncommitted",
            "Whether members get records of open and aborted transactions.",
            choices=("read_committed", "read_uncommitted"),
        ),
        _int("share.partition.max.record.locks", 2_000, "Records a partition may have out.", 100),
        _int("share.record.lock.duration.ms", 30_000, "How long a member may keep a record.", 1_000),
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
        *_times("streams"),
        _int(
            "streams.initial.rebalance.delay.ms", 3_000, "Without effect here.", 0, INT_MAX, is_brokers=False
        ),
        _int("streams.num.standby.replicas", 0, "Without effect here.", 0, 2, is_brokers=False),
    )
)


def check_group(overrides: Mapping[str, str], config: BrokerConfig) -> None:
    """Raise ConfigRefused for settings that a group cannot have in a broker with this config."""
    unknown = [name for name in overrides if name not in GROUP_SETTINGS]
    if unknown:
        near = hint(unknown[0], GROUP_SETTINGS)
        raise ConfigRefused(Code.INVALID_CONFIG, f"{unknown[0]} is not a setting of a group{near}")
    try:
        given = {name: GROUP_SETTINGS[name].parse(text) for name, text in overrides.items()}
    except ConfigError as error:
        raise ConfigRefused(Code.INVALID_CONFIG, str(error)) from error
    for name, value in given.items():
        if not GROUP_SETTINGS[name].broker_names:
            continue
        low, high = _bounds(name, config)
        if not low <= value <= high:
            lowest, highest = _bound_names(name)
            reason = f"{name}={value} must not be below {lowest}={low} nor above {highest}={high}"
            raise ConfigRefused(Code.INVALID_CONFIG, reason)
    values = group_settings(overrides, config)
    for kind in ("consumer", "share", "streams"):
        if values[f"{kind}.heartbeat.interval.ms"] >= values[f"{kind}.session.timeout.ms"]:
            reason = f"{kind}.heartbeat.interval.ms must be below {kind}.session.timeout.ms"
            raise ConfigRefused(Code.INVALID_CONFIG, reason)


def group_settings(overrides: Mapping[str, str], config: BrokerConfig) -> dict[str, Any]:
    """Return all settings of a group by name: its own ones within the bounds that the broker has now, and the
    broker's.
    """
    return {name: group_setting(name, overrides, config) for name in GROUP_SETTINGS}


def group_setting(name: str, overrides: Mapping[str, str], config: BrokerConfig) -> Any:
    """Return one setting of a group, as `group_settings` does."""
    row = GROUP_SETTINGS[name]
    if name not in overrides:
        return _broker_value(row.broker_names[0], config) if row.broker_names else row.default
    value = row.parse(overrides[name])
    if not row.broker_names:
        return value
    low, high = _bounds(name, config)
    return min(max(value, low), high)


def _bounds(name: str, config: BrokerConfig) -> tuple[Any, Any]:
    lowest, highest = _bound_names(name)
    return _broker_value(lowest, config), _broker_value(highest, config)


def _bound_names(name: str) -> tuple[str, str]:
    kind, _, rest = name.partition(".")
    return f"group.{kind}.min.{rest}", f"group.{kind}.max.{rest}"


def _broker_value(name: str, config: BrokerConfig) -> Any:
    return attrgetter(BROKER_SETTINGS[name].target)(config)
