"""What waits for the end of the turn, and whether all of it goes into the active segment. Pure."""

from __future__ import annotations

from typing import NamedTuple

from ottla.log.config import LogConfig
from ottla.log.segment import Segment
from ottla.log.stamping import StampedSet


class Staged(NamedTuple):
    """A numbered record set, when it came, and the leader epoch it was stamped with."""

    stamped: StampedSet
    now_ms: int
    leader_epoch: int


def fits_whole(segment: Segment, staged: list[Staged], config: LogConfig, latest_epoch: int) -> bool:
    """Whether a whole turn goes into the segment: then so does each part, and none needs to be asked."""
    if not segment.size or any(item.leader_epoch > latest_epoch for item in staged):
        return False
    if index_nears_its_end(segment, sum(len(item.stamped.places) for item in staged)):
        return False
    size = sum(item.stamped.size for item in staged)
    newest = max(item.stamped.max_timestamp for item in staged)
    last_offset, now_ms = staged[-1].stamped.next_offset - 1, staged[-1].now_ms
    # Records without a time are judged by the clock, others by their time: ask both ways.
    return not any(segment.is_due(size, last_offset, time, config, now_ms) for time in (newest, -1))


def index_nears_its_end(segment: Segment, entries_more: int) -> bool:
    """Whether so many more batches might fill an index."""
    offsets, times = segment.offset_index, segment.time_index
    room = min(offsets.entries_max - offsets.count, times.entries_max - 1 - times.count)
    return entries_more >= room
