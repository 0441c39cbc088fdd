"""Offsets by time: ListOffsets of every version.

From version 1 on: the first record at or after a time, by time index, then batch headers, then records.
Version 0, and the tools of 0.8 and 0.9, ask for segment bases by the age of the files.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ottla.log.batch_header import LOG_APPEND_TIME, BatchHeader
from ottla.log.legacy_sets import messages, unwrapped
from ottla.log.partition_log import PartitionLog
from ottla.log.record_checks import content_of
from ottla.log.record_walk import walked_records
from ottla.log.segment import Segment
from ottla.model.errors import CorruptRecord, StorageError

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
    except (OSError, CorruptRecord) as error:
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
    entry = memoryview(segment.file.read(header.position, header.size))
    for time, offset in _times(entry, header):
        if time >= timestamp_ms and offset >= start_offset:
            return TimestampAndOffset(time, offset, header.leader_epoch)
    return None  # e.g. a control batch, which has no records for a consumer


def _times(entry: memoryview, header: BatchHeader) -> Iterator[tuple[int, int]]:
    """Time and offset of every record of an entry. One batch is walked: no need for the kernels."""
    if header.magic < 2 and not header.codec:
        yield header.max_timestamp, header.last_offset
    elif header.magic < 2:
        yield from _inner_times(entry, header)
    elif not header.is_control:
        is_broker_time = header.attributes & LOG_APPEND_TIME
        for record in walked_records(content_of(entry, header), header.record_count):
            time = header.max_timestamp if is_broker_time else header.base_timestamp + record.timestamp_delta
            yield time, header.base_offset + record.offset_delta


def _inner_times(wrapper: memoryview, header: BatchHeader) -> Iterator[tuple[int, int]]:
    """Inside a compressed message of format 1 offsets count from 0, and the wrapper has that of the last."""
    inner = [item for item, _ in messages(memoryview(unwrapped(wrapper, header)))]
    first = header.last_offset - inner[-1].last_offset if header.magic == 1 else 0
    for item in inner:
        is_broker_time = header.magic == 1 and header.attributes & LOG_APPEND_TIME
        yield header.max_timestamp if is_broker_time else item.max_timestamp, first + item.last_offset


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
