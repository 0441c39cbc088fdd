"""Offsets, leader epoch and append time into a checked record set, in place wherever the format allows it.

No checksum covers the offset and the leader epoch, so the usual append only writes 12 bytes into each batch.
Append time is under the checksum, which is then made anew. A wrapper of format 0, or one of format 1 whose
inner offsets do not count from 0, is built again.
"""

from __future__ import annotations

from typing import NamedTuple

import crc32c

from ottla.log.batch_header import (
    BATCH_ATTRIBUTES_AT,
    BATCH_CRC_AT,
    BATCH_MAX_TIMESTAMP_AT,
    CRC,
    ENTRY_OVERHEAD,
    LEADER_EPOCH,
    LEADER_EPOCH_AT,
    LOG_APPEND_TIME,
    OFFSET,
    OFFSET_SIZE_EPOCH,
    TIMESTAMP,
)
from ottla.log.refusals import refused
from ottla.log.segment import BatchPlace
from ottla.log.validation import CheckedBatch, CheckedSet
from ottla.model.error_codes import Code


class StampedSet(NamedTuple):
    """A record set as it goes to disk: buffers to write one behind the other, and a place for each batch."""

    buffers: list[memoryview]
    places: list[BatchPlace]
    size: int
    max_timestamp: int
    next_offset: int


def stamp(
    checked: CheckedSet, base_offset: int, leader_epoch: int, append_time_ms: int | None, size_max: int
) -> StampedSet:
    """Number the batches from `base_offset` on. `append_time_ms` is None for topics with create time.

    Raises KafkaError 10 if a message that had to be compressed again grew above `size_max`, before anything
    of it can be appended.
    """
    if len(checked.batches) == 1 and append_time_ms is None and checked.batches[0].header.magic == 2:
        return _stamped_single(checked, base_offset, leader_epoch)
    view = checked.data
    buffers: list[memoryview] = []
    places: list[BatchPlace] = []
    offset, size, newest = base_offset, 0, -1
    for batch in checked.batches:
        entry = view[batch.header.position : batch.header.position + batch.header.size]
        last_offset = offset + batch.offsets - 1
        if batch.header.magic == 2:
            timestamp = _stamp_batch(entry, batch, offset, leader_epoch, append_time_ms)
        else:
            entry, timestamp = _stamped_message(entry, batch, offset, append_time_ms)
            if len(entry) > size_max:
                what = f"{len(entry):,} bytes after numbering are above max.message.bytes {size_max:,}"
                raise refused(Code.MESSAGE_TOO_LARGE, batch.header.position, what)
        buffers.append(entry)
        places.append(BatchPlace(len(entry), last_offset, timestamp))
        size += len(entry)
        newest = max(newest, timestamp)
        offset = last_offset + 1
    return StampedSet(buffers, places, size, newest, offset)


def _stamped_single(checked: CheckedSet, base_offset: int, leader_epoch: int) -> StampedSet:
    """What nearly every produce is: one batch of format 2 with create time. One patch does it."""
    data, ((header, offsets, _),) = checked
    OFFSET_SIZE_EPOCH.pack_into(data, 0, base_offset, header.size - ENTRY_OVERHEAD, leader_epoch)
    next_offset = base_offset + offsets
    place = BatchPlace(header.size, next_offset - 1, header.max_timestamp)
    return StampedSet([data], [place], header.size, header.max_timestamp, next_offset)


def _stamp_batch(
    entry: memoryview, batch: CheckedBatch, offset: int, leader_epoch: int, append_time_ms: int | None
) -> int:
    """Patch a batch of format 2; its largest timestamp."""
    OFFSET.pack_into(entry, 0, offset)
    LEADER_EPOCH.pack_into(entry, LEADER_EPOCH_AT, leader_epoch)
    if append_time_ms is None:
        return batch.header.max_timestamp
    entry[BATCH_ATTRIBUTES_AT + 1] |= LOG_APPEND_TIME
    TIMESTAMP.pack_into(entry, BATCH_MAX_TIMESTAMP_AT, append_time_ms)
    CRC.pack_into(entry, BATCH_CRC_AT, crc32c.crc32c(entry[BATCH_ATTRIBUTES_AT:]))
    return append_time_ms


def _stamped_message(
    entry: memoryview, batch: CheckedBatch, offset: int, append_time_ms: int | None
) -> tuple[memoryview, int]:
    """A message of format 0 or 1, patched or wrapped again, and its timestamp."""
    from ottla.log import legacy_sets  # here, since it loads Numba

    header, last_offset = batch.header, offset + batch.offsets - 1
    timestamp = header.max_timestamp
    if header.codec:
        inner = legacy_sets.unwrapped(entry, header)
        if header.magic == 1:
            # The wrapper must name the newest of its messages, whatever its producer wrote there.
            timestamp = max(item.max_timestamp for item, _ in legacy_sets.messages(memoryview(inner)))
        if not batch.sequential or timestamp != header.max_timestamp:
            legacy_sets.renumber(inner, 0 if header.magic == 1 else offset)
            entry = memoryview(legacy_sets.rewrapped(inner, header, last_offset, timestamp))
    OFFSET.pack_into(entry, 0, last_offset)
    if header.magic == 1 and append_time_ms is not None:
        timestamp = append_time_ms
        legacy_sets.stamp_append_time(entry, timestamp)
    return entry, timestamp
