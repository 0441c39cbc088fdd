"""The records of a batch of format 2, looked at one by one: what `validation` cannot tell from the header."""

from __future__ import annotations

from ottla.log.batch_header import BATCH_OVERHEAD, BatchHeader
from ottla.log.config import LogConfig
from ottla.log.record_walk import WalkedRecord, walked_records
from ottla.log.refusals import check_timestamp, refused
from ottla.model.error_codes import Code
from ottla.model.errors import CorruptRecord

DECOMPRESSED_BYTES_MAX = 256 << 20  # as for a reader: what nobody could read must not be stored


def check_records(batch: memoryview, header: BatchHeader, config: LogConfig, now_ms: int) -> None:
    """Raise KafkaError unless all records are sound, numbered 0 to count-1, and allowed in the topic."""
    at = header.position
    try:
        records = walked_records(content_of(batch, header), header.record_count)
        times = [_checked(record, number, header, config) for number, record in enumerate(records)]
    except CorruptRecord as error:
        raise refused(Code.INVALID_RECORD, at, str(error)) from error
    for time in {min(times), max(times)}:
        check_timestamp(time, at, config, now_ms)


def _checked(record: WalkedRecord, number: int, header: BatchHeader, config: LogConfig) -> int:
    """The record's time."""
    if record.offset_delta != number:
        raise CorruptRecord(f"record {number} has the number {record.offset_delta}")
    if config.is_compacted and record.key is None:
        raise CorruptRecord("a compacted topic takes no record without a key")
    return header.base_timestamp + record.timestamp_delta


def content_of(batch: memoryview, header: BatchHeader) -> memoryview:
    """The records of a batch, decompressed. Raises CorruptRecord."""
    if not header.codec:
        return batch[BATCH_OVERHEAD:]
    from ottla.records.compression import Codec, decompress  # here, since it loads NumPy

    found = decompress(Codec(header.codec), batch[BATCH_OVERHEAD:], limit=DECOMPRESSED_BYTES_MAX, magic=2)
    return found.data
