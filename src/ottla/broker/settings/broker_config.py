"""The settings of a broker: Kafka's properties → one frozen value, checked once.

    BrokerConfig.from_properties(read_properties("server.properties"))
    BrokerConfig(data_dir=path, port=0)

Unknown properties are refused with the nearest known name. Kafka's properties that have no meaning here are
listed in `ignored`, for a warning. What AlterConfigs has changed in a running broker is not in here:
`with_dynamic` lays it over the config that the broker was started with.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path
from typing import Any

from ottla.broker.settings.broker_table import BROKER_SETTINGS
from ottla.broker.settings.group_config import GroupConfig
from ottla.broker.settings.idle_table import IDLE_SETTINGS
from ottla.broker.settings.ignored_names import NAMES, check_refused, is_ignored
from ottla.broker.settings.listeners import LOOPBACK, PORT, Listener, client_listeners
from ottla.broker.settings.security_settings import AuthorizerSettings, authorizer_settings
from ottla.broker.settings.security_table import listener_setting
from ottla.broker.settings.share_config import ShareGroupConfig
from ottla.broker.settings.topic_table import PRODUCER
from ottla.broker.settings.transaction_config import TransactionConfig
from ottla.log.log_config import LogConfig
from ottla.model.did_you_mean import hint
from ottla.model.errors import ConfigError
from ottla.model.property_table import INT_MAX, LONG_MAX, snake, text_of

__all__ = ["BrokerConfig", "DynamicOverrides", "FlushPolicy", "with_dynamic"]


class FlushPolicy(Enum):
    """When a write is acknowledged: `ottla.flush`."""

    OS = "os"  # the operating system has it: it survives the process, not the machine
    ALWAYS = "always"  # it is on disk


LOCAL_DEFAULTS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.assignment.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "300",
    "group.consumer.min.heartbeat.interval.ms": "10",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.share.assignment.interval.ms": "100",
    "group.share.min.heartbeat.interval.ms": "10",
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.min.session.timeout.ms": "1000",
}
"""What `EmbeddedBroker` and `ottla broker start` have instead of Kafka's defaults.

As in Kafka's own example configuration: a consumer that starts gets its partitions now, not in 3 seconds.
Members of consumer groups learn of a rebalance by their next heartbeat: not in 5 seconds, either. Consumer
and share groups wait for 100 ms for others to join, not for a second.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfig:
    """What a broker was started with. Each field's property, default and meaning is in BROKER_SETTINGS.

    `properties` are the texts as given, `ignored` the names among them without a meaning here. `log` and the
    fields after it are the defaults of topics. `host` and the three fields after it are those of the first
    listener.
    """

    data_dir: Path
    broker_id: int = 0
    host: str = LOOPBACK
    port: int = PORT
    advertised_host: str = ""
    advertised_port: int = 0
    listeners: tuple[Listener, ...] = ()
    authorizer: AuthorizerSettings = field(default_factory=AuthorizerSettings)
    allows_open_listeners: bool = False
    cluster_id: str = ""
    num_partitions: int = 1
    default_replication_factor: int = 1
    auto_create_topics: bool = True
    delete_topic_enable: bool = True
    request_bytes_max: int = 100 << 20
    fetch_bytes_max: int = 55 << 20
    queued_bytes_max: int = 512 << 20
    memory_bytes_max: int = 512 << 20
    racks: tuple[str, ...] = ()
    selects_by_rack: bool = False
    connections_max: int = 10_000
    connections_per_ip_max: int = INT_MAX
    fetch_sessions_max: int = 1_000
    connections_idle_ms: int = 600_000
    flush: FlushPolicy = FlushPolicy.OS
    groups: GroupConfig = field(default_factory=GroupConfig)
    transactions: TransactionConfig = field(default_factory=TransactionConfig)
    shares: ShareGroupConfig = field(default_factory=ShareGroupConfig)
    offsets_expiry_check_ms: int = 600_000
    offsets_segment_bytes: int = 100 << 20
    retention_check_ms: int = 300_000
    cleaner_enable: bool = True
    cleaner_backoff_ms: int = 15_000
    checkpoint_ms: int = 60_000
    producer_id_expiry_ms: int = 86_400_000
    zookeeper_connect: str = ""
    zookeeper_session_timeout_ms: int = 18_000
    zookeeper_connection_timeout_ms: int | None = None
    metrics_port: int | None = None
    log: LogConfig = field(default_factory=LogConfig)
    flush_messages: int = LONG_MAX
    flush_ms: int = LONG_MAX
    min_insync_replicas: int = 1
    message_downconversion: bool = True
    keeps_old_formats: bool = False
    compression_type: str = PRODUCER
    gzip_level: int = -1
    lz4_level: int = 9
    zstd_level: int = 3
    timestamp_difference_max_ms: int = LONG_MAX
    properties: Mapping[str, str] = field(default_factory=dict, hash=False, repr=False)
    ignored: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "data_dir", Path(self.data_dir))
        for row in BROKER_SETTINGS.values():
            is_number = row.minimum is not None or row.maximum is not None
            if is_number and row.check is None and row.target and "." not in row.target:
                value = getattr(self, row.target)
                if value is not None:
                    row.check_range(value)
        if not self.listeners:
            only = Listener(self.host, self.port, self.advertised_host, self.advertised_port)
            object.__setattr__(self, "listeners", (only,))
        for listener in self.listeners:
            listener.check()
        if self.queued_bytes_max < self.request_bytes_max:
            raise ConfigError(
                f"queued.max.request.bytes={self.queued_bytes_max}: it must not be below "
                f"socket.request.max.bytes={self.request_bytes_max}, or such a request would wait forever"
            )

    @classmethod
    def from_properties(cls, properties: Mapping[str, object]) -> BrokerConfig:
        """Return the config that properties describe. Raises ConfigError that names the property.

        Names are dotted or snake_case; values are texts, numbers, booleans or lists of texts.
        """
        given = texts_by_name(properties)
        ignored = tuple(sorted(name for name in given if not _is_known(name, given[name])))
        texts = with_both_ids(given)
        values: dict[str, Any] = {}
        for row in BROKER_SETTINGS.values():
            if row.name in texts:
                values.setdefault(row.target, row.parse(texts[row.name]))
        values["data_dir"] = _one_directory(values.get("data_dir", ""))
        if "flush" in values:
            values["flush"] = FlushPolicy(values["flush"])
        start = cls(data_dir=values["data_dir"], properties=given, ignored=ignored)
        listeners = client_listeners(given)
        first = {name: getattr(listeners[0], name) for name in _FIRST}
        more = {"listeners": listeners, "authorizer": authorizer_settings(given)}
        return _replaced(start, {**values, **first, **more})

    def rack_of(self, broker_id: int) -> str | None:
        """Return the rack of a broker of this process; None if it has none."""
        number = min(broker_id - self.broker_id, len(self.racks) - 1)
        return self.racks[number] if self.racks else None


@dataclass(frozen=True, slots=True)
class DynamicOverrides:
    """What admin clients have set while the broker runs: for this broker, and for all (`default`)."""

    broker: Mapping[str, str] = field(default_factory=dict, hash=False)
    default: Mapping[str, str] = field(default_factory=dict, hash=False)


def with_dynamic(config: BrokerConfig, dynamic: DynamicOverrides) -> BrokerConfig:
    """Return the config in force: as started, with the overrides over it. Raises ConfigError."""
    texts = {**dynamic.default, **dynamic.broker}
    for name in texts.keys() & IDLE_SETTINGS.keys():
        IDLE_SETTINGS[name].parse(texts[name])
    rows = [BROKER_SETTINGS[name] for name in texts if name in BROKER_SETTINGS]
    return _replaced(config, {row.target: row.parse(texts[row.name]) for row in rows})


def bounded(value: int, difference_before: int, difference: int) -> int:
    """Return a bound on timestamps; if it is not set, message.timestamp.difference.max.ms is used.

    `difference_before` is the difference that was used until now.
    """
    return difference if value in (LONG_MAX, difference_before) else value


def log_replaced(
    log: LogConfig, values: Mapping[str, Any], difference_before: int, difference: int
) -> LogConfig:
    """Return a log's config with new values, by target, and the older form of the bounds on timestamps."""
    fields = {target[4:]: value for target, value in values.items() if target.startswith("log.")}
    for name in ("message_timestamp_before_max_ms", "message_timestamp_after_max_ms"):
        fields[name] = bounded(fields.get(name, getattr(log, name)), difference_before, difference)
    return replace(log, **fields)


def _replaced(config: BrokerConfig, values: Mapping[str, Any]) -> BrokerConfig:
    before = config.timestamp_difference_max_ms
    difference = values.get("timestamp_difference_max_ms", before)
    groups, transactions, shares = (
        {target.removeprefix(part): value for target, value in values.items() if target.startswith(part)}
        for part in ("groups.", "transactions.", "shares.")
    )
    plain = {target: value for target, value in values.items() if target and "." not in target}
    return replace(
        config,
        **plain,
        log=log_replaced(config.log, values, before, difference),
        groups=replace(config.groups, **groups),
        transactions=replace(config.transactions, **transactions),
        shares=replace(config.shares, **shares),
    )


_FIRST = ("host", "port", "advertised_host", "advertised_port")
_DOTTED = {snake(name): name for name in (*BROKER_SETTINGS, *NAMES)}


def texts_by_name(properties: Mapping[str, object]) -> dict[str, str]:
    """Return properties under Kafka's dotted names, with their values as texts. Raises ConfigError."""
    texts: dict[str, str] = {}
    for given_name, value in properties.items():
        name = _DOTTED.get(given_name.strip(), given_name)
        text = text_of(tuple(value) if isinstance(value, list) else value)
        if text is None:
            raise ConfigError(f"{name}: the value is missing (None)")
        if name in texts:
            raise ConfigError(f"{given_name} and {name} are the same setting: give one of them")
        texts[name] = text
    return texts


def _is_known(name: str, text: str) -> bool:
    """Whether a property has a meaning here. Raises ConfigError if it is unknown or must not be ignored."""
    if name in BROKER_SETTINGS or listener_setting(name) is not None:
        return True
    if not is_ignored(name):
        raise ConfigError(f"{name} is not a property of a broker{hint(name, [*BROKER_SETTINGS, *NAMES])}")
    check_refused(name, text)
    return False


def with_both_ids(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties with broker.id and node.id alike. Raises ConfigError if they differ."""
    ids = {name: properties[name].strip() for name in ("broker.id", "node.id") if name in properties}
    if len(set(ids.values())) > 1:
        raise ConfigError(f"broker.id={ids['broker.id']} and node.id={ids['node.id']} must agree")
    both = {name: value for value in ids.values() for name in ("broker.id", "node.id")}
    return {**properties, **both}


def _one_directory(text: str) -> Path:
    directories = [part.strip() for part in text.split(",") if part.strip()]
    if len(directories) != 1:
        raise ConfigError(
            f"log.dirs={text}: this broker keeps its logs in exactly one directory, not {len(directories)}"
        )
    return Path(directories[0])
