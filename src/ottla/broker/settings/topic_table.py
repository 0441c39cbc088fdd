"""Every setting that a topic can have: those of Kafka 3.9, which include those of 4.x.

Each row says what this broker does with it: it is honoured, or it is harmless by nature on one machine
without replicas and remote storage, or only its harmless value is taken. A value that would promise what is
not kept is refused.

Kafka 4 raised the least segment.bytes to 1 MiB and lowered message.timestamp.after.max.ms to an hour; the
rows have the values of 3.9, as `LogConfig` has.
"""

from __future__ import annotations

from typing import Any

from ottla.broker.settings.setting import LONG_MAX, Setting, SettingType, table
from ottla.log.config import TimestampType

_HOURS_7_DAYS = 168 * 3_600_000
_UNREPLICATED = "Without effect: this broker does not replicate."
_NOT_REMOTE = "Without effect: this broker has no remote storage."
_AS_PRODUCED = "Without effect: batches are stored as the producer compressed them."
_THROTTLED = r"\*|[0-9]+:[0-9]+|"


def _row(name: str, kind: SettingType, default: Any, doc: str, *synonyms: str, **more: Any) -> Setting:
    return Setting(name=name, type=kind, default=default, doc=doc, synonyms=synonyms, **more)


def _long(name: str, default: int, doc: str, *synonyms: str, **more: Any) -> Setting:
    return _row(name, SettingType.LONG, default, doc, *synonyms, **more)


def _int(name: str, default: int, doc: str, *synonyms: str, **more: Any) -> Setting:
    return _row(name, SettingType.INT, default, doc, *synonyms, **more)


def _flag(name: str, doc: str, *synonyms: str, default: bool = False, **more: Any) -> Setting:
    return _row(name, SettingType.BOOLEAN, default, doc, *synonyms, **more)


def or_unlimited(value: int) -> int:
    """Kafka takes every negative number for no limit; LogConfig only -1."""
    return max(value, -1)


_LOG_ROWS = (
    _row(
        "cleanup.policy",
        SettingType.LIST,
        ("delete",),
        "How old data goes: whole segments by age and size (delete), or all but the last value of each key "
        "(compact), or both.",
        "log.cleanup.policy",
        choices=("compact", "delete"),
        target="log.cleanup_policy",
        convert=frozenset,
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
        convert=or_unlimited,
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
        "By up to this much a segment is closed before segment.ms, so that not all partitions roll at once.",
        *("log.roll.jitter.ms", "log.roll.jitter.hours"),
        unit="ms",
        minimum=0,
        target="log.segment_jitter_ms",
    ),
    _int(
        "segment.index.bytes",
        10 << 20,
        "How large a segment's index of offsets may grow; a full one closes the segment.",
        "log.index.size.max.bytes",
        unit="bytes",
        minimum=4,
        target="log.segment_index_bytes",
    ),
    _int(
        "index.interval.bytes",
        4096,
        "About so many bytes of records lie between two entries of an index.",
        "log.index.interval.bytes",
        unit="bytes",
        minimum=0,
        target="log.index_interval_bytes",
    ),
    _int(
        "max.message.bytes",
        (1 << 20) + 12,
        "The largest batch that is taken, compressed if it came compressed, with its header.",
        "message.max.bytes",
        unit="bytes",
        minimum=0,
        target="log.max_message_bytes",
    ),
    _long(
        "delete.retention.ms",
        86_400_000,
        "How long compaction keeps the mark of a deleted key for readers that are behind.",
        "log.cleaner.delete.retention.ms",
        unit="ms",
        minimum=0,
        target="log.delete_retention_ms",
    ),
    _row(
        "min.cleanable.dirty.ratio",
        SettingType.DOUBLE,
        0.5,
        "The part of a log that must be new since its last compaction before the next one is worth it.",
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
        SettingType.STRING,
        "CreateTime",
        "Whose clock stamps the records: the producer's (CreateTime) or the broker's (LogAppendTime).",
        "log.message.timestamp.type",
        choices=("CreateTime", "LogAppendTime"),
        target="log.message_timestamp_type",
        convert=TimestampType,
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
        "before it is acknowledged: more often than asked, never less.",
        "log.flush.interval.messages",
        minimum=1,
        target="flush_messages",
    ),
    _long(
        "flush.ms",
        LONG_MAX,
        "After what time the log is forced to disk. Any time here means that every write is on disk before "
        "it is acknowledged: sooner than asked, never later.",
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
        "How many replicas must have a write that asks for all of them. There is one: above 1, such writes "
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
)

_HARMLESS_ROWS = (
    _row(
        "compression.type",
        SettingType.STRING,
        "producer",
        "Batches are stored as the producer compressed them; this broker compresses nothing anew, so "
        "producer is the only value.",
        "compression.type",
        choices=("producer",),
    ),
    _int("compression.gzip.level", -1, _AS_PRODUCED, "compression.gzip.level", minimum=-1, maximum=9),
    _int("compression.lz4.level", 9, _AS_PRODUCED, "compression.lz4.level", minimum=1, maximum=17),
    _int("compression.zstd.level", 3, _AS_PRODUCED, "compression.zstd.level", minimum=-131072, maximum=22),
    _row(
        "message.format.version",
        SettingType.STRING,
        "3.0-IV1",
        "Without effect, as in Kafka since 3.0: records are stored in the format that they came in.",
        "log.message.format.version",
        pattern=r"[0-9]+\.[0-9]+(\.[0-9]+)*(-IV[0-9]+)?",
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
    _row("leader.replication.throttled.replicas", SettingType.LIST, (), _UNREPLICATED, pattern=_THROTTLED),
    _row("follower.replication.throttled.replicas", SettingType.LIST, (), _UNREPLICATED, pattern=_THROTTLED),
    _flag("remote.storage.enable", "Only false: this broker has no remote storage.", choices=("false",)),
    _flag("remote.log.copy.disable", _NOT_REMOTE),
    _flag("remote.log.delete.on.disable", _NOT_REMOTE),
    _long("local.retention.ms", -2, _NOT_REMOTE, "log.local.retention.ms", unit="ms", minimum=-2),
    _long("local.retention.bytes", -2, _NOT_REMOTE, "log.local.retention.bytes", unit="bytes", minimum=-2),
)

TOPIC_SETTINGS = table((*_LOG_ROWS, *_BROKER_ROWS, *_HARMLESS_ROWS))
