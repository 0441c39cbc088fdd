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
    else:
        _write_rolling(staged, segments, epochs, config)


def _fits_whole(segment: Segment, staged: list[StampedSet], config: LogConfig, latest_epoch: int) -> bool:
    """Whether a whole turn goes into the segment: then so does each part, and none needs to be asked."""
    batches = size = 0
    newest = -1
    all_have_times = True
    for item in staged:
        batches += len(item.places)
        size += item.size
        if item.max_timestamp > newest:
            newest = item.max_timestamp
        elif item.max_timestamp < 0:
            all_have_times = False
        if item.leader_epoch > latest_epoch:
            return False
    if not segment.file.size or batches >= segment.index_room:
        return False
    last_offset, now_ms = staged[-1].next_offset - 1, staged[-1].now_ms
    # Records with a time are judged by it, others by the clock.
    return not segment.is_due(size, last_offset, newest, config, now_ms) and (
        all_have_times or not segment.is_due(size, last_offset, -1, config, now_ms)
    )


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
