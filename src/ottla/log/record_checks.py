"""The records of a batch of format 2, looked at one by one: what `validation` cannot tell from the header."""

from __future__ import annotations

import numpy as np

from ottla.log.batch_header import BatchHeader
from ottla.log.config import LogConfig
from ottla.log.refusals import check_timestamp, refused
from ottla.model.error_codes import Code
from ottla.model.errors import CorruptRecord
from ottla.records.reader import decode


def check_records(batch: memoryview, header: BatchHeader, config: LogConfig, now_ms: int) -> None:
    """Raise KafkaError unless all records are sound, numbered 0 to count-1, and allowed in the topic."""
    at = header.position
    try:
        decoded = decode(batch, verify_crc=False, headers=True)
        if decoded.damage is not None:
            raise decoded.damage
    except CorruptRecord as error:
        raise refused(Code.INVALID_RECORD, at, str(error)) from error
    rows = decoded.batch
    offsets = rows.column("offset").to_numpy()
    if rows.num_rows != header.record_count or (offsets != np.arange(header.record_count)).any():
        what = f"{rows.num_rows} records, not numbered from 0 to {header.record_count - 1}"
        raise refused(Code.INVALID_RECORD, at, what)
    if config.is_compacted and rows.column("key").null_count:
        what = "a compacted topic takes no record without a key"
        raise refused(Code.INVALID_RECORD, at, what)
    times = rows.column("timestamp").drop_null().cast("int64").to_numpy()
    if len(times):
        check_timestamp(int(times.min()), at, config, now_ms)
        check_timestamp(int(times.max()), at, config, now_ms)
