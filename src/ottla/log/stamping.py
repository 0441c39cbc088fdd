"""Offsets, leader epoch and append time into a checked record set, in place wherever the format allows it.

No checksum covers the offset and the leader epoch, so the usual append only writes 16 bytes into each batch.
The append time is covered by the checksum, which is then computed again. A wrapper of format 0, or of format
1 with inner offsets that do not count from 0, is built again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ottla.log import legacy_sets
from ottla.log.batch_header import BatchHeader, named
from ottla.log.log_config import LogConfig, MessageTimestampType
from ottla.log.recent_batches import BatchSummary
from ottla.log.refusals import refused
from ottla.log.undecided import StoredAbort
from ottla.log.validation import CheckedSet
from ottla.model.checksums import crc32c
from ottla.model.error_codes import Code
from ottla.model.record_layout import (
    BATCH_ATTRIBUTES_AT,
    BATCH_CRC_AT,
    BATCH_MAX_TIMESTAMP_AT,
    CRC,
    ENTRY_OVERHEAD,
    LOG_APPEND_TIME,
    NO_TIMESTAMP,
    OFFSET,
    OFFSET_SIZE_EPOCH,
    TIMESTAMP,
)

if TYPE_CHECKING:
    from ottla.log.plain_messages import Positions


class Appended(NamedTuple):
    """What a produce response says. `append_time_ms` is -1 for topics with create time."""

    base_offset: int
    last_offset: int
    append_time_ms: int


class StampedSet(NamedTuple):
    """A record set as it goes to disk: buffers to write one after the other, and a summary of each batch.

    `append_time_ms` is -1 for topics with create time; `now_ms` is when the set came. The summaries are
    coarse if each of them stands for several messages. `aborted` is what the set's marker aborts.
    """

    buffers: tuple[memoryview, ...]
    summaries: tuple[BatchSummary, ...]
    size: int
    max_timestamp: int
    next_offset: int
    append_time_ms: int
    now_ms: int
    leader_epoch: int
    is_coarse: bool = False
    aborted: StoredAbort | None = None


def stamp(
    checked: CheckedSet, base_offset: int, leader_epoch: int, config: LogConfig, now_ms: int
) -> StampedSet:
    """Number the batches from `base_offset` on.

    Raises KafkaError 10 if a message that had to be compressed again grew above max.message.bytes, before
    anything of it can be appended.
    """
    data, batches, messages = checked
    if messages is not None:
        return _stamped_messages(checked, messages, base_offset, leader_epoch, now_ms)
    # To look up a member of an enum takes as long as a call.
    by_broker = not config.is_plain and config.message_timestamp_type is MessageTimestampType.LOG_APPEND_TIME
    append_time_ms = now_ms if by_broker else NO_TIMESTAMP
    if len(batches) == 1 and batches[0].magic == 2 and not by_broker:
        return _stamped_single(data, batches[0], base_offset, leader_epoch, now_ms)
    if not by_broker and batches and batches[0].magic < 2 and {item.attributes for item in batches} == {0}:
        return _stamped_plain(data, batches, base_offset, leader_epoch, now_ms)
    entries = _entries(data, batches, base_offset, config)
    summaries: list[BatchSummary] = []
    offset, size, newest = base_offset, 0, NO_TIMESTAMP
    for header, (entry, timestamp) in zip(batches, entries, strict=True):
        last_offset = offset + header.record_count - 1
        if header.magic == 2:
            timestamp = _stamp_batch(entry, header, offset, leader_epoch, append_time_ms)
        else:
            timestamp = _stamp_message(entry, header.magic, last_offset, timestamp, append_time_ms)
        summaries.append((len(entry), last_offset, timestamp))
        size += len(entry)
        newest = max(newest, timestamp)
        offset = last_offset + 1
    buffers = [entry for entry, _ in entries]
    parts = (tuple(buffers), tuple(summaries))
    return StampedSet(*parts, size, newest, offset, append_time_ms, now_ms, leader_epoch)


def _stamped_single(
    data: memoryview, header: BatchHeader, base_offset: int, leader_epoch: int, now_ms: int
) -> StampedSet:
    """What nearly every produce is: one batch of format 2 with create time. One patch does it."""
    size, timestamp = header.size, header.max_timestamp
    OFFSET_SIZE_EPOCH.pack_into(data, 0, base_offset, size - ENTRY_OVERHEAD, leader_epoch)
    next_offset = base_offset + header.record_count
    summaries = ((size, next_offset - 1, timestamp),)
    return named(
        StampedSet,
        ((data,), summaries, size, timestamp, next_offset, NO_TIMESTAMP, now_ms, leader_epoch, False, None),
    )


def _stamped_plain(
    data: memoryview, batches: tuple[BatchHeader, ...], base_offset: int, leader_epoch: int, now_ms: int
) -> StampedSet:
    """A few plain messages of format 0 or 1 with create time: they stay in one piece."""
    pack_into = OFFSET.pack_into
    summaries: list[BatchSummary] = []
    for offset, header in enumerate(batches, base_offset):
        pack_into(data, header.position, offset)
        summaries.append((header.size, offset, header.max_timestamp))
    newest = max([timestamp for _, _, timestamp in summaries])
    parts = ((data,), tuple(summaries), len(data))
    return StampedSet(*parts, newest, base_offset + len(batches), NO_TIMESTAMP, now_ms, leader_epoch)


def _stamped_messages(
    checked: CheckedSet, messages: Positions, base_offset: int, leader_epoch: int, now_ms: int
) -> StampedSet:
    """Plain messages of format 0 or 1 with create time: they stay in one piece."""
    from ottla.log.plain_messages import number  # here, since it loads NumPy

    number(checked.data, messages, base_offset)
    summaries: list[BatchSummary] = []
    offset, newest = base_offset, NO_TIMESTAMP
    for stretch in checked.batches:
        offset += stretch.record_count
        newest = max(newest, stretch.max_timestamp)
        summaries.append((stretch.size, offset - 1, stretch.max_timestamp))
    parts = ((checked.data,), tuple(summaries), checked.size)
    return StampedSet(*parts, newest, offset, NO_TIMESTAMP, now_ms, leader_epoch, is_coarse=True)


def _stamp_batch(
    entry: memoryview, header: BatchHeader, offset: int, leader_epoch: int, append_time_ms: int
) -> int:
    """Patch a batch of format 2; its largest timestamp."""
    OFFSET_SIZE_EPOCH.pack_into(entry, 0, offset, header.size - ENTRY_OVERHEAD, leader_epoch)
    if append_time_ms == NO_TIMESTAMP:
        return header.max_timestamp
    entry[BATCH_ATTRIBUTES_AT + 1] |= LOG_APPEND_TIME
    TIMESTAMP.pack_into(entry, BATCH_MAX_TIMESTAMP_AT, append_time_ms)
    CRC.pack_into(entry, BATCH_CRC_AT, crc32c(entry[BATCH_ATTRIBUTES_AT:]))
    return append_time_ms


def _entries(
    data: memoryview, batches: tuple[BatchHeader, ...], offset: int, config: LogConfig
) -> list[tuple[memoryview, int]]:
    """The entries as they are stored, still to be stamped, and their timestamps.

    Nothing of `data` is changed, so that a set that is refused here can be checked again.
    """
    entries = []
    for header in batches:
        entry, timestamp = data[header.position : header.position + header.size], header.max_timestamp
        if header.codec and header.magic < 2:
            entry, timestamp = _wrapped_again(entry, header, offset)
            if len(entry) > config.max_message_bytes:
                what = f"{len(entry):,} bytes after numbering are above {config.max_message_bytes:,}"
                raise refused(Code.MESSAGE_TOO_LARGE, header.position, what + " of max.message.bytes")
        entries.append((entry, timestamp))
        offset += header.record_count
    return entries


def _wrapped_again(entry: memoryview, header: BatchHeader, offset: int) -> tuple[memoryview, int]:
    """A compressed message of format 0 or 1 with numbered messages in it, and its timestamp.

    It is the same one if it is numbered already.
    """
    timestamp = header.max_timestamp
    inner = legacy_sets.unwrapped(entry, header)
    messages = [item for item, _ in legacy_sets.messages(memoryview(inner))]
    counts_from_0 = [item.base_offset for item in messages] == list(range(len(messages)))
    if header.magic == 1:
        # The wrapper must name the newest of its messages, whatever its producer wrote there.
        timestamp = max(item.max_timestamp for item in messages)
    if header.magic == 0 or not counts_from_0 or timestamp != header.max_timestamp:
        legacy_sets.renumber(inner, 0 if header.magic == 1 else offset)
        last_offset = offset + header.record_count - 1
        entry = memoryview(legacy_sets.rewrapped(inner, header, last_offset, timestamp))
    return entry, timestamp


def _stamp_message(
    entry: memoryview, magic: int, last_offset: int, timestamp: int, append_time_ms: int
) -> int:
    """Patch a message of format 0 or 1; its timestamp."""
    OFFSET.pack_into(entry, 0, last_offset)
    if magic == 0 or append_time_ms == NO_TIMESTAMP:
        return timestamp
    legacy_sets.stamp_append_time(entry, append_time_ms)
    return append_time_ms
