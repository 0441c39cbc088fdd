"""Settings of one log: Kafka's topic configs under their own names, dots as underscores.

Parsed from properties at the edge (the broker); here they are values that are checked once. Every default is
Kafka 3.9's unless its line says otherwise. Times are milliseconds, sizes bytes; -1 means without limit
where Kafka says so.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from ottla.model.errors import ConfigError

FOREVER_MS = (1 << 63) - 1
INT32_MAX = (1 << 31) - 1
DAY_MS = 86_400_000


class MessageTimestampType(Enum):
    """Whose clock stamps the records of a topic: `message.timestamp.type`."""

    CREATE_TIME = "CreateTime"
    LOG_APPEND_TIME = "LogAppendTime"


@dataclass(frozen=True, slots=True)
class LogConfig:
    """Frozen; a changed topic config is a new object, given to `PartitionLog.configure`."""

    segment_bytes: int = 1 << 30  # positions in an index are 31 bits, so 2 GiB is the end
    segment_ms: int = 7 * DAY_MS  # by record timestamps, looked at on append only
    segment_jitter_ms: int = 0  # a segment rolls earlier by less than this, each by another time
    segment_index_bytes: int = 10 << 20  # 8 bytes an entry; a full index rolls the segment
    index_interval_bytes: int = 4096  # at most this much is walked to find an offset
    retention_ms: int = 7 * DAY_MS  # -1: forever
    retention_bytes: int = -1  # a partition, not a topic
    cleanup_policy: frozenset[str] = frozenset({"delete"})  # delete, compact or both
    delete_retention_ms: int = DAY_MS  # how long a reader may take from a tombstone's write to its read
    min_cleanable_dirty_ratio: float = 0.5  # half of a log may be superseded before it is cleaned
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = FOREVER_MS  # a dirty record above this age makes a log due; it rolls in time
    file_delete_delay_ms: int = 60_000  # how long a file stays as .deleted; the caller keeps the time
    max_message_bytes: int = (1 << 20) + 12  # one batch (format 2) or message with its overhead
    message_timestamp_type: MessageTimestampType = MessageTimestampType.CREATE_TIME
    message_timestamp_before_max_ms: int = FOREVER_MS
    message_timestamp_after_max_ms: int = FOREVER_MS  # 4.0 made it an hour; 3.9 lets the future in
    # Create time, no rule about single records: header and checksum of a batch are enough. Kept, since every
    # produce needs it.
    is_plain: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        minima = {
            "segment_bytes": 14,
            "segment_ms": 1,
            "segment_jitter_ms": 0,
            "segment_index_bytes": 4,
            "index_interval_bytes": 0,
            "retention_ms": -1,
            "retention_bytes": -1,
            "delete_retention_ms": 0,
            "min_compaction_lag_ms": 0,
            "max_compaction_lag_ms": 1,
            "file_delete_delay_ms": 0,
            "max_message_bytes": 0,
            "message_timestamp_before_max_ms": 0,
            "message_timestamp_after_max_ms": 0,
        }
        for name, minimum in minima.items():
            if getattr(self, name) < minimum:
                raise ConfigError(f"{name.replace('_', '.')} is {getattr(self, name)}, below {minimum}")
        for name in ("segment_bytes", "segment_index_bytes"):
            if getattr(self, name) > INT32_MAX:
                raise ConfigError(f"{name.replace('_', '.')} is {getattr(self, name)}, above {INT32_MAX}")
        if self.min_compaction_lag_ms > self.max_compaction_lag_ms:
            lags = f"{self.min_compaction_lag_ms}, above max.compaction.lag.ms {self.max_compaction_lag_ms}"
            raise ConfigError(f"min.compaction.lag.ms is {lags}")
        if not 0 <= self.min_cleanable_dirty_ratio <= 1:
            raise ConfigError(f"min.cleanable.dirty.ratio is {self.min_cleanable_dirty_ratio}, not 0 to 1")
        if not self.cleanup_policy <= {"delete", "compact"} or not self.cleanup_policy:
            raise ConfigError(f"cleanup.policy is {sorted(self.cleanup_policy)}: delete, compact or both")
        is_create_time = self.message_timestamp_type is MessageTimestampType.CREATE_TIME
        object.__setattr__(self, "is_plain", is_create_time and not self.checks_records)

    @property
    def is_compacted(self) -> bool:
        """Whether the last value of each key is kept."""
        return "compact" in self.cleanup_policy

    @property
    def checks_records(self) -> bool:
        """Whether single records can be refused: for a missing key, or for a time that is long ago.

        A batch's header has the time of its first record and the latest time, not the earliest.
        """
        is_create_time = self.message_timestamp_type is MessageTimestampType.CREATE_TIME
        return self.is_compacted or (is_create_time and self.message_timestamp_before_max_ms != FOREVER_MS)

    @property
    def roll_ms(self) -> int:
        """How old a segment gets: a compacted topic rolls in time for max.compaction.lag.ms."""
        return min(self.segment_ms, self.max_compaction_lag_ms) if self.is_compacted else self.segment_ms

    @property
    def is_deleted(self) -> bool:
        """Whether old segments are dropped by time and size."""
        return "delete" in self.cleanup_policy
