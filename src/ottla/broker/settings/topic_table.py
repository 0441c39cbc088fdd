"""Every setting that a topic can have: those of Kafka 3.9, which include those of 4.x.

Each row says what this broker does with it: it has its effect, or none is needed on one machine without
replicas and remote storage, or only its harmless value is accepted. A value that promises more than this
broker does is refused.

Kafka 4 raised the least segment.bytes to 1 MiB and lowered message.timestamp.after.max.ms to an hour; the
rows have the values of 3.9, as `LogConfig` has.
"""

from __future__ import annotations

from typing import Any

from ottla.broker.settings.setting import Setting, table
from ottla.log.log_config import MessageTimestampType
from ottla.model.errors import ConfigError
from ottla.model.property_table import BOOLEAN, DOUBLE, INT, LIST, LONG, LONG_MAX, TEXT, Kind

PRODUCER = "producer"
"""The compression.type that leaves batches as they come."""
_HOURS_7_DAYS = 168 * 3_600_000
_UNREPLICATED = "Without effect: this broker does not replicate."
_NOT_REMOTE = "Without effect: this broker has no remote storage."
_THROTTLED = r"\*|[0-9]+:[0-9]+|"


def _row(name: str, kind: Kind, default: Any, doc: str, *broker_names: str, **more: Any) -> Setting:
    return Setting(name, kind, default, doc, broker_names=broker_names, **more)


def _long(name: str, default: int, doc: str, *broker_names: str, **more: Any) -> Setting:
    return _row(name, LONG, default, doc, *broker_names, **more)


def _int(name: str, default: int, doc: str, *broker_names: str, **more: Any) -> Setting:
    return _row(name, INT, default, doc, *broker_names, **more)


def _flag(name: str, doc: str, *broker_names: str, default: bool = False, **more: Any) -> Setting:
    return _row(name, BOOLEAN, default, doc, *broker_names, **more)


def _is_before_format_2(version: str) -> bool:
    """Return whether a version of Kafka is older than 0.11, the first that has format 2."""
    first, second = version.partition("-")[0].split(".")[:2]
    return (int(first), int(second)) < (0, 11)


def _gzip_level(level: int) -> int:
    if level == 0:
        raise ConfigError("compression.gzip.level=0: it must be 1 to 9, or -1 for the default")
    return level


def or_unlimited(value: int) -> int:
    """Return -1 for every negative number: Kafka takes them all for no limit, LogConfig only -1."""
    return max(value, -1)


_LOG_ROWS = (
    _row(
        "cleanup.policy",
        LIST,
        ("delete",),
        "How old data goes: whole segments by age and size (delete), or all but the last value of each key "
        "(compact), or both.",
        "log.cleanup.policy",
        choices=("compact", "delete"),
        target="log.cleanup_policy",
        check=frozenset,
    ),
    _long(
        "retention.ms",
        _HOURS_7_DAYS,
        "How old the newest record of a segment may be before the segment is deleted; -1 keeps it forever.",
        *("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
        unit="ms",
        minimum=-1,
        target="log.retention_ms",
    ),
    _long(
        "retention.bytes",
        -1,
        "How large a partition may grow before its oldest segments are deleted; negative is without limit.",
        "log.retention.bytes",
        unit="bytes",
        target="log.retention_bytes",
        check=or_unlimited,
    ),
    _int(
        "segment.bytes",
        1 << 30,
        "A segment file that would grow above this is closed and another begun.",
        "log.segment.bytes",
        unit="bytes",
        minimum=14,
        target="log.segment_bytes",
    ),
    _long(
        "segment.ms",
        _HOURS_7_DAYS,
        "A segment whose first record is older than this is closed by the next append.",
        *("log.roll.ms", "log.roll.hours"),
        unit="ms",
        minimum=1,
        target="log.segment_ms",
    ),
    _long(
        "segment.jitter.ms",
        0,
        "A segment is closed up to this time before segment.ms, so that not all partitions roll at once.",
        *("log.roll.jitter.ms", "log.roll.jitter.hours"),
        unit="ms",
        minimum=0,
        target="log.segment_jitter_ms",
    ),
    _int(
        "segment.index.bytes",
        10 << 20,
        "The largest offset index of a segment; a full index closes the segment.",
        "log.index.size.max.bytes",
        unit="bytes",
        minimum=4,
        target="log.segment_index_bytes",
    ),
    _int(
        "index.interval.bytes",
        4096,
        "The number of bytes of records between two entries of an index, about.",
        "log.index.interval.bytes",
        unit="bytes",
        minimum=0,
        target="log.index_interval_bytes",
    ),
    _int(
        "max.message.bytes",
        (1 << 20) + 12,
        "The largest batch that is accepted, as it was sent (compressed or not), with its header.",
        "message.max.bytes",
        unit="bytes",
        minimum=0,
        target="log.max_message_bytes",
    ),
    _long(
        "delete.retention.ms",
        86_400_000,
        "How long compaction keeps the tombstone of a deleted key for readers that are behind.",
        "log.cleaner.delete.retention.ms",
        unit="ms",
        minimum=0,
        target="log.delete_retention_ms",
    ),
    _row(
        "min.cleanable.dirty.ratio",
        DOUBLE,
        0.5,
        "The share of a log that must be new since its last compaction before it is compacted again.",
        "log.cleaner.min.cleanable.ratio",
        minimum=0,
        maximum=1,
        target="log.min_cleanable_dirty_ratio",
    ),
    _long(
        "min.compaction.lag.ms",
        0,
        "A record younger than this is not compacted away.",
        "log.cleaner.min.compaction.lag.ms",
        unit="ms",
        minimum=0,
        target="log.min_compaction_lag_ms",
    ),
    _long(
        "file.delete.delay.ms",
        60_000,
        "How long the file of a deleted segment stays for reads that are under way.",
        "log.segment.delete.delay.ms",
        unit="ms",
        minimum=0,
        target="log.file_delete_delay_ms",
    ),
    _row(
        "message.timestamp.type",
        TEXT,
        "CreateTime",
        "Whose clock stamps the records: the producer's (CreateTime) or the broker's (LogAppendTime).",
        "log.message.timestamp.type",
        choices=("CreateTime", "LogAppendTime"),
        target="log.message_timestamp_type",
        check=MessageTimestampType,
    ),
    _long(
        "message.timestamp.before.max.ms",
        LONG_MAX,
        "How far before the broker's clock a producer's timestamp may lie.",
        "log.message.timestamp.before.max.ms",
        unit="ms",
        minimum=0,
        target="log.message_timestamp_before_max_ms",
    ),
    _long(
        "message.timestamp.after.max.ms",
        LONG_MAX,
        "How far after the broker's clock a producer's timestamp may lie.",
        "log.message.timestamp.after.max.ms",
        unit="ms",
        minimum=0,
        target="log.message_timestamp_after_max_ms",
    ),
)

_BROKER_ROWS = (
    _long(
        "message.timestamp.difference.max.ms",
        LONG_MAX,
        "The older form of the two bounds on timestamps: it stands for each of them that is not set.",
        "log.message.timestamp.difference.max.ms",
        unit="ms",
        minimum=0,
        target="timestamp_difference_max_ms",
    ),
    _long(
        "flush.messages",
        LONG_MAX,
        "After how many records the log is forced to disk. Any number here means that every write is on disk "
        "before it is acknowledged: more often than set, never less often.",
        "log.flush.interval.messages",
        minimum=1,
        target="flush_messages",
    ),
    _long(
        "flush.ms",
        LONG_MAX,
        "After what time the log is forced to disk. Any time here means that every write is on disk before "
        "it is acknowledged: sooner than set, never later.",
        *("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
        unit="ms",
        minimum=0,
        target="flush_ms",
    ),
    _long(
        "max.compaction.lag.ms",
        LONG_MAX,
        "A record older than this makes its log due for compaction, however little of it is new.",
        "log.cleaner.max.compaction.lag.ms",
        unit="ms",
        minimum=1,
        target="log.max_compaction_lag_ms",
    ),
    _int(
        "min.insync.replicas",
        1,
        "How many replicas must have a write with acks=all. There is one: above 1, such writes "
        "are refused as by a Kafka whose other replicas are down.",
        "min.insync.replicas",
        minimum=1,
        target="min_insync_replicas",
    ),
    _flag(
        "message.downconversion.enable",
        "Whether clients that know only older message formats are served, by converting for them.",
        "log.message.downconversion.enable",
        default=True,
        target="message_downconversion",
    ),
    _row(
        "message.format.version",
        TEXT,
        "3.0-IV1",
        "Messages of the old formats 0 and 1 are stored as they came if this is a version before 0.11, for "
        "example 0.9.0; but not a compressed one that holds more than 256 KiB. Otherwise they become batches "
        "of format 2. Kafka since 3.0 always does that.",
        "log.message.format.version",
        pattern=r"[0-9]+\.[0-9]+(\.[0-9]+)*(-IV[0-9]+)?",
        target="keeps_old_formats",
        check=_is_before_format_2,
    ),
)

_HARMLESS_ROWS = (
    _row(
        "compression.type",
        TEXT,
        PRODUCER,
        "How batches are stored: producer keeps the codec they come with; others compress them anew.",
        "compression.type",
        target="compression_type",
        choices=("uncompressed", "zstd", "lz4", "snappy", "gzip", PRODUCER),
    ),
    _int(
        "compression.gzip.level",
        -1,
        "The level of gzip if compression.type is gzip.",
        "compression.gzip.level",
        target="gzip_level",
        minimum=-1,
        maximum=9,
        check=_gzip_level,
    ),
    _int(
        "compression.lz4.level",
        9,
        "The level of lz4 if compression.type is lz4.",
        "compression.lz4.level",
        target="lz4_level",
        minimum=1,
        maximum=17,
    ),
    _int(
        "compression.zstd.level",
        3,
        "The level of zstd if compression.type is zstd.",
        "compression.zstd.level",
        target="zstd_level",
        minimum=-131072,
        maximum=22,
    ),
    _flag(
        "preallocate",
        "Without effect: it would reserve a segment's space on disk when the segment is begun.",
        "log.preallocate",
    ),
    _flag(
        "unclean.leader.election.enable",
        "Without effect: a partition's only replica is its leader.",
        "unclean.leader.election.enable",
    ),
    _row("leader.replication.throttled.replicas", LIST, (), _UNREPLICATED, pattern=_THROTTLED),
    _row("follower.replication.throttled.replicas", LIST, (), _UNREPLICATED, pattern=_THROTTLED),
    _flag("remote.storage.enable", "Only false: this broker has no remote storage.", choices=("false",)),
    _flag("errors.deadletterqueue.group.enable", "Whether share groups may write dead letters to the topic."),
    _flag("remote.log.copy.disable", _NOT_REMOTE),
    _flag("remote.log.delete.on.disable", _NOT_REMOTE),
    _long("local.retention.ms", -2, _NOT_REMOTE, "log.local.retention.ms", unit="ms", minimum=-2),
    _long("local.retention.bytes", -2, _NOT_REMOTE, "log.local.retention.bytes", unit="bytes", minimum=-2),
)

TOPIC_SETTINGS = table((*_LOG_ROWS, *_BROKER_ROWS, *_HARMLESS_ROWS))
