"""What waited for the end of the turn goes to disk: by one call if it fits the active segment."""

from __future__ import annotations

from ottla.log.config import LogConfig
from ottla.log.leader_epochs import LeaderEpochs
from ottla.log.recent_batches import BatchPlace
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
        segments.active.append(buffers, [place for item in staged for place in item.places])
        if any(item.is_coarse for item in staged):
            segments.active.forget_recent()
    else:
        _write_rolling(staged, segments, epochs, config)


def _fits_whole(segment: Segment, staged: list[StampedSet], config: LogConfig, latest_epoch: int) -> bool:
    """Whether a whole turn goes into the segment: then so does each part, and none needs to be asked."""
    batches = size = 0
    newest = -1
    for item in staged:
        batches += len(item.places)
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
    places: list[BatchPlace] = []
    size, offset = 0, segments.active.next_offset
    for item in staged:
        segment = segments.active
        if item.leader_epoch > epochs.latest:
            epochs.assign(item.leader_epoch, offset)
        # Only what is in the segment tells its age and its index entries: let it have them before asking.
        if places and (not segment.size or len(places) + len(item.places) >= segment.index_room):
            segment.append(buffers, places)
            buffers, places, size = [], [], 0
        last_offset = item.next_offset - 1
        if segment.is_due(size + item.size, last_offset, item.max_timestamp, config, item.now_ms):
            if places:
                segment.append(buffers, places)
                buffers, places, size = [], [], 0
            segments.roll(offset, config, item.now_ms)
        buffers += item.buffers
        places += item.places
        size += item.size
        offset = item.next_offset
    segments.active.append(buffers, places)
    if any(item.is_coarse for item in staged):
        segments.active.forget_recent()
