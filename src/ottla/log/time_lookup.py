"""Offsets by time: ListOffsets of every version.

From version 1 on: the first record at or after a time, by time index, then batch headers, then records
as columns.
Version 0, and the tools of 0.8 and 0.9, ask for segment bases by the age of the files.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

from ottla.kernels.numpy_bytes import I64Array, read_numbers
from ottla.log.batch_header import BatchHeader
from ottla.log.legacy_sets import unwrapped
from ottla.log.message_walk import starts_of
from ottla.log.partition_log import PartitionLog
from ottla.log.record_checks import content_of
from ottla.log.record_columns import record_columns
from ottla.log.segment import Segment
from ottla.model.errors import CorruptRecord, StorageError
from ottla.model.record_layout import LEGACY_TIMESTAMP_AT, LOG_APPEND_TIME

LATEST = -1
EARLIEST = -2

Numbers = I64Array | int


class TimestampAndOffset(NamedTuple):
    """Time and offset of a record, and the leader epoch of its batch (-1 if the format has none)."""

    timestamp_ms: int
    offset: int
    leader_epoch: int


def offset_for_timestamp(log: PartitionLog, timestamp_ms: int) -> TimestampAndOffset | None:
    """The first record at or after a time; None if all are older, or have no time (format 0).

    Raises StorageError, and KafkaError 2 if a damaged segment may have it.
    """
    with _as_storage_error(log):
        for segment in list(log.segments):  # to read them takes time, and the owner may drop some meanwhile
            if segment.max_timestamp >= timestamp_ms:
                record = _in_segment(segment, timestamp_ms, log.start_offset)
                if record is not None:
                    return record
    return None


@contextmanager
def _as_storage_error(log: PartitionLog) -> Iterator[None]:
    try:
        yield
    except (OSError, CorruptRecord) as error:
        raise StorageError(f"{log.path}: cannot look up a time: {error}") from error


def _in_segment(segment: Segment, timestamp_ms: int, start_offset: int) -> TimestampAndOffset | None:
    near = segment.time_index.lookup(timestamp_ms)
    first = segment.locate(max(near, start_offset))
    if first is not None and near > segment.base_offset:
        # What the index says of a damaged entry is not so: then the whole segment is walked.
        indexed = next(segment.file.headers(first.position), None)
        if indexed is None or indexed.max_timestamp >= timestamp_ms:
            first = segment.locate(start_offset)
    if first is None:
        return None
    position, end, cuts = first.position, segment.size, segment.file.cuts
    for header in segment.file.headers(position):
        position = header.position + header.size
        if header.max_timestamp >= timestamp_ms and header.last_offset >= start_offset:
            record = _in_batch(segment, header, timestamp_ms, start_offset)
            if record is not None:
                return record
    if position < end and cuts == segment.file.cuts:
        raise segment.file.damaged(position, start_offset)  # what was looked for may be behind the damage
    return None


def _in_batch(
    segment: Segment, header: BatchHeader, timestamp_ms: int, start_offset: int
) -> TimestampAndOffset | None:
    entry = memoryview(segment.file.read(header.position, header.size))
    if header.magic < 2 and not header.codec:
        found = _first(header.max_timestamp, header.last_offset, timestamp_ms, start_offset)
    elif header.magic < 2:
        found = _first_of_messages(entry, header, timestamp_ms, start_offset)
    elif header.is_control:
        return None  # it has no records for a consumer
    else:
        found = _first_of_records(entry, header, timestamp_ms, start_offset)
    return None if found is None else TimestampAndOffset(*found, header.leader_epoch)


def _first(times: Numbers, offsets: Numbers, timestamp_ms: int, start_offset: int) -> tuple[int, int] | None:
    """Time and offset of the first record that is late and high enough."""
    times, offsets = np.broadcast_arrays(times, offsets)
    rows = np.flatnonzero((times >= timestamp_ms) & (offsets >= start_offset))
    return (int(times.flat[rows[0]]), int(offsets.flat[rows[0]])) if rows.size else None


def _first_of_records(
    entry: memoryview, header: BatchHeader, timestamp_ms: int, start_offset: int
) -> tuple[int, int] | None:
    is_broker_time = header.attributes & LOG_APPEND_TIME
    for fields in record_columns(content_of(entry, header), header.record_count):
        times = header.max_timestamp if is_broker_time else header.base_timestamp + fields.timestamp_delta
        found = _first(times, header.base_offset + fields.offset_delta, timestamp_ms, start_offset)
        if found is not None:
            return found
    return None


def _first_of_messages(
    wrapper: memoryview, header: BatchHeader, timestamp_ms: int, start_offset: int
) -> tuple[int, int] | None:
    """Inside a compressed message of format 1 offsets count from 0, and the wrapper has that of the last."""
    inner = memoryview(unwrapped(wrapper, header))
    starts = np.array(starts_of(inner), np.int64)
    if not starts.size or header.magic == 0:
        return None  # format 0 has no times
    data = np.frombuffer(inner, np.uint8)
    times: Numbers = header.max_timestamp
    if not header.attributes & LOG_APPEND_TIME:
        times = read_numbers(data, starts + LEGACY_TIMESTAMP_AT, ">i8")
    offsets = read_numbers(data, starts, ">i8")
    return _first(times, header.last_offset - offsets[-1] + offsets, timestamp_ms, start_offset)


def largest_timestamp(log: PartitionLog) -> TimestampAndOffset | None:
    """The first record with the largest timestamp (ListOffsets -3); None if no record has one.

    Raises as `offset_for_timestamp` does.
    """
    with _as_storage_error(log):
        newest = max(segment.max_timestamp for segment in list(log.segments))
    if newest < 0:
        return None
    record = offset_for_timestamp(log, newest)
    return _largest_that_is_left(log) if record is None else record


def _largest_that_is_left(log: PartitionLog) -> TimestampAndOffset | None:
    """The same for a log that lost this record, by deletion or compaction."""
    with _as_storage_error(log):
        times = {header.max_timestamp for header in log.headers() if header.record_count}
    records = (offset_for_timestamp(log, time) for time in sorted(times, reverse=True) if time >= 0)
    return next((item for item in records if item is not None), None)


def offsets_before(log: PartitionLog, timestamp_ms: int, count_max: int, now_ms: int) -> list[int]:
    """ListOffsets 0: bases of segments last written at or before a time, newest first.

    LATEST also gives the end of the log, EARLIEST only its start. Raises StorageError.
    """
    with _as_storage_error(log):
        points = [
            (max(segment.base_offset, log.start_offset), segment.modified_ms) for segment in log.segments
        ]
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
