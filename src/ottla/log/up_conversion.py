"""Produced messages of formats 0 and 1 as a batch of format 2: what brokers since Kafka 3.0 store. Pure.

A set becomes one batch: its messages one by one, or those inside of its only compressed message, compressed
by the same codec again. Offsets are given later. Format 0 has no timestamps: its records have none either
(-1). The set must have passed `validation.checked`, so nothing of it is checked again.
"""

from __future__ import annotations

from collections.abc import Iterator

from ottla.log import legacy_sets
from ottla.log.batch_header import header_at
from ottla.log.log_config import LogConfig
from ottla.log.plain_batch import TimedRecord, batch_body, sealed_batch
from ottla.log.record_checks import RECORD_BYTES_MIN
from ottla.log.refusals import refused
from ottla.log.validation import CheckedSet
from ottla.model.error_codes import Code
from ottla.model.record_layout import (
    ENTRY_OVERHEAD,
    LEGACY_BODY_AT,
    LEGACY_TIMESTAMP_AT,
    LENGTH,
    LENGTH_BYTES,
    NO_TIMESTAMP,
    SIZE,
    SIZE_AT,
    SIZE_MIN,
    TIMESTAMP,
)


def in_format_2(checked: CheckedSet, config: LogConfig) -> CheckedSet:
    """Return the set as one batch of format 2.

    Raises KafkaError 87 for a mixture (of formats, of plain and compressed messages, of several compressed
    ones), as Kafka does, and 10 if the batch is above max.message.bytes.
    """
    first = checked.batches[0]
    is_mixed = any(header.magic != first.magic or header.codec for header in checked.batches[1:])
    if is_mixed or (first.codec and len(checked.batches) > 1):
        raise refused(Code.INVALID_RECORD, 0, "a mixture of messages that is no batch of format 2")
    data = checked.data
    if first.codec:
        data = memoryview(legacy_sets.unwrapped(data, first))
    if not first.codec:
        # Before it is built: a set may be much larger than a batch.
        saved = ENTRY_OVERHEAD + SIZE_MIN[first.magic] - RECORD_BYTES_MIN
        _check_size(len(data) - saved * checked.offsets, config)
    batch = sealed_batch(batch_body(_messages(data, first.magic)), first.codec)
    _check_size(len(batch), config)
    header = header_at(batch, 0, 0)
    assert header is not None
    return CheckedSet(memoryview(batch), (header,))


def _check_size(size: int, config: LogConfig) -> None:
    """Raise KafkaError 10 for a batch of at least `size` bytes that is too large."""
    if size > config.max_message_bytes:
        what = f"{size:,} bytes in format 2 are above max.message.bytes {config.max_message_bytes:,}"
        raise refused(Code.MESSAGE_TOO_LARGE, 0, what)


def _messages(data: memoryview, magic: int) -> Iterator[TimedRecord]:
    """Yield the plain messages of a set: timestamp, key, value."""
    body_at, timestamp = LEGACY_BODY_AT[magic], NO_TIMESTAMP
    length, end, at = LENGTH.unpack_from, len(data), 0
    while at < end:
        if magic:
            (timestamp,) = TIMESTAMP.unpack_from(data, at + LEGACY_TIMESTAMP_AT)
        key_at = at + body_at + LENGTH_BYTES
        key_size = length(data, key_at - LENGTH_BYTES)[0]
        value_at = key_at + max(key_size, 0) + LENGTH_BYTES
        value_size = length(data, value_at - LENGTH_BYTES)[0]
        key = None if key_size < 0 else data[key_at : key_at + key_size]
        value = None if value_size < 0 else data[value_at : value_at + value_size]
        yield timestamp, key, value
        at += ENTRY_OVERHEAD + SIZE.unpack_from(data, at + SIZE_AT)[0]
