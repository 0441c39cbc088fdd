"""Writing the appends of a turn to disk: in one call if they fit into the active segment."""

from __future__ import annotations

from ottla.log.leader_epochs import LeaderEpochs
from ottla.log.log_config import LogConfig
from ottla.log.recent_batches import BatchSummary
from ottla.log.segment import Segment
from ottla.log.segment_list import SegmentList
from ottla.log.stamping import StampedSet


def write_sets(
    staged: list[StampedSet], segments: SegmentList, epochs: LeaderEpochs, config: LogConfig
) -> None:
    """Append numbered record sets. A set goes into one segment, as Kafka has it.

    Raises OSError or StorageError with part of it written: the caller undoes that.
    """
    if _fits_whole(segments.active, staged, config, epochs.latest):
        buffers = [buffer for item in staged for buffer in item.buffers]
        segments.active.append(buffers, [summary for item in staged for summary in item.summaries])
        segments.active.store_indexes_if_due()
        _note_special(segments.active, staged)
    else:
        _write_rolling(staged, segments, epochs, config)


def _fits_whole(segment: Segment, staged: list[StampedSet], config: LogConfig, latest_epoch: int) -> bool:
    """Whether all sets of a turn fit into the segment; then none has to be checked alone."""
    batches = size = 0
    newest = -1
    for item in staged:
        batches += len(item.summaries)
        size += item.size
        newest = max(newest, item.max_timestamp)
        if item.leader_epoch > latest_epoch:
            return False
    if not segment.file.size or batches >= segment.index_room:
        return False
    last = staged[-1]
    return not segment.is_due(size, last.next_offset - 1, newest, config, last.now_ms)


def _write_rolling(
    staged: list[StampedSet], segments: SegmentList, epochs: LeaderEpochs, config: LogConfig
) -> None:
    buffers: list[memoryview] = []
    summaries: list[BatchSummary] = []
    size, offset, first = 0, segments.active.next_offset, 0
    for index, item in enumerate(staged):
        segment = segments.active
        if item.leader_epoch > epochs.latest:
            epochs.assign(item.leader_epoch, offset)
        # The segment knows age and index entries only of what it has: append before `is_due`.
        if summaries and (not segment.size or len(summaries) + len(item.summaries) >= segment.index_room):
            segment.append(buffers, summaries)
            buffers, summaries, size = [], [], 0
        last_offset = item.next_offset - 1
        if segment.is_due(size + item.size, last_offset, item.max_timestamp, config, item.now_ms):
            if summaries:
                segment.append(buffers, summaries)
                buffers, summaries, size = [], [], 0
            _note_special(segment, staged[first:index])
            segments.roll(offset, config, item.now_ms)
            first = index
        buffers += item.buffers
        summaries += item.summaries
        size += item.size
        offset = item.next_offset
    segments.active.append(buffers, summaries)
    segments.active.store_indexes_if_due()
    _note_special(segments.active, staged[first:])


def _note_special(segment: Segment, sets: list[StampedSet]) -> None:
    """Note which of the sets, which are in the segment now, are coarse, and what their markers abort."""
    special = [item for item in sets if item.is_coarse or item.aborted is not None]
    if special:
        aborted = [item.aborted for item in special if item.aborted is not None]
        segment.note_aborted(aborted)
        if len(aborted) < len(special):
            segment.forget_recent()
