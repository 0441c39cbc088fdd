"""Every setting of a broker that has an effect here, under Kafka's names; `ottla.*` are this broker's own.

Defaults are Kafka 3.9's unless the row says otherwise. Of rows with the same target the first one wins, as
log.retention.ms over log.retention.minutes over log.retention.hours. The defaults of topics are made from the
topics' table: the first of their `broker_names` can change while the broker runs, the others at its start.
Update modes are Kafka's, except for listeners: Kafka changes them while it runs, this broker does not.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ottla.broker.settings.connection_table import CONNECTION_ROWS
from ottla.broker.settings.consumer_group_table import CONSUMER_GROUP_ROWS
from ottla.broker.settings.security_table import SECURITY_ROWS
from ottla.broker.settings.setting import Setting, UpdateMode, table
from ottla.broker.settings.share_config import SHARE_ROWS
from ottla.broker.settings.topic_table import TOPIC_SETTINGS, or_unlimited
from ottla.broker.settings.transaction_config import TRANSACTION_ROWS
from ottla.model.errors import ConfigError
from ottla.model.property_table import BOOLEAN, INT, INT_MAX, LONG, LONG_MAX, TEXT

_MINUTE_MS = 60_000
_HOUR_MS = 3_600_000
_CLUSTER_WIDE = UpdateMode.CLUSTER_WIDE


def _int(name: str, default: int | None, doc: str, target: str = "", **more: Any) -> Setting:
    return Setting(name, INT, default, doc, target=target, **more)


def _long(name: str, default: int | None, doc: str, target: str = "", **more: Any) -> Setting:
    return Setting(name, LONG, default, doc, target=target, **more)


def _text(name: str, default: str | None, doc: str, target: str = "", **more: Any) -> Setting:
    return Setting(name, TEXT, default, doc, target=target, **more)


def _flag(name: str, doc: str, target: str, *, default: bool) -> Setting:
    return Setting(name, BOOLEAN, default, doc, target=target)


def _retention(value: int) -> int:
    """A broker's default retention is not 0. Only a topic may have retention.ms=0."""
    if value == 0:
        raise ConfigError("a broker's default must be -1 (forever) or above 0")
    return or_unlimited(value)


def _positive(value: int) -> int:
    return value if value > 0 else LONG_MAX


def _topic_default(topic: Setting) -> Setting:
    """Return the broker's setting for a topic's default. If it has several names, the first has no value."""
    name = topic.broker_names[0]
    fixed = name == "log.message.format.version"
    return replace(
        topic,
        name=name,
        default=None if len(topic.broker_names) > 1 else topic.default,
        doc=f"The default of topics' {topic.name}. {topic.doc}",
        broker_names=(),
        update=UpdateMode.READ_ONLY if fixed else _CLUSTER_WIDE,
        minimum=None if name == "log.retention.ms" else topic.minimum,
        check=_retention if name == "log.retention.ms" else topic.check,
    )


_LISTENER_ROWS = (
    _text(
        "listeners",
        "PLAINTEXT://127.0.0.1:9092",
        "Where the broker listens: NAME://host:port, several with commas. Port 0 takes a free port. Without "
        "a host it is 127.0.0.1 (Kafka: every interface).",
    ),
    _text(
        "advertised.listeners",
        None,
        "The addresses that clients get, by the listener that they asked; without it, those of listeners. "
        "Each further broker of the process gets the next port.",
    ),
    _text(
        "listener.security.protocol.map",
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        "The security protocol of each listener name.",
    ),
    _text("controller.listener.names", None, "Listeners that are not for clients, and that are not opened."),
    _text("control.plane.listener.name", None, "A listener that is not for clients, and that is not opened."),
    _text("host.name", None, "The host of 0.9's form of listeners."),
    _int("port", None, "The port of 0.9's form of listeners.", minimum=0, maximum=65535),
    _text("advertised.host.name", None, "The host of 0.9's form of advertised.listeners."),
    _int(
        "advertised.port", None, "The port of 0.9's form of advertised.listeners.", minimum=0, maximum=65535
    ),
)

_SERVER_ROWS = (
    _int(
        "broker.id", 0, "The broker's number (Kafka: -1, which generates a number).", "broker_id", minimum=0
    ),
    _int("node.id", 0, "The newer name of broker.id; both must agree.", minimum=0),
    _text("log.dirs", None, "The directory of the logs: exactly one. Required.", "data_dir"),
    _text("log.dir", None, "The directory of the logs if log.dirs is not set.", "data_dir"),
    _text(
        "ottla.cluster.id", "", "The cluster id of a new data directory; if empty, a random id.", "cluster_id"
    ),
    _text(
        "ottla.flush",
        "os",
        "When a write is acknowledged: when the operating system has it (os, as Kafka) or the disk (always).",
        "flush",
        choices=("os", "always"),
    ),
    _long(
        "ottla.memory.max.bytes",
        512 << 20,
        "What clients can make the process hold: half of it requests, an eighth each answers, group members, "
        "producers. At the limit greedy clients are refused, and small ones served.",
        "memory_bytes_max",
        unit="bytes",
        minimum=8 << 20,
    ),
    _int(
        "ottla.metrics.port",
        None,
        "The port of /metrics for Prometheus; no metrics if not set, 0 takes a free port.",
        "metrics_port",
        minimum=0,
        maximum=65535,
    ),
    _int(
        "num.partitions",
        1,
        "The number of partitions of a topic that is created without one.",
        "num_partitions",
        minimum=1,
    ),
    _int(
        "default.replication.factor",
        1,
        "The replication factor of a topic that is created without one; at most as many as brokers are up "
        "(Kafka refuses the topic then).",
        "default_replication_factor",
        minimum=1,
    ),
    _flag(
        "auto.create.topics.enable",
        "Whether a topic is created when a client names it.",
        "auto_create_topics",
        default=True,
    ),
    _flag("delete.topic.enable", "Whether topics can be deleted.", "delete_topic_enable", default=True),
    _int(
        "socket.request.max.bytes",
        100 << 20,
        "A larger request ends its connection.",
        "request_bytes_max",
        unit="bytes",
        minimum=1,
    ),
    _int(
        "fetch.max.bytes",
        55 << 20,
        "The largest answer to a fetch, whatever the client allows; a larger first batch is sent anyway.",
        "fetch_bytes_max",
        unit="bytes",
        minimum=1024,
    ),
    _long(
        "queued.max.request.bytes",
        512 << 20,
        "The most memory of requests that wait for their answers; above it large senders wait (Kafka: -1, no "
        "limit; here a slow disk must not use up the memory of the process).",
        "queued_bytes_max",
        unit="bytes",
        check=_positive,
    ),
    *CONNECTION_ROWS,
    _int(
        "producer.id.expiration.ms",
        86_400_000,
        "How long the sequence numbers of a producer that sends nothing are remembered.",
        "producer_id_expiry_ms",
        unit="ms",
        minimum=1,
        update=_CLUSTER_WIDE,
    ),
    _text(
        "zookeeper.connect",
        None,
        "The ZooKeeper to register in: host:port,…/chroot; if not set, none.",
        "zookeeper_connect",
    ),
    _int(
        "zookeeper.session.timeout.ms",
        18_000,
        "The time without heartbeats after which ZooKeeper takes the broker for dead.",
        "zookeeper_session_timeout_ms",
        unit="ms",
    ),
    _int(
        "zookeeper.connection.timeout.ms",
        None,
        "How long a start waits for ZooKeeper; if not set, zookeeper.session.timeout.ms.",
        "zookeeper_connection_timeout_ms",
        unit="ms",
    ),
)

_UPKEEP_ROWS = (
    _long(
        "log.retention.check.interval.ms",
        300_000,
        "How often retention runs.",
        "retention_check_ms",
        unit="ms",
        minimum=1,
    ),
    _flag("log.cleaner.enable", "Whether compaction runs.", "cleaner_enable", default=True),
    _long(
        "log.cleaner.backoff.ms",
        15_000,
        "How long compaction waits when no log is due.",
        "cleaner_backoff_ms",
        unit="ms",
        minimum=0,
        update=_CLUSTER_WIDE,
    ),
    _int(
        "log.flush.offset.checkpoint.interval.ms",
        60_000,
        "How often recovery points are stored: up to them a restart need not check the logs.",
        "checkpoint_ms",
        unit="ms",
        minimum=0,
    ),
)

_GROUP_ROWS = (
    _int(
        "group.min.session.timeout.ms",
        6_000,
        "The shortest session timeout of a member.",
        "groups.session_timeout_min_ms",
        unit="ms",
    ),
    _int(
        "group.max.session.timeout.ms",
        1_800_000,
        "The longest session timeout of a member.",
        "groups.session_timeout_max_ms",
        unit="ms",
    ),
    _int(
        "group.initial.rebalance.delay.ms",
        3_000,
        "How long a new group waits for more members before its first rebalance.",
        "groups.initial_rebalance_delay_ms",
        unit="ms",
    ),
    _int(
        "group.max.size",
        INT_MAX,
        "The largest number of members of a group.",
        "groups.member_count_max",
        minimum=1,
    ),
    _int(
        "offset.metadata.max.bytes",
        4096,
        "The largest metadata of a committed offset, in characters.",
        "groups.metadata_length_max",
    ),
    _int(
        "offsets.retention.minutes",
        10_080,
        "How long the offsets of a group without members are kept.",
        "groups.offsets_retention_ms",
        unit="minutes",
        minimum=1,
        factor=_MINUTE_MS,
    ),
    _long(
        "offsets.retention.check.interval.ms",
        600_000,
        "How often expired offsets are deleted.",
        "offsets_expiry_check_ms",
        unit="ms",
        minimum=1,
    ),
    _int(
        "offsets.topic.num.partitions",
        50,
        "Partitions of __consumer_offsets when it is created; later changes have no effect.",
        "groups.offsets_partition_count",
        minimum=1,
    ),
    _int(
        "offsets.topic.segment.bytes",
        100 << 20,
        "The segment size of __consumer_offsets; small segments are compacted sooner.",
        "offsets_segment_bytes",
        unit="bytes",
        minimum=1,
    ),
)

_COARSE_ROWS = (
    _int(
        "log.retention.minutes",
        None,
        "log.retention.ms in minutes.",
        "log.retention_ms",
        unit="minutes",
        factor=_MINUTE_MS,
        check=_retention,
    ),
    _int(
        "log.retention.hours",
        168,
        "log.retention.ms in hours.",
        "log.retention_ms",
        unit="hours",
        factor=_HOUR_MS,
        check=_retention,
    ),
    _int(
        "log.roll.hours",
        168,
        "log.roll.ms in hours.",
        "log.segment_ms",
        unit="hours",
        minimum=1,
        factor=_HOUR_MS,
    ),
    _int(
        "log.roll.jitter.hours",
        0,
        "log.roll.jitter.ms in hours.",
        "log.segment_jitter_ms",
        unit="hours",
        minimum=0,
        factor=_HOUR_MS,
    ),
    _long(
        "log.flush.scheduler.interval.ms",
        LONG_MAX,
        "The default of log.flush.interval.ms; in Kafka also how often that is checked.",
        "flush_ms",
        unit="ms",
        minimum=0,
    ),
)

BROKER_SETTINGS = table(
    (
        *_LISTENER_ROWS,
        *_SERVER_ROWS,
        *_UPKEEP_ROWS,
        *_GROUP_ROWS,
        *CONSUMER_GROUP_ROWS,
        *TRANSACTION_ROWS,
        *SHARE_ROWS,
        *(_topic_default(row) for row in TOPIC_SETTINGS.values() if row.broker_names),
        *_COARSE_ROWS,
        *SECURITY_ROWS,
    )
)


def sharing(row: Setting) -> tuple[str, ...]:
    """Return the names of all rows with the same target, the one with the highest precedence first."""
    if not row.target:
        return (row.name,)
    return tuple(other.name for other in BROKER_SETTINGS.values() if other.target == row.target)
