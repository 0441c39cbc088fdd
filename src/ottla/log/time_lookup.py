"""Offsets by time: ListOffsets of every version.

From version 1 on: the first record at or after a time, by time index, then batch headers, then records.
Version 0, and the tools of 0.8 and 0.9, ask for segment bases by the age of the files.
"""

from __future__ import annotations

from typing import NamedTuple

from ottla.log.batch_header import BatchHeader
from ottla.log.partition_log import PartitionLog
from ottla.log.segment import Segment
from ottla.model.errors import StorageError

LATEST = -1
EARLIEST = -2


class TimestampAndOffset(NamedTuple):
    """A record's time, its place, and the leader epoch of its batch (-1 if the format has none)."""

    timestamp_ms: int
    offset: int
    leader_epoch: int


def offset_for_timestamp(log: PartitionLog, timestamp_ms: int) -> TimestampAndOffset | None:
    """The first record at or after a time; None if all are older, or have no time (format 0)."""
    try:
        for segment in log.segments:
            if segment.max_timestamp >= timestamp_ms:
                found = _in_segment(segment, timestamp_ms, log.start_offset)
                if found is not None:
                    return found
    except OSError as error:
        raise StorageError(f"{log.path}: cannot look up a time: {error}") from error
    return None


def _in_segment(segment: Segment, timestamp_ms: int, start_offset: int) -> TimestampAndOffset | None:
    near = max(segment.time_index.lookup(timestamp_ms), start_offset)
    for header in segment.file.headers(segment.offset_index.lookup(near)):
        if header.max_timestamp >= timestamp_ms and header.last_offset >= start_offset:
            found = _in_batch(segment, header, timestamp_ms, start_offset)
            if found is not None:
                return found
    return None


def _in_batch(
    segment: Segment, header: BatchHeader, timestamp_ms: int, start_offset: int
) -> TimestampAndOffset | None:
    import numpy as np

    from ottla.records.reader import decode  # here, since it loads Numba

    rows = decode(segment.file.read(header.position, header.size), from_offset=start_offset).batch
    times = rows.column("timestamp").cast("int64").fill_null(-1).to_numpy()
    places = np.flatnonzero(times >= timestamp_ms)
    if not len(places):
        return None  # e.g. a control batch, which has no records for a consumer
    place = int(places[0])
    return TimestampAndOffset(int(times[place]), rows.column("offset")[place].as_py(), header.leader_epoch)


def largest_timestamp(log: PartitionLog) -> TimestampAndOffset | None:
    """The first record with the largest timestamp (ListOffsets -3); None if no record has one."""
    newest = max(segment.max_timestamp for segment in log.segments)
    if newest < 0:
        return None
    found = offset_for_timestamp(log, newest)
    return _largest_that_is_left(log) if found is None else found


def _largest_that_is_left(log: PartitionLog) -> TimestampAndOffset | None:
    """The record with the largest time is gone: deleted, or compacted away in a batch that stayed empty."""
    times = {header.max_timestamp for header in log.headers() if header.record_count}
    found = (offset_for_timestamp(log, time) for time in sorted(times, reverse=True) if time >= 0)
    return next((item for item in found if item is not None), None)


def offsets_before(log: PartitionLog, timestamp_ms: int, count_max: int, now_ms: int) -> list[int]:
    """ListOffsets 0: bases of segments last written at or before a time, newest first.

    LATEST also gives the end of the log, EARLIEST only its start.
    """
    points = [(max(segment.base_offset, log.start_offset), segment.modified_ms) for segment in log.segments]
    if log.active.size:
        points.append((log.high_watermark, now_ms))
    if timestamp_ms == LATEST:
        chosen = points
    elif timestamp_ms == EARLIEST:
        chosen = points[:1]
    else:
        chosen = [point for point in points if point[1] <= timestamp_ms]
    offsets = sorted({offset for offset, _ in chosen}, reverse=True)
    return offsets[: max(count_max, 0)]
