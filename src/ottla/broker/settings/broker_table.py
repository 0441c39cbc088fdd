"""Every setting of a broker that this one honours, under Kafka's names; `ottla.*` are its own.

Defaults are Kafka 3.9's unless the row says otherwise. Of rows with the same target the first one wins, as
log.retention.ms over log.retention.minutes over log.retention.hours. The defaults of topics are made from the
topics' table: their first synonym can change while the broker runs, the others only at its start.

Update modes are Kafka's, but for listeners: Kafka moves them while it runs, this broker does not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ottla.broker.settings.setting import INT_MAX, LONG_MAX, Setting, SettingType, UpdateMode, table
from ottla.broker.settings.topic_table import TOPIC_SETTINGS, or_unlimited
from ottla.model.errors import ConfigError

_MINUTE_MS = 60_000
_HOUR_MS = 3_600_000
_CLUSTER_WIDE = UpdateMode.CLUSTER_WIDE


def _row(name: str, kind: SettingType, default: Any, doc: str, target: str = "", **more: Any) -> Setting:
    return Setting(name=name, type=kind, default=default, doc=doc, target=target, **more)


def _int(name: str, default: int | None, doc: str, target: str = "", **more: Any) -> Setting:
    return _row(name, SettingType.INT, default, doc, target, **more)


def _long(name: str, default: int | None, doc: str, target: str = "", **more: Any) -> Setting:
    return _row(name, SettingType.LONG, default, doc, target, **more)


def _text(name: str, default: str | None, doc: str, target: str = "", **more: Any) -> Setting:
    return _row(name, SettingType.STRING, default, doc, target, **more)


def _flag(name: str, doc: str, target: str, *, default: bool) -> Setting:
    return _row(name, SettingType.BOOLEAN, default, doc, target)


def _kept(name: str) -> Callable[[int], int]:
    """A broker's default keeps all or something; only a topic may ask for nothing (retention.ms=0)."""

    def retention(value: int) -> int:
        if value == 0:
            raise ConfigError(f"{name}=0: a broker's default must be -1 (forever) or above 0")
        return or_unlimited(value)

    return retention


def _positive(value: int) -> int:
    return value if value > 0 else LONG_MAX


def _topic_default(topic: Setting) -> Setting:
    """The broker's form of a topic's setting. Where there are synonyms, the first is unset by default."""
    name = topic.synonyms[0]
    fixed = name == "log.message.format.version"
    return replace(
        topic,
        name=name,
        default=None if len(topic.synonyms) > 1 else topic.default,
        doc=f"The default of topics' {topic.name}. {topic.doc}",
        synonyms=(),
        update=UpdateMode.READ_ONLY if fixed else _CLUSTER_WIDE,
        minimum=None if name == "log.retention.ms" else topic.minimum,
        convert=_kept(name) if name == "log.retention.ms" else topic.convert,
    )


_LISTENER_ROWS = (
    _text(
        "listeners",
        "PLAINTEXT://127.0.0.1:9092",
        "Where the broker listens: one PLAINTEXT listener, and any that controller.listener.names takes out. "
        "Port 0 is a free port. Without a host it is 127.0.0.1 (Kafka: every interface), as there is no "
        "security yet.",
    ),
    _text("advertised.listeners", None, "What clients are told to connect to; without it, what is bound."),
    _text(
        "listener.security.protocol.map",
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        "The security protocol of each listener name.",
    ),
    _text("controller.listener.names", None, "Listeners that are not for clients; they are left out."),
    _text("control.plane.listener.name", None, "A listener that is not for clients; it is left out."),
    _text("host.name", None, "The host of 0.9's form of listeners."),
    _int("port", None, "The port of 0.9's form of listeners.", minimum=0, maximum=65535),
    _text("advertised.host.name", None, "The host of 0.9's form of advertised.listeners."),
    _int(
        "advertised.port", None, "The port of 0.9's form of advertised.listeners.", minimum=0, maximum=65535
    ),
)

_SERVER_ROWS = (
    _int("broker.id", 0, "The broker's number (Kafka: -1, which draws one).", "broker_id", minimum=0),
    _int("node.id", 0, "The newer name of broker.id; both must agree.", minimum=0),
    _text("log.dirs", None, "The one directory of the logs. It must be given.", "data_dir"),
    _text("log.dir", None, "The directory of the logs if log.dirs is not set.", "data_dir"),
    _text("ottla.cluster.id", "", "The id of a new data directory's cluster; empty draws one.", "cluster_id"),
    _text(
        "ottla.flush",
        "os",
        "When a write is acknowledged: once the operating system has it (os, as Kafka) or the disk (always).",
        "flush",
        choices=("os", "always"),
    ),
    _int(
        "ottla.metrics.port",
        None,
        "Where Prometheus reads /metrics; nowhere if not set, 0 is a free port.",
        "metrics_port",
        minimum=0,
        maximum=65535,
    ),
    _int(
        "num.partitions", 1, "Partitions of a topic that does not say how many.", "num_partitions", minimum=1
    ),
    _flag(
        "auto.create.topics.enable", "Make a topic when it is asked for.", "auto_create_topics", default=True
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
        "The most that one fetch gets, whatever it asks for; a first larger batch goes out all the same.",
        "fetch_bytes_max",
        unit="bytes",
        minimum=1024,
    ),
    _long(
        "queued.max.request.bytes",
        512 << 20,
        "When waiting requests hold so much memory, no more are read (Kafka: -1, without limit; here a slow "
        "disk must not cost the process its memory).",
        "queued_bytes_max",
        unit="bytes",
        convert=_positive,
    ),
    _int(
        "max.connections",
        10_000,
        "Above so many connections, new ones are closed (Kafka: without limit; here each takes memory and a "
        "file of the one process).",
        "connections_max",
        minimum=0,
        update=_CLUSTER_WIDE,
    ),
    _int(
        "max.connections.per.ip",
        INT_MAX,
        "Above so many connections of one address, its new ones are closed.",
        "connections_per_ip_max",
        minimum=0,
        update=_CLUSTER_WIDE,
    ),
    _long(
        "connections.max.idle.ms",
        600_000,
        "A connection without a request for so long is closed; negative never.",
        "connections_idle_ms",
        unit="ms",
    ),
    _int(
        "producer.id.expiration.ms",
        86_400_000,
        "How long the sequence numbers of a producer that went quiet are remembered.",
        "producer_id_expiry_ms",
        unit="ms",
        minimum=1,
        update=_CLUSTER_WIDE,
    ),
    _text(
        "zookeeper.connect", None, "Where to register, if anywhere: host:port,…/chroot.", "zookeeper_connect"
    ),
    _int(
        "zookeeper.session.timeout.ms",
        18_000,
        "After what silence ZooKeeper declares the broker dead.",
        "zookeeper_session_timeout_ms",
        unit="ms",
    ),
    _int(
        "zookeeper.connection.timeout.ms",
        None,
        "How long a start waits for ZooKeeper; as long as a session's timeout if not set.",
        "zookeeper_connection_timeout_ms",
        unit="ms",
    ),
)

_UPKEEP_ROWS = (
    _long(
        "log.retention.check.interval.ms",
        300_000,
        "How often expired segments are looked for.",
        "retention_check_ms",
        unit="ms",
        minimum=1,
    ),
    _flag("log.cleaner.enable", "Whether compaction runs.", "cleaner_enable", default=True),
    _long(
        "log.cleaner.backoff.ms",
        15_000,
        "How long compaction rests when no log is due.",
        "cleaner_backoff_ms",
        unit="ms",
        minimum=0,
        update=_CLUSTER_WIDE,
    ),
    _int(
        "log.flush.offset.checkpoint.interval.ms",
        60_000,
        "How often it is noted up to where logs are known to be sound on disk.",
        "checkpoint_ms",
        unit="ms",
        minimum=0,
    ),
)

_GROUP_ROWS = (
    _int(
        "group.min.session.timeout.ms",
        6_000,
        "The shortest session that a group's member may ask for.",
        "groups.session_timeout_min_ms",
        unit="ms",
    ),
    _int(
        "group.max.session.timeout.ms",
        1_800_000,
        "The longest session that a group's member may ask for.",
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
        "group.max.size", INT_MAX, "How many members a group may have.", "groups.member_count_max", minimum=1
    ),
    _int(
        "offset.metadata.max.bytes",
        4096,
        "How long the note with a committed offset may be.",
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
        "How often expired offsets are looked for.",
        "offsets_expiry_check_ms",
        unit="ms",
        minimum=1,
    ),
    _int(
        "offsets.topic.num.partitions",
        50,
        "Partitions of __consumer_offsets; never change it for a data directory.",
        "groups.offsets_partition_count",
        minimum=1,
    ),
    _int(
        "offsets.topic.segment.bytes",
        100 << 20,
        "Segment size of __consumer_offsets; small ones are compacted sooner.",
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
        convert=_kept("log.retention.minutes"),
    ),
    _int(
        "log.retention.hours",
        168,
        "log.retention.ms in hours.",
        "log.retention_ms",
        unit="hours",
        factor=_HOUR_MS,
        convert=_kept("log.retention.hours"),
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
        "The default of log.flush.interval.ms; in Kafka also how often that is looked at.",
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
        *(_topic_default(row) for row in TOPIC_SETTINGS.values() if row.synonyms),
        *_COARSE_ROWS,
    )
)


def sharing(row: Setting) -> tuple[str, ...]:
    """The names of all rows with a row's target, the strongest first: only its own if it has none."""
    if not row.target:
        return (row.name,)
    return tuple(other.name for other in BROKER_SETTINGS.values() if other.target == row.target)
