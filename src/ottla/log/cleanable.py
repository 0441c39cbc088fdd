"""Which logs compaction is due for, and which segments it takes: a pure choice, by Kafka's rules.

    [clean ··· clean][dirty ··· dirty][too young, or with an open transaction][active]
                     └ first dirty offset                                    └ never

A log is due when dirty bytes are above min.cleanable.dirty.ratio of those that could be compacted, or when a
dirty record is older than max.compaction.lag.ms. The dirtiest goes first.
"""

from __future__ import annotations

from collections.abc import Sequence

from ottla.log.log_config import LogConfig
from ottla.log.offset_index import ENTRY_BYTES, RELATIVE_OFFSET_MAX
from ottla.log.partition_log import PartitionLog
from ottla.log.segment import Segment


def first_dirty(log: PartitionLog, checkpointed: int) -> int:
    """Where dirty records begin. With a checkpoint outside of the log everything is dirty."""
    return checkpointed if log.start_offset <= checkpointed <= log.high_watermark else log.start_offset


def cleanable_segments(
    log: PartitionLog, first_dirty_offset: int, now_ms: int, stable_offset: int | None = None
) -> list[Segment]:
    """The sealed segments before the first dirty one with a record younger than min.compaction.lag.ms.

    None of them ends above `stable_offset`, up to which all transactions are decided.
    """
    lag, dirty = log.config.min_compaction_lag_ms, first_dirty(log, first_dirty_offset)
    segments = []
    for segment in log.segments[:-1]:
        if lag and segment.next_offset > dirty and segment.largest_timestamp > now_ms - lag:
            break
        if stable_offset is not None and segment.next_offset > stable_offset:
            break
        segments.append(segment)
    return segments


def dirty_ratio(
    log: PartitionLog, first_dirty_offset: int, now_ms: int, stable_offset: int | None = None
) -> float:
    """The share of the bytes of cleanable segments that were not compacted yet, from 0 to 1."""
    segments = cleanable_segments(log, first_dirty_offset, now_ms, stable_offset)
    total = sum(segment.size for segment in segments)
    dirty = sum(segment.size for segment in _dirty(segments, log, first_dirty_offset))
    return dirty / total if total else 0.0


def is_due(log: PartitionLog, first_dirty_offset: int, now_ms: int, stable_offset: int | None = None) -> bool:
    """Whether the log should be compacted now."""
    ratio = dirty_ratio(log, first_dirty_offset, now_ms, stable_offset)
    if ratio > log.config.min_cleanable_dirty_ratio:
        return True
    oldest = now_ms - log.config.max_compaction_lag_ms
    if not ratio or oldest <= 0:
        return False
    dirty = _dirty(log.segments[:-1], log, first_dirty_offset)
    return any(0 < segment.first_timestamp < oldest for segment in dirty)


def _dirty(segments: Sequence[Segment], log: PartitionLog, first_dirty_offset: int) -> list[Segment]:
    dirty = first_dirty(log, first_dirty_offset)
    return [segment for segment in segments if segment.next_offset > dirty]


def grouped(segments: Sequence[Segment], config: LogConfig) -> list[list[Segment]]:
    """Neighbouring segments that fit into one, by bytes, index entries and the width of relative offsets."""
    groups: list[list[Segment]] = []
    size = entries = 0
    for segment in segments:
        size += segment.size
        entries += segment.index_entries_max + 1
        fits = (
            groups
            and size <= config.segment_bytes
            and entries * ENTRY_BYTES <= config.segment_index_bytes
            and segment.next_offset - 1 - groups[-1][0].base_offset <= RELATIVE_OFFSET_MAX
        )
        if fits:
            groups[-1].append(segment)
        else:
            groups.append([segment])
            size, entries = segment.size, segment.index_entries_max + 1
    return groups
