"""Which old segments are deleted: a pure choice by time, size and log start; and their deletion.

A segment goes whole, and only together with everything older. Its age is that of its *newest* record, and a
segment is closed only by an append: so a partition with little traffic keeps records far longer than
retention.ms, up to segment.ms + retention.ms and the pause between two appends. That is Kafka's behaviour and
this log's. When traffic stops for good, the active segment expires too.

    segment.ms 7 d, retention.ms 1 d:   day 0 ─ record ─ day 6 ─ record ─ day 7 → the record of day 0 goes
                                        (one segment; its newest record is of day 6)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ottla.log.log_config import LogConfig
from ottla.log.partition_log import PartitionLog
from ottla.log.segment import Segment
from ottla.model.errors import StorageError


class SegmentFacts(NamedTuple):
    """What the choice looks at."""

    size: int
    next_offset: int
    largest_timestamp: int


def expired_count(
    segments: Sequence[SegmentFacts | Segment], config: LogConfig, start_offset: int, now_ms: int
) -> int:
    """How many of the oldest segments to delete. The last one is active, and is kept while it is empty.

    No segment behind the first that stays is asked for its time, for which it may have to read its files.
    """
    count = 0
    is_limited = config.is_deleted and config.retention_bytes >= 0
    excess = sum(segment.size for segment in segments) - config.retention_bytes if is_limited else 0
    for index, segment in enumerate(segments):
        if index == len(segments) - 1 and not segment.size:
            break
        below_start = segment.next_offset <= start_offset and index < len(segments) - 1
        too_much = is_limited and excess - segment.size >= 0
        if not (below_start or (config.is_deleted and (too_much or _is_old(segment, config, now_ms)))):
            break
        excess -= segment.size if is_limited else 0
        count += 1
    return count


def _is_old(segment: SegmentFacts | Segment, config: LogConfig, now_ms: int) -> bool:
    return 0 <= config.retention_ms < now_ms - segment.largest_timestamp


def has_to_read(log: PartitionLog) -> bool:
    """Whether `expired` has to read files, for the age of the oldest segment."""
    return log.config.is_deleted and log.config.retention_ms >= 0 and not log.segments[0].is_read


def expired(log: PartitionLog, now_ms: int) -> int:
    """How many of the oldest segments have expired; any thread may ask. Raises StorageError."""
    try:
        return expired_count(list(log.segments), log.config, log.start_offset, now_ms)
    except OSError as error:
        raise StorageError(f"{log.path}: cannot apply retention: {error}") from error


def apply_retention(log: PartitionLog, now_ms: int) -> int:
    """Drop expired segments; return how many. Their files stay as `.deleted` until `log.purge()`."""
    count = expired(log, now_ms)
    if count:
        log.delete_oldest(count, now_ms)
    return count
